"""Summary of a plan: choice, rejected alternatives, measurements; colored on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from rightsizer.console.command import printable, write
from rightsizer.io.terminal import counted, wrapped
from rightsizer.model.units import percent_text
from rightsizer.planner.candidate import PlanCandidate, rejected
from rightsizer.planner.cost_text import growth_verdict, rejected_title, shortcomings
from rightsizer.planner.display import dollars, hours_text, number, percent, priced
from rightsizer.planner.planner import GpuPlan
from rightsizer.planner.text import (
    STARRED,
    alternative_lines,
    columns_of,
    nothing_lines,
    table_lines,
    title_lines,
)
from rightsizer.planner.validation import ValidationStep, validation_steps
from rightsizer.sizing.load import EVEN_ODDS
from rightsizer.sizing.requirement import Requirement

_SHOWN: Final = 5
_LEFT: Final = frozenset({"GPUs", "90% range", "rented as", "why not first"})
_EXPENDABLE: Final = ("90% range", "#", "TPOT", "TTFT", "rented as")
"""Columns that a narrow terminal does without, the first ones first."""
_LOAD_STEP: Final = "the load"


class LineKind(StrEnum):
    """Kind of a line, by its style on a terminal: SGR parameters (ECMA-48)."""

    PLAIN = ""
    BEST = "1;32"
    HEADING = "1"
    FAINT = "2"
    WARNING = "33"


class SummaryLine(Struct, frozen=True):
    """Line and its kind."""

    text: str
    kind: LineKind = LineKind.PLAIN


_BETWEEN: Final = SummaryLine("")


def plan_summary(plan: GpuPlan, notes: Sequence[str] = ()) -> tuple[SummaryLine, ...]:
    """Return the basis of a decision, on one screen."""
    lines = [*_titled(plan, notes)]
    best = plan.best
    if best is None:
        lines += (SummaryLine(line, LineKind.WARNING) for line in nothing_lines(plan))
        lines += map(SummaryLine, alternative_lines(plan))
    else:
        lines += (*_chosen(plan, best), *_best_first(plan, best))
    lines += _rejected(plan.candidates)
    return (*lines, *(() if best is None else _to_be_sure(plan, best)))


def show_summaries(summaries: Sequence[Sequence[SummaryLine]]) -> None:
    """Print summaries, with color on a terminal."""
    lines = [line for each in summaries for line in (*each, _BETWEEN)][:-1]
    texts = [printable(line.text) for line in lines]
    if sys.stdout.isatty():
        from rightsizer.console.color import styled  # noqa: PLC0415 - no pipe needs it.

        texts = [styled(text, line.kind) for text, line in zip(texts, lines, strict=True)]
    write("\n".join(texts))


def _titled(plan: GpuPlan, notes: Sequence[str]) -> Iterator[SummaryLine]:
    """Yield the requirements; and of replaced formats, those shown."""
    formats = [each.format.note if each.format else "" for each in plan.candidates if each.fits]
    hidden = {*formats[_SHOWN:]} - {*formats[:_SHOWN]}
    kept = [note for note in notes if not note.endswith(tuple(hidden))]
    first, *others = title_lines(plan.requirement, kept)
    yield SummaryLine(first, LineKind.HEADING)
    yield from map(SummaryLine, others)


def _chosen(plan: GpuPlan, best: PlanCandidate) -> Iterator[SummaryLine]:
    """Yield the choice, its cost, and its certainty."""
    rental = "" if best.rental is None else f", rented as {best.rental}"
    hours = best.rate.training_hours
    chances = ", ".join(_chances(plan.requirement, best)).replace("%", "% sure", 1)
    kept = f"; {chances}" if chances else ""
    took = "" if hours is None else f", {hours_text(hours.value)}"
    rented = None if best.bill is None else best.bill.rented
    basis = "list prices" if rented is None else rented.terms.basis
    prices = "spot prices" if plan.requirement.spot else basis
    cost = "no price is known"
    unit = plan.requirement.unit_text
    if best.dollars_per_hour is not None:
        cost = f"${priced(best.dollars_per_hour, best.hourly_range)} an hour at {prices}"
        if best.dollars_per_million is not None:
            cost += f", ${dollars(best.dollars_per_million)} a million {unit}"
    yield SummaryLine("")
    taken = f"{best.with_spares}{_spread(plan, best)}{rental}"
    for line in wrapped(f"Take {taken}: {cost}{took}{kept}."):
        yield SummaryLine(line, LineKind.BEST)


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
    each = best.count // best.layout.data
    if plan.requirement.task.trains or each == best.count:
        return f" ({layout})" if best.count > 1 else ""
    if layout.expert > 1:
        # No single replica holds the model.
        groups = layout.data // layout.expert
        split = f" as {groups} groups of {best.count // groups}" if groups > 1 else ""
        return f"{split} that share the experts"
    return f" as {layout.data} replicas{f' of {each}' if each > 1 else ''}"


def _best_first(plan: GpuPlan, best: PlanCandidate) -> Iterator[SummaryLine]:
    fitting = [each for each in plan.candidates if each.fits]
    shown = fitting[:_SHOWN]
    training = plan.requirement.training
    is_run = plan.requirement.task.trains and training.tokens is not None
    rents = any(each.rental is not None for each in shown)
    cost = "run" if is_run else "hour"
    beside = "rented" if rents else "within"
    names = ("rank", "name", cost, "rate", beside, "hours", "first", "between")
    why = ("why not first", lambda each: "; ".join(shortcomings(best, each)))
    columns = [*columns_of(plan.requirement, names), why]
    head, first, *others = table_lines(columns, shown, _LEFT, _EXPENDABLE)
    yield SummaryLine("")
    yield SummaryLine(head, LineKind.HEADING)
    yield SummaryLine(first, LineKind.BEST)
    yield from map(SummaryLine, others)
    if any(each.format is not None for each in shown):
        yield SummaryLine(STARRED, LineKind.FAINT)
    below = []
    if rest := fitting[_SHOWN:]:
        below.append(f"and {counted(len(rest), 'kind', 'kinds')} more that fit")
    if plan.requirement.answers_in_tokens and not plan.requirement.task.trains:
        below.append("TTFT, TPOT: ms to the first token, between tokens")
    if plan.requirement.load.certainty > EVEN_ODDS:
        sure = percent_text(plan.requirement.load.certainty)
        below.append(f"counts and costs at {sure} certainty (--sure)")
    if below:
        yield from _faint("; ".join(below))


def _rejected(candidates: Sequence[PlanCandidate]) -> Iterator[SummaryLine]:
    if failed := rejected(candidates):
        yield SummaryLine("")
        yield SummaryLine(rejected_title(candidates), LineKind.HEADING)
    for by, found in failed.items():
        nearest = f"{found[0]} {found[0].rejections[0].why}"
        of = f"{by.lack} on {len(found)}, the nearest: " if found[1:] else f"{by.lack}: "
        lines = wrapped(f"{of}{nearest}", indent=2)
        yield from (SummaryLine(line, LineKind.FAINT) for line in lines)


def _to_be_sure(plan: GpuPlan, best: PlanCandidate) -> Iterator[SummaryLine]:
    """Yield the one run that decides whether the plan holds."""
    steps = validation_steps(plan.requirement, best)
    step = next(each for each in steps if each.name == _LOAD_STEP)
    yield SummaryLine("")
    if plan.outlook is not None:
        verdict = growth_verdict(plan.outlook, plan.growth[0].candidate.gpu)
        yield from map(SummaryLine, wrapped(f"as the load grows: {verdict}"))
    run = _run_text(plan.requirement, step)
    text = f"to be sure, {run} for {step.minutes:g} min; expect {'; '.join(step.expect)}."
    yield from map(SummaryLine, wrapped(text))
    more = "--details: memory, all costs, alternatives, checks; --all: every kind"
    if best.rental is None:
        more += "; --provider: whole instances"
    yield from _faint(f"{more}.")


def _faint(text: str) -> Iterator[SummaryLine]:
    return (SummaryLine(line, LineKind.FAINT) for line in wrapped(text, hanging=0))


def _run_text(requirement: Requirement, step: ValidationStep) -> str:
    at = number(step.concurrency)
    if requirement.task.trains:
        return f"train with a micro batch of {at}"
    is_of_tokens = requirement.answers_in_tokens
    requests = "request" if step.concurrency == 1 else "requests"
    return f"keep {at} {requests} in flight" if is_of_tokens else f"serve batches of {at}"
