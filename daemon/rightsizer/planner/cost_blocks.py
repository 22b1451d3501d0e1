"""Blocks of a plan's bills, rejections and growth."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rightsizer.io.terminal import counted
from rightsizer.model.units import percent_text
from rightsizer.planner.candidate import (
    Bill,
    CostAmount,
    OwnershipCost,
    PlanCandidate,
    PriceOffer,
    rejected,
)
from rightsizer.planner.display import (
    BILLING_TERMS,
    DOUBTED,
    NOTHING,
    SourceNotes,
    dollars,
    interval_text,
    number,
    percent,
    priced,
)
from rightsizer.planner.growth import GrowingKind, GrowthOutlook
from rightsizer.planner.planner import GpuPlan
from rightsizer.report.blocks import (
    Bar,
    BarPart,
    Block,
    CellKind,
    Heading,
    Items,
    Section,
    section,
    table,
)
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.requirement import Requirement

if TYPE_CHECKING:
    from rightsizer.planner.curve import CurvePoint

_EQUAL: Final = 1.005
"""Ratio to the cost of the first, up to which costs count as equal."""
_MANIFOLD: Final = 10.0
"""Ratio to the cost of the first, from which a factor reads better than a percentage."""
_LEAST_IMAGE: Final = 1e-4
_VISIBLY: Final = 1.005
_LEFT: Final = frozenset({"terms", "from", "as of", ""})
_Work = tuple[str, str, float]
"""Column of the cost of work: its heading, the part of an amount, and a factor."""
_NAMED: Final = 8
_GROWTH_LEFT: Final = frozenset({"kind", "$ in all", "remark"})


def costs_section(candidate: PlanCandidate, unit: str) -> Section:
    """Return the cost of the GPUs on all terms, with energy and carbon."""
    blocks = () if candidate.bill is None else _bill(candidate, candidate.bill, unit)
    return section(f"what {candidate.with_spares} cost:", *blocks)


def _bill(candidate: PlanCandidate, bill: Bill, unit: str) -> Iterator[Block]:
    notes = SourceNotes()
    if bill.offers:
        columns = _work_columns(candidate, bill.offers[0].dollars, unit)
        rows = [_offer_row(offer, columns, notes) for offer in bill.offers]
        header = ("terms", "$/h", "from", *(heading for heading, _, _ in columns), "as of", "")
        several = f"{columns[0][0]}: of {unit} asked for; full load: of all it could make."
        yield table(_kinds(header, _LEFT), rows, several if len(columns) > 1 else "")
    else:
        yield "no price is known; state yours under 'prices' of the plan, or with --prices"
    if bill.ownership is not None:
        yield _ownership_text(bill.ownership, is_rented=bill.on_demand is not None)
    full = " at full load" if _idle_factor(candidate) > 1.0 else ""
    yield _energy_text(bill, f"{unit}{full}")
    yield Items(tuple(notes.lines()))


def _kinds(names: Iterable[str], left: Collection[str]) -> tuple[Heading, ...]:
    return tuple(name if name in left else (name, CellKind.NUMBER) for name in names)


def _work_columns(candidate: PlanCandidate, dollars_of: CostAmount, unit: str) -> tuple[_Work, ...]:
    if dollars_of.per_run is not None:
        return (("$/run", "per_run", 1.0),)
    idle = _idle_factor(candidate)
    if dollars_of.per_image is not None and dollars_of.per_image.value >= _LEAST_IMAGE:
        heading = "$/image"
        part = "per_image"
    else:
        heading = f"$/M {unit}"
        part = "per_million"
    if idle == 1.0:
        return ((heading, part, 1.0),)
    # A table of 100 columns has no space to repeat the unit.
    return ((heading.removesuffix(f" {unit}"), part, idle), ("full load", part, 1.0))


def _idle_factor(candidate: PlanCandidate) -> float:
    """Return the cost of work at the requested load relative to full load."""
    full = candidate.full_load_dollars_per_million
    at_demand = candidate.dollars_per_million
    return at_demand / full if full and at_demand and at_demand > full * _VISIBLY else 1.0


def _offer_row(offer: PriceOffer, columns: Sequence[_Work], notes: SourceNotes) -> Sequence[str]:
    hourly = offer.dollars.per_hour
    amounts = [(getattr(offer.dollars, part), factor) for _, part, factor in columns]
    spread = f"{dollars(hourly.low)} to {dollars(hourly.high)}"
    assumed = "assumed " if offer.terms.is_assumed else ""
    return (
        BILLING_TERMS[offer.terms.billing],
        dollars(hourly.value),
        spread if hourly.low < hourly.high else "",
        *(NOTHING if done is None else dollars(done.value * factor) for done, factor in amounts),
        offer.terms.date or "undated",
        f"{assumed}{notes.mark(offer.terms.source)}".strip(),
    )


def _ownership_text(ownership: OwnershipCost, *, is_rented: bool) -> str:
    capital = ownership.owned.capital_dollars
    running = ownership.owned.running_dollars_per_hour
    bought = f"${number(capital.value)} ({interval_text(capital)}) with their servers"
    text = f"To own: {bought}, then ${dollars(running.value)} an hour."
    hours = ownership.break_even_hours
    months = ownership.break_even_months
    if not is_rented:
        return f"{text} No price to rent them at is known."
    if hours is None:
        return f"{text} It never costs less than renting."
    text += f" Cheaper than on demand after {number(hours.value)} used hours"
    text += f" ({interval_text(hours)})"
    use = f"at {percent_text(ownership.utilization_ratio)} use"
    if months is None:
        return f"{text}; {use} never."
    return f"{text}: {number(months.value)} months {use} ({interval_text(months)})."


def _energy_text(bill: Bill, unit: str) -> str:
    text = f"Energy at the meter: {_parts(bill.kilowatt_hours, 'kW', 'kWh', unit)}."
    if bill.carbon_kilograms is None:
        return f"{text} Carbon: not known without prices.carbon_grams_per_kwh."
    carbon = _parts(bill.carbon_kilograms, "kg an hour", "kg", unit)
    return f"{text} Carbon at {bill.carbon_grams_per_kilowatt_hour:g} g/kWh: {carbon}."


def _parts(amount: CostAmount, hourly: str, part_unit: str, unit: str) -> str:
    work = ((amount.per_run, "the run"), (amount.per_million, f"a million {unit}"))
    parts = [
        f"{number(part.value)} {part_unit} for {what}" for part, what in work if part is not None
    ]
    spread = interval_text(amount.per_hour)
    return ", ".join([f"{number(amount.per_hour.value)} {hourly} ({spread})", *parts])


def rejected_title(candidates: Sequence[PlanCandidate]) -> str:
    """Return the title with the number of unsuitable candidates."""
    count = sum(not candidate.fits for candidate in candidates)
    return f"rejected, {count} of {counted(len(candidates), 'kind', 'kinds')} of GPU:"


def rejection_section(candidates: Sequence[PlanCandidate], *, shows_all: bool) -> Section:
    """Return all unsuitable candidates, by the first filter each failed; nearest first."""
    blocks = list[Block]()
    for by, failed in rejected(candidates).items():
        shown = failed if shows_all else failed[:1]
        lines = [f"{candidate}: {'; '.join(map(str, candidate.rejections))}" for candidate in shown]
        rest = [candidate.gpu for candidate in failed[len(shown) :]]
        if rest:
            more = f", and {len(rest) - _NAMED} more (--all)" if len(rest) > _NAMED else ""
            lines.append(f"also {', '.join(rest[:_NAMED])}{more}")
        blocks.append(section(f"{by.lack} on {len(failed)}:", Items(tuple(lines))))
    return section(rejected_title(candidates), *blocks)


def curve_section(plan: GpuPlan) -> Block:
    """Return what other rates and latencies cost, where nothing is better for less."""
    points = plan.curve
    if len(points) <= 1:
        return ""
    highest_dollars = max(point.dollars_per_hour for point in points)
    rate = "requests/s" if points[0].requests_per_second is not None else "in flight"
    is_limited = bool(points[0].limits)
    within = ("within",) if is_limited else ()
    what = "rate and latency" if is_limited else "rate"
    header = ("$/h", (rate, CellKind.NUMBER), *within, "GPUs")
    rows = []
    for point in points:
        cost = priced(point.dollars_per_hour, point.candidate.hourly_range)
        share = BarPart("cost", "g-working", point.dollars_per_hour / highest_dollars)
        rows.append(
            (
                Bar("dollars an hour", (share,), cost),
                number(point.requests_per_second or point.load.concurrency),
                *((_limits_text(point),) if is_limited else ()),
                point.candidate.with_spares,
            )
        )
    return section(
        f"cost against {what}, where nothing is better for less:",
        table(header, rows),
    )


def _limits_text(point: "CurvePoint") -> str:
    """Return the latencies that a point keeps."""
    names = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "latency_ms": "answer"}
    return ", ".join(f"{names[name]} {number(limit)} ms" for name, limit in point.limits.items())


def growth_section(plan: GpuPlan) -> Block:
    """Return the steps of today's choice, total costs of leading kinds, and when to switch."""
    outlook = plan.outlook
    if outlook is None:
        return ""
    last = plan.growth[-1]
    header = ("month", "load", "GPUs", "$/h", "remark")
    rows = (
        (str(step.month), f"x{step.load_ratio:.2f}", *_grown_cells(step.candidate))
        for step in plan.growth
    )
    kinds = (
        (
            kind.gpu,
            str(kind.steps[0].candidate.count),
            str(kind.steps[-1].candidate.count) if kind.outgrown is None else NOTHING,
            _span_text(plan.span_dollars(kind), kind),
            "" if kind.outgrown is None else f"outgrown in month {kind.outgrown}",
        )
        for kind in (outlook.kinds if len(outlook.kinds) > 1 else ())
    )
    leading = ("kind", "now", "then", "$ in all", "remark")
    return section(
        f"as the load grows, x{last.load_ratio:.2f} in {last.month} months:",
        table(_kinds(header, {"GPUs", "$/h", "remark"}), rows),
        section(
            f"over all {last.month} months, as many of a kind as each month takes:",
            table(_kinds(leading, _GROWTH_LEFT), kinds),
        ),
        growth_verdict(outlook, plan.growth[0].candidate.gpu),
    )


