"""Blocks of a plan's summary: choice, rejected alternatives, measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rightsizer.io.terminal import counted
from rightsizer.model.units import GIB, percent_text
from rightsizer.planner.candidate import PlanCandidate, rejected
from rightsizer.planner.cost_blocks import growth_verdict, rejected_title, shortcomings
from rightsizer.planner.detail_blocks import (
    STARRED,
    alternative_section,
    candidate_table,
    columns_of,
    further_blocks,
    memory_key,
    nothing_blocks,
    title_blocks,
)
from rightsizer.planner.display import dollars, hours_text, interval_text, number, percent, priced
from rightsizer.planner.planner import GpuPlan, PlanAnswer
from rightsizer.planner.validation import ValidationStep, validation_steps
from rightsizer.report.blocks import (
    Block,
    Items,
    Section,
    Sentence,
    Table,
    Tile,
    Tiles,
    Tone,
    section,
)
from rightsizer.sizing.load import EVEN_ODDS
from rightsizer.sizing.requirement import Requirement

_SHOWN: Final = 5
_ON_PAGE: Final = 20
_SCREEN: Final = ("rank", "name", "cost", "rate", "beside", "hours", "first", "between", "why")
_PAGE: Final = (
    "rank",
    "name",
    "cost",
    "why",
    "spread",
    "drawn",
    "rate",
    "beside",
    "hours",
    "first",
    "between",
    "in time",
    "mfu",
    "work",
)
"""Columns of candidates on one screen, and on a page."""
_LEFT: Final = frozenset({"GPUs", "layout", "memory", "90% range", "rented as", "why not first"})
_EXPENDABLE: Final = ("90% range", "#", "TPOT", "TTFT", "rented as")
"""Columns that a narrow terminal does without, the first ones first."""
_LOAD_STEP: Final = "the load"


def summary_blocks(plan: GpuPlan, notes: Sequence[str] = ()) -> Iterator[Block]:
    """Yield the basis of a decision, on one screen."""
    yield from _titled(plan, notes)
    best = plan.best
    if best is None:
        yield from nothing_blocks(plan)
        yield _best_first(plan, _SHOWN, _SCREEN)
        yield alternative_section(plan)
    else:
        yield _chosen(plan, best)
        yield _best_first(plan, _SHOWN, _SCREEN)
    yield _rejected(plan.candidates)
    if best is not None:
        yield from _to_be_sure(plan, best)


def page_blocks(answer: PlanAnswer) -> Iterator[Block]:
    """Yield the choice, then all that hangs on it; or an error."""
    plan = answer.plan
    if plan is None:
        yield Sentence(f"error: {answer.error}", Tone.WARNING)
        return
    yield from title_blocks(plan.requirement, answer.notes)
    yield from nothing_blocks(plan)
    best = plan.best
    if best is not None:
        yield _chosen(plan, best)
        yield Tiles(tuple(_tiles(plan, best)))
    yield _best_first(plan, _ON_PAGE, _PAGE)
    if best is not None:
        yield memory_key(best)
    yield from further_blocks(plan)


def _titled(plan: GpuPlan, notes: Sequence[str]) -> Iterator[Block]:
    """Yield the requirements; and of replaced formats, those shown."""
    formats = [
        candidate.format.note if candidate.format else ""
        for candidate in plan.candidates
        if candidate.fits
    ]
    hidden = {*formats[_SHOWN:]} - {*formats[:_SHOWN]}
    kept = [note for note in notes if not note.endswith(tuple(hidden))]
    return title_blocks(plan.requirement, kept)


def _chosen(plan: GpuPlan, best: PlanCandidate) -> Sentence:
    """Return the choice, its cost, and its certainty."""
    rental = "" if best.rental is None else f", rented as {best.rental}"
    hours = best.rate.training_hours
    chances = ", ".join(_chances(plan.requirement, best)).replace("%", "% sure", 1)
    kept = f"; {chances}" if chances else ""
    took = "" if hours is None else f", {hours_text(hours.value)}"
    basis = "list prices" if best.bill is None else best.bill.price_basis
    prices = "spot prices" if plan.requirement.spot else basis
    cost = "no price is known"
    unit = plan.requirement.unit_text
    if best.dollars_per_hour is not None:
        cost = f"${priced(best.dollars_per_hour, best.hourly_range)} an hour at {prices}"
        if best.dollars_per_million is not None:
            cost += f", ${dollars(best.dollars_per_million)} a million {unit}"
    taken = f"{best.with_spares}{_spread(plan, best)}{rental}"
    return Sentence(f"Take {taken}: {cost}{took}{kept}.", Tone.BEST)


def _tiles(plan: GpuPlan, best: PlanCandidate) -> Iterator[Tile]:
    rate = best.rate
    unit = plan.requirement.unit_text
    million = f"; ${dollars(best.dollars_per_million)} a million {unit} at this load"
    hourly = best.hourly_range
    ends = "" if hourly is None else f"{dollars(hourly.low)} to {dollars(hourly.high)}"
    cost = "" if best.dollars_per_million is None else million
    if best.dollars_per_hour is not None:
        yield Tile("Costs an hour", f"${dollars(best.dollars_per_hour)}", f"{ends}{cost}")
    if rate.training_hours is not None:
        hours = rate.training_hours
        yield Tile("Takes", hours_text(hours.value), interval_text(hours))
    elif rate.units_per_second is not None:
        speed = rate.units_per_second
        yield Tile("Delivers", number(speed.value), f"{interval_text(speed)} {unit}/s")
    chances = (
        ("memory", best.memory_probability),
        ("all latencies", rate.targets_probability),
        ("rate", rate.load_probability),
    )
    sure = (f"{name} {percent(chance)}" for name, chance in chances if chance is not None)
    yield Tile("Certainty", percent(best.certainty), ", ".join(sure))
    memory = best.memory.total.scaled(1.0 / GIB)
    of = f"{memory.low:.1f} to {memory.high:.1f} of {best.usable_bytes / GIB:.1f}"
    yield Tile("Memory of each", f"{memory.value:.1f} GiB", of)


def _chances(requirement: Requirement, best: PlanCandidate) -> Iterator[str]:
    """Yield how surely each part of the answer holds."""
    if best.is_memory_tight:
        yield f"{percent(best.memory_probability)} to fit the memory"
    if best.rate.targets_probability is not None:
        what = "to end in time" if requirement.task.trains else "to keep all latencies"
        yield f"{percent(best.rate.targets_probability)} {what}"
    if best.rate.load_probability is not None:
        yield f"{percent(best.rate.load_probability)} to make the rate"


def _spread(plan: GpuPlan, best: PlanCandidate) -> str:
    layout = best.layout
    replica_gpus = best.count // best.layout.data
    if plan.requirement.task.trains or replica_gpus == best.count:
        return f" ({layout})" if best.count > 1 else ""
    if layout.expert > 1:
        # No single replica holds the model.
        groups = layout.data // layout.expert
        split = f" as {groups} groups of {best.count // groups}" if groups > 1 else ""
        return f"{split} that share the experts"
    return f" as {layout.data} replicas{f' of {replica_gpus}' if replica_gpus > 1 else ''}"


def _best_first(plan: GpuPlan, row_maximum: int, names: Sequence[str]) -> Table:
    fitting = [candidate for candidate in plan.candidates if candidate.fits]
    shown = fitting[:row_maximum]
    training = plan.requirement.training
    is_run = plan.requirement.task.trains and training.tokens is not None
    rents = any(candidate.rental is not None for candidate in shown)
    cost = "run" if is_run else "hour"
    beside = "rented" if rents else "within"
    first = plan.candidates[0]
    why = (
        "why not first",
        lambda candidate: "; ".join(shortcomings(plan.requirement, first, candidate)),
    )
    below = []
    if any(candidate.format is not None for candidate in shown):
        below.append(STARRED.rstrip("."))
    if rest := fitting[row_maximum:]:
        do = "fit" if plan.best is not None else "may do"
        below.append(f"and {counted(len(rest), 'kind', 'kinds')} more that {do}")
    if plan.requirement.answers_in_tokens and not plan.requirement.task.trains:
        below.append("TTFT, TPOT: ms to the first token, between tokens")
    if plan.requirement.load.certainty > EVEN_ODDS:
        sure = percent_text(plan.requirement.load.certainty)
        at = f"counts and costs at {sure} certainty (--sure)"
        if plan.best is None:
            at = f"the nearest, of which none holds at {sure} certainty (--sure)"
        elif not all(candidate.is_sure for candidate in shown):
            at += ", unless a row says less"
        below.append(at)
    replaced = {"cost": cost, "beside": beside}
    chosen = [replaced.get(name, name) for name in names if name != "why"]
    # Columns that do not apply stand behind it, if at all.
    columns = columns_of(plan.requirement, chosen)
    columns.insert(min(names.index("why"), len(columns)), why)
    return candidate_table(columns, shown, _LEFT, "; ".join(below), _EXPENDABLE)


def _rejected(candidates: Sequence[PlanCandidate]) -> Section:
    texts = []
    for by, failed in rejected(candidates).items():
        nearest = f"{failed[0]} {failed[0].rejections[0].why}"
        of = f"{by.lack} on {len(failed)}, the nearest: " if failed[1:] else f"{by.lack}: "
        texts.append(f"{of}{nearest}")
    return section(rejected_title(candidates), Items(tuple(texts)))


def _to_be_sure(plan: GpuPlan, best: PlanCandidate) -> Iterator[Block]:
    """Yield the one run that decides whether the plan holds."""
    steps = validation_steps(plan.requirement, best)
    step = next(validation_step for validation_step in steps if validation_step.name == _LOAD_STEP)
    texts = []
    if plan.outlook is not None:
        verdict = growth_verdict(plan.outlook, plan.growth[0].candidate.gpu)
        texts.append(f"as the load grows: {verdict}")
    run = _run_text(plan.requirement, step)
    expected = "; ".join(step.expect)
    texts.append(f"to verify, {run} for {step.minutes:g} min; expect {expected}.")
    yield Items(tuple(texts))
    more = "--details: memory, all costs, alternatives, checks; --all: every kind"
    if best.rental is None:
        more += "; --provider: whole instances"
    yield Sentence(f"{more}.", Tone.FAINT)


def _run_text(requirement: Requirement, step: ValidationStep) -> str:
    at = number(step.concurrency)
    if requirement.task.trains:
        return f"train with a micro batch of {at}"
    is_of_tokens = requirement.answers_in_tokens
    requests = "request" if step.concurrency == 1 else "requests"
    return f"keep {at} {requests} in flight" if is_of_tokens else f"serve batches of {at}"
