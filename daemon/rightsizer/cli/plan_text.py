"""A plan for people: what fits, at what it costs, why the rest does not, and how to check it."""

from collections.abc import Iterator, Sequence
from typing import Final

from rightsizer.cli.counted import counted
from rightsizer.cli.plan_costs_text import costs_lines
from rightsizer.cli.plan_figures import dollars, number, unit_of
from rightsizer.cli.plan_growth_text import growth_lines
from rightsizer.cli.plan_rejections_text import rejection_lines
from rightsizer.cli.plan_table import candidate_table, layout_text
from rightsizer.cli.plan_title import title_lines
from rightsizer.cli.wrapped import wrapped
from rightsizer.sizing.candidates import Candidate
from rightsizer.sizing.planner import Plan
from rightsizer.sizing.validation import validation_steps

__all__ = ["plan_text"]

_GIB: Final = 2.0**30
_SHOWN: Final = 10
_VISIBLE: Final = 0.05 * _GIB
_LEGEND: Final = (
    "What all GPUs make together, most likely and 90 % within; GiB of each one, ?: may turn out"
    " short. TxPxD: tensor, pipeline, data parallel."
)
_SERVED: Final = "TTFT, TPOT: ms to the first token, and between tokens."
_PRICES: Final = "$: medians of dated lists, no quotes."


def plan_text(plan: Plan, notes: Sequence[str] = (), *, shows_all: bool = False) -> str:
    """The whole plan, in lines of at most a hundred signs but for what cannot be broken.

    Args:
        plan: What came of a requirement.
        notes: What has to be said of the input.
        shows_all: Every candidate, not only the first in rank and the nearest of the rest.
    """
    parts = (
        title_lines(plan.requirement, notes),
        _nothing_lines(plan),
        _fitting_lines(plan, shows_all=shows_all),
        _detail_lines(plan),
        rejection_lines(plan.candidates, shows_all=shows_all),
        _alternative_lines(plan),
        growth_lines(plan),
        _validation_lines(plan),
    )
    texts = ("\n".join(part) for part in parts)
    return "\n\n".join(filter(None, texts))


def _nothing_lines(plan: Plan) -> Iterator[str]:
    why = plan.why_nothing_fits
    if not why:
        return
    yield from wrapped(f"{why[0].upper()}{why[1:]}.")
    least = plan.least
    if least is None:
        yield "Nothing that is known would, in any layout."
        return
    price = least.dollars_per_hour
    cost = "" if price is None else f", ${dollars(price)} an hour"
    yield f"What would: {_spelled(least)}{cost}."


def _fitting_lines(plan: Plan, *, shows_all: bool) -> Iterator[str]:
    fitting = [each for each in plan.candidates if each.fits]
    if not fitting:
        return
    shown = fitting if shows_all else fitting[:_SHOWN]
    yield from candidate_table(plan.requirement, shown)
    rest = len(fitting) - len(shown)
    if rest:
        yield f"and {counted(rest, 'more that fits', 'more that fit')} (--all)"
    serves = not plan.requirement.task.trains
    unit = unit_of(plan.requirement.model)
    work = f"$/M: of a million {unit}" + (" asked for." if serves else ".")
    served = _SERVED if serves and unit == "tokens" else ""
    yield from wrapped(" ".join(filter(None, (_LEGEND, served, work, _PRICES))), hanging=0)


def _detail_lines(plan: Plan) -> Iterator[str]:
    best = plan.best
    if best is None:
        return
    memory = best.memory
    parts = (
        ("weights", memory.weights_bytes),
        ("KV cache", memory.kv_cache_bytes),
        ("activations", memory.activations_bytes),
        ("gradients", memory.gradients_bytes),
        ("optimizer", memory.optimizer_bytes),
        ("overhead", memory.overhead_bytes),
    )
    split = ", ".join(f"{name} {value / _GIB:.1f}" for name, value in parts if value > _VISIBLE)
    whole = memory.total
    yield from wrapped(
        f"memory of each {best.gpu}: {whole.value / _GIB:.1f} GiB"
        f" ({whole.low / _GIB:.1f} to {whole.high / _GIB:.1f}) of {best.usable_bytes / _GIB:.1f},"
        f" {best.memory_headroom_ratio:.0%} free: {split}"
    )
    yield ""
    yield from costs_lines(best, unit_of(plan.requirement.model))


def _alternative_lines(plan: Plan) -> Iterator[str]:
    if plan.alternatives:
        yield "what else could be done:"
    for each in plan.alternatives:
        candidate = each.candidate
        made, cost = candidate.rate.tokens_per_second, candidate.work_dollars
        speed = (
            "" if made is None else f", {number(made.value)} {unit_of(plan.requirement.model)}/s"
        )
        price = "" if cost is None else f", ${dollars(cost)} a million"
        caution = f"; {each.caution}" if each.caution else ""
        yield from wrapped(
            f"{each.change}: {candidate.count} x {candidate.gpu}{speed}{price}{caution}", indent=2
        )


def _validation_lines(plan: Plan) -> Iterator[str]:
    best = plan.best
    if best is None:
        return
    steps = validation_steps(plan.requirement, best)
    yield from wrapped(f"before it is trusted, {steps[-1].run}:", hanging=0)
    for step in steps:
        at = "" if step.concurrency is None else f", {step.concurrency:,.0f}"
        text = f"{step.name}{at}, {step.minutes:g} min: {'; '.join(step.expect)}"
        yield from wrapped(text, indent=2)
    yield from wrapped(f"Measure {', '.join(steps[0].measure)}.", hanging=0)
    yield "'rightsizer record', then 'rightsizer plan FILE --measured RECORDING' compares."


def _spelled(candidate: Candidate) -> str:
    count = f"{candidate.count} x {candidate.gpu}"
    return count if candidate.count == 1 else f"{count} ({layout_text(candidate.layout)})"