def _grown_cells(candidate: PlanCandidate) -> tuple[str, str, str]:
    if not candidate.fits:
        return candidate.with_spares, NOTHING, candidate.rejections[0].by.lack
    return (
        candidate.with_spares,
        priced(candidate.dollars_per_hour, candidate.hourly_range),
        "",
    )


def _span_text(interval: EstimateInterval | None, kind: GrowingKind) -> str:
    """Return the cost of all months, followed by its range."""
    if kind.outgrown is not None:
        return NOTHING
    value_text = number(kind.dollars())
    if interval is None or not interval.low < interval.high:
        return value_text
    return f"{value_text} ({interval_text(interval)})"


def _counts_text(outlook: GrowthOutlook, gpu: str) -> str:
    """Return how many of a kind are needed when, as in `2 now, 3 from month 7`."""
    steps = next(kind.steps for kind in outlook.kinds if kind.gpu == gpu)
    texts = [f"{steps[0].candidate.count} now"]
    texts += [
        f"{step.candidate.count} from month {step.month}"
        for former, step in pairwise(steps)
        if step.candidate.count != former.candidate.count
    ]
    last = steps[-1].month
    return ", ".join(texts) if len(texts) > 1 else f"{texts[0]} hold all {last} months"


def growth_verdict(outlook: GrowthOutlook, today: str) -> str:
    """Return when to switch from today's GPU, and to which."""
    switch = outlook.switch
    cheapest = outlook.cheapest
    if switch is None:
        if outlook.outgrown is not None:
            return f"From month {outlook.outgrown} on none of them holds the load."
        if cheapest is None or cheapest.gpu == today:
            return f"{today} stays the best choice: {_counts_text(outlook, today)}."
        return f"{cheapest.gpu} is the cheapest over all months, but not by enough to change over."
    why = f"{today} no longer holds the load"
    if switch.dollars_saved is not None:
        why = f"it is cheaper, which saves ${number(switch.dollars_saved)}"
    text = f"Change over in month {switch.month} to {switch.count} x {switch.gpu}: {why}."
    if cheapest is not None and cheapest.gpu != today:
        text += f" Starting with {cheapest.gpu} is the cheapest over all months."
    return text


