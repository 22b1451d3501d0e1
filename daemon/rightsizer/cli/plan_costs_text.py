"""The bill of a candidate for people: a line for each way to have its GPUs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.cli.aligned import aligned
from rightsizer.cli.plan_figures import NOTHING, dollars, interval_text, number
from rightsizer.cli.source_notes import SourceNotes
from rightsizer.cli.wrapped import wrapped
from rightsizer.sizing.bill import Amount, Bill, Offer, Ownership
from rightsizer.sizing.candidates import Candidate
from rightsizer.sizing.hourly_cost import Billing

__all__ = ["costs_lines"]

_TERMS: Final = {
    Billing.ON_DEMAND: "on demand",
    Billing.RESERVED_1_YEAR: "reserved, 1 year",
    Billing.RESERVED_3_YEARS: "reserved, 3 years",
    Billing.SPOT: "spot",
    Billing.ON_PREMISES: "owned, per used hour",
}
_LEAST_IMAGE: Final = 1e-4
_VISIBLY: Final = 1.005
_LEFT: Final = frozenset({"terms", "from", "as of", ""})


def costs_lines(candidate: Candidate, unit: str) -> Iterator[str]:
    """What so many GPUs cost on all terms, with energy and carbon.

    Args:
        candidate: With its bill.
        unit: What it makes: `tokens`, `images`.
    """
    bill = candidate.bill
    if bill is None:
        return
    yield f"what {candidate.count} x {candidate.gpu} cost:"
    notes = SourceNotes()
    if bill.offers:
        columns = _work_columns(candidate, bill.offers[0].dollars, unit)
        rows = [_offer_row(each, columns, notes) for each in bill.offers]
        header = ("terms", "$/h", "from", *(each.heading for each in columns), "as of", "")
        yield from (f"  {line}" for line in aligned(header, rows, _LEFT))
        if len(columns) > 1:
            text = f"{columns[0].heading}: of {unit} asked for; full load: of all it could make."
            yield from wrapped(text, indent=2)
    else:
        yield "  nobody names a price; state yours under 'prices' of the plan, or with --prices"
    if bill.ownership is not None:
        is_rented = any(each.terms.billing is Billing.ON_DEMAND for each in bill.offers)
        text = _ownership_text(bill.ownership, is_rented=is_rented)
        yield from wrapped(text, indent=2)
    full = " at full load" if _idle_factor(candidate) > 1.0 else ""
    yield from wrapped(_energy_text(bill, f"{unit}{full}"), indent=2)
    for line in notes.lines():
        yield from wrapped(line, indent=2, hanging=4)


@dataclass(frozen=True, slots=True)
class _Work:
    """A column of what work costs."""

    heading: str
    part: str
    """Of an amount."""
    factor: float = 1.0
    """Times so much."""


def _work_columns(candidate: Candidate, dollars_of: Amount, unit: str) -> tuple[_Work, ...]:
    if dollars_of.per_run is not None:
        return (_Work("$/run", "per_run"),)
    idle = _idle_factor(candidate)
    if dollars_of.per_image is not None and dollars_of.per_image.value >= _LEAST_IMAGE:
        heading, part = "$/image", "per_image"
    else:
        heading, part = f"$/M {unit}", "per_million"
    if idle == 1.0:
        return (_Work(heading, part),)
    # A table of a hundred signs has no room for the unit twice.
    heading = heading.removesuffix(f" {unit}")
    return (_Work(heading, part, idle), _Work("full load", part))


def _idle_factor(candidate: Candidate) -> float:
    """How much more work costs at the load that is asked for than at full load."""
    full, asked = candidate.dollars_per_million_tokens, candidate.work_dollars
    return asked / full if full and asked and asked > full * _VISIBLY else 1.0


def _offer_row(offer: Offer, columns: Sequence[_Work], notes: SourceNotes) -> Sequence[str]:
    hourly = offer.dollars.per_hour
    amounts = [(getattr(offer.dollars, each.part), each.factor) for each in columns]
    spread = f"{dollars(hourly.low)} to {dollars(hourly.high)}"
    assumed = "assumed " if offer.terms.is_assumed else ""
    return (
        _TERMS[offer.terms.billing],
        dollars(hourly.value),
        spread if hourly.low < hourly.high else "",
        *(NOTHING if done is None else dollars(done.value * factor) for done, factor in amounts),
        offer.terms.date or "undated",
        f"{assumed}{notes.mark(offer.terms.source)}".strip(),
    )


def _ownership_text(ownership: Ownership, *, is_rented: bool) -> str:
    capital, running = ownership.capital_dollars, ownership.running_dollars_per_hour
    text = (
        f"To own: ${number(capital.value)} ({interval_text(capital)}) with their servers, then"
        f" ${dollars(running.value)} an hour."
    )
    hours, months = ownership.break_even_hours, ownership.break_even_months
    if not is_rented:
        return f"{text} Nobody names a price to rent them at."
    if hours is None:
        return f"{text} It never costs less than renting."
    used = f"{number(hours.value)} used hours ({interval_text(hours)})"
    text += f" Cheaper than on demand after {used}"
    use = f"at {ownership.utilization_ratio:.0%} use"
    if months is None:
        return f"{text}; {use} never."
    return f"{text}: {number(months.value)} months {use} ({interval_text(months)})."


def _energy_text(bill: Bill, unit: str) -> str:
    text = f"Energy at the meter: {_parts(bill.kilowatt_hours, 'kW', 'kWh', unit)}."
    if bill.carbon_kilograms is None:
        return f"{text} Carbon: not known without prices.carbon_grams_per_kwh."
    carbon = _parts(bill.carbon_kilograms, "kg an hour", "kg", unit)
    return f"{text} Carbon at {bill.carbon_grams_per_kilowatt_hour:g} g/kWh: {carbon}."


def _parts(amount: Amount, hourly: str, each: str, unit: str) -> str:
    work = (
        (amount.per_run, "the run"),
        (amount.per_million, f"a million {unit}"),
    )
    found = [f"{number(part.value)} {each} for {what}" for part, what in work if part is not None]
    spread = interval_text(amount.per_hour)
    return ", ".join([f"{number(amount.per_hour.value)} {hourly} ({spread})", *found])
