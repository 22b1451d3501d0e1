"""A plan for people: what fits, at what it costs, why the rest does not, and how to check it."""

from collections.abc import Iterator, Sequence
from typing import Final

from rightsizer.cli.aligned import aligned
from rightsizer.cli.counted import counted
from rightsizer.cli.plan_table import candidate_table, dollars, interval_text, number
from rightsizer.runtime.plan_measured import Comparison, Measured
from rightsizer.sizing.candidates import Candidate
from rightsizer.sizing.estimate import MemoryEstimate
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.planner import Plan
from rightsizer.sizing.validation import validation_steps

__all__ = ["measured_text", "plan_text"]

_GIB: Final = 2.0**30
_NOTHING: Final = "-"
_SHOWN: Final = 10
_LEGEND: Final = (
    "GiB of one GPU (?: may turn out short) and what stays free of it; what all GPUs make"
    " together.\nlayout: tensor x pipeline x data. Prices are medians of dated lists, no quotes"
    " ('rightsizer catalogue')."
)
_MEASURED: Final = ("figure", "measured", "predicted", "90 % within", "verdict")


def plan_text(plan: Plan, notes: Sequence[str] = (), *, shows_all: bool = False) -> str:
    """The whole plan.

    Args:
        plan: What came of a requirement.
        notes: What has to be said of the input.
        shows_all: Every candidate, not only the first in rank and the nearest of the rest.
    """
    most = len(plan.candidates) if shows_all else _SHOWN
    fitting = [each for each in plan.candidates if each.fits]
    rejected = [each for each in plan.candidates if not each.fits]
    lines = [f"{plan.requirement.model.name or 'model'}, {plan.requirement.task}"]
    lines += [f"note: {note}" for note in notes]
    if plan.why_nothing_fits:
        lines += ["", _sentence(plan.why_nothing_fits), *_least_lines(plan)]
    if fitting:
        lines += ["", *candidate_table(plan.requirement, fitting[:most])]
        lines += [f"and {counted(len(fitting) - most, 'more that fits', 'more that fit')} (--all)"][
            : len(fitting) > most
        ]
        lines += ["", _LEGEND, "", *_memory_lines(fitting[0].memory)]
    if rejected:
        lines += ["", "rejected:", *map(_rejected_line, rejected[:most])]
        lines += [f"  and {len(rejected) - most} more (--all)"][: len(rejected) > most]
    for part in (_alternative_lines(plan), _growth_lines(plan), _validation_lines(plan)):
        found = list(part)
        lines += ["", *found] if found else []
    return "\n".join(lines)


def measured_text(measured: Measured) -> str:
    """A prediction beside what was measured."""
    candidate = measured.candidate
    rows = [_comparison_row(each) for each in measured.comparisons]
    lines = aligned(_MEASURED, rows, left=_MEASURED)
    return "\n".join([f"measured on {candidate.count} x {candidate.gpu}:", *lines])


def _memory_lines(memory: MemoryEstimate) -> Iterator[str]:
    parts = (
        ("weights", memory.weights_bytes),
        ("KV cache", memory.kv_cache_bytes),
        ("activations", memory.activations_bytes),
        ("gradients", memory.gradients_bytes),
        ("optimizer", memory.optimizer_bytes),
        ("overhead", memory.overhead_bytes),
    )
    split = ", ".join(f"{name} {value / _GIB:.1f}" for name, value in parts if value)
    whole = memory.total
    yield (
        f"memory of each GPU of rank 1, GiB: {whole.value / _GIB:.1f}"
        f" ({whole.low / _GIB:.1f} to {whole.high / _GIB:.1f}): {split}"
    )


def _rejected_line(candidate: Candidate) -> str:
    reasons = "; ".join(map(str, candidate.rejections))
    return f"  {candidate.count} x {candidate.gpu}: {reasons}"


def _least_lines(plan: Plan) -> Iterator[str]:
    least = plan.least
    if least is None:
        yield "Nothing that is known would, in any layout."
        return
    price = least.dollars_per_hour
    cost = "" if price is None else f", ${price:.2f} an hour"
    layout = least.layout
    yield (
        f"What would: {least.count} x {least.gpu} (tensor {layout.tensor}, pipeline"
        f" {layout.pipeline}, data {layout.data}){cost}."
    )


def _alternative_lines(plan: Plan) -> Iterator[str]:
    if plan.alternatives:
        yield "what else could be done:"
    unit = "tokens" if isinstance(plan.requirement.model, Transformer) else "samples"
    for each in plan.alternatives:
        candidate = each.candidate
        made = candidate.rate.tokens_per_second
        speed = "" if made is None else f", {number(made.value)} {unit}/s"
        cost = candidate.work_dollars
        price = "" if cost is None else f", ${dollars(cost)} for a million"
        caution = f" ({each.caution})" if each.caution else ""
        yield f"  {each.change}: {candidate.count} x {candidate.gpu}{speed}{price}{caution}"


def _growth_lines(plan: Plan) -> Iterator[str]:
    if plan.growth:
        yield "as the load grows:"
    for step in plan.growth:
        candidate = step.candidate
        price = candidate.dollars_per_hour
        cost = "" if price is None else f", ${price:.2f} an hour"
        fits = "" if candidate.fits else f"; does not fit: {candidate.rejections[0]}"
        yield (
            f"  month {step.month}: load x{step.load_ratio:.2f},"
            f" {candidate.count} x {candidate.gpu}{cost}{fits}"
        )


def _validation_lines(plan: Plan) -> Iterator[str]:
    best = plan.best
    if best is None:
        return
    steps = validation_steps(plan.requirement, best)
    yield f"before it is trusted, {steps[-1].run}:"
    for step in steps:
        at = _NOTHING if step.concurrency is None else f"{step.concurrency:g}"
        yield f"  {step.name}, at {at} for {step.minutes:g} min: {'; '.join(step.expect)}"
    yield f"measure {', '.join(steps[0].measure)}."
    yield "'rightsizer record', then 'rightsizer plan FILE --measured RECORDING' compares."


def _comparison_row(comparison: Comparison) -> Sequence[str]:
    scale = _GIB if comparison.unit == "bytes" else 1.0
    unit = "GiB" if comparison.unit == "bytes" else comparison.unit
    predicted = comparison.predicted
    verdict = {True: "as predicted", False: "off", None: ""}[comparison.is_as_predicted]
    if comparison.is_as_predicted is False:
        verdict = f"off by x{comparison.ratio:.2f}"
    return (
        comparison.what.replace("_bytes", "").replace("_", " "),
        f"{comparison.measured / scale:.4g} {unit}",
        _NOTHING if predicted is None else f"{predicted.value / scale:.4g} {unit}",
        _NOTHING if predicted is None else interval_text(predicted.scaled(1.0 / scale)),
        "; ".join(filter(None, (verdict, comparison.remark))),
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
