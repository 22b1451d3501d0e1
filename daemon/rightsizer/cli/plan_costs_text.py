"""The bill of a candidate for people: a line for each way to have its GPUs."""

from collections.abc import Iterator, Sequence
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
        work = _work_column(bill.offers[0].dollars, unit)
        rows = [_offer_row(each, work, notes) for each in bill.offers]
        header = ("terms", "$/h", "from", work[0], "as of", "")
        yield from (f"  {line}" for line in aligned(header, rows, _LEFT))
    else:
        yield "  nobody names a price; state yours under 'prices' of the plan, or with --prices"
    if bill.ownership is not None:
        is_rented = any(each.terms.billing is Billing.ON_DEMAND for each in bill.offers)
        text = _ownership_text(bill.ownership, is_rented=is_rented)
        yield from wrapped(text, indent=2)
    yield from wrapped(_energy_text(bill, unit), indent=2)
    for line in notes.lines():
        yield from wrapped(line, indent=2, hanging=4)


def _work_column(dollars_of: Amount, unit: str) -> tuple[str, str]:
    """The heading of what work costs, and the part of an amount that has it."""
    if dollars_of.per_run is not None:
        return "$/run", "per_run"
    if dollars_of.per_image is not None and dollars_of.per_image.value >= _LEAST_IMAGE:
        return "$/image", "per_image"
    return f"$/M {unit}", "per_million"


def _offer_row(offer: Offer, work: tuple[str, str], notes: SourceNotes) -> Sequence[str]:
    hourly = offer.dollars.per_hour
    done = getattr(offer.dollars, work[1])
    spread = f"{dollars(hourly.low)} to {dollars(hourly.high)}"
    assumed = "assumed " if offer.terms.is_assumed else ""
    return (
        _TERMS[offer.terms.billing],
        dollars(hourly.value),
        spread if hourly.low < hourly.high else "",
        NOTHING if done is None else dollars(done.value),
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