def shortcomings(
    requirement: Requirement, best: PlanCandidate, other: PlanCandidate
) -> Iterator[str]:
    """Yield why a candidate ranks after the first; for the first, its risks."""
    if other is not best:
        cost = other.sure_dollars_per_million
        least = best.sure_dollars_per_million
        if cost is None and least is not None:
            yield "no price is known"
        elif cost is None or least is None:
            yield "more GPUs" if other.paid_count > best.paid_count else "slower"
        else:
            yield _dearer(requirement, cost, least)
    if other.sole_cloud:
        yield f"only at {other.sole_cloud}"
    chances = {
        "in time": other.rate.targets_probability,
        "to make the rate": other.rate.load_probability,
        "to fit the memory": other.memory_probability,
    }
    for what, sure in chances.items():
        is_unsure = not other.is_sure and sure == other.certainty
        if sure is not None and (sure < DOUBTED or is_unsure):
            yield f"{percent(sure)} {what}"


def _dearer(requirement: Requirement, cost: float, least: float) -> str:
    """Return `+45% cost` or `x12 cost`, by which candidates rank; of busy GPUs, `+45% a token`."""
    ratio = cost / least
    change = f"x{number(ratio)}" if ratio >= _MANIFOLD else f"{ratio - 1.0:+.0%}"
    is_differing = abs(ratio - 1.0) > _EQUAL - 1.0
    if requirement.is_work_bounded:
        return f"{change} cost" if is_differing else "same cost"
    unit = requirement.unit.removesuffix("s")
    work = f"{'an' if unit[0] in 'aeiou' else 'a'} {unit}"
    return f"{change} {work}" if is_differing else f"same cost {work}"
