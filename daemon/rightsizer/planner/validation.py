"""Validation runs before a plan is trusted: loads, and what to measure."""

import math
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from rightsizer.model.units import GIB
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.display import interval_text, number
from rightsizer.sizing.engine import TAKEN_RATIO
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Requirement

_ABOVE: Final = 1.25
"""Ratio to the planned load: enough to find the first bottleneck."""
_LOADS: Final = (("alone", 0.0), ("half the load", 0.5), ("the load", 1.0), ("above it", _ABOVE))
_OF_TOKENS: Final = (
    "output tokens/s",
    "time to first token and between tokens, median and 95th percentile",
    "kv_cache_used, requests_waiting, preemptions",
)
_OF_SAMPLES: Final = ("requests/s", "time of a batch, median and 99th percentile")
_OF_THE_GPU: Final = ("peak of memory_used_bytes", "sm_active, tensor_active, dram_active, power")
_OF_TRAINING: Final = (
    "trained tokens/s of all GPUs",
    "peak of memory_used_bytes on each GPU, and the allocator's own peak",
    "sm_active, tensor_active, nvlink and pcie traffic, power, clocks",
)
_AROUND: Final = {
    "alone": ("the lowest latencies there are; the load's cannot be below them",),
    "half the load": ("more than half the tokens/s of the load, at shorter latencies",),
    "above it": (
        "no out of memory",
        "requests wait or latencies grow; note which of them gives first, and at which load",
    ),
}

_RESERVED: Final = (" for weights and requests", "all that the engine reserves")
_KEPT: Final = ("", "with blocks that its allocator keeps")
"""What the memory is of, and why nvidia-smi shows more."""
_TRAINING_EDGE: Final = "more tokens/s, or out of memory: how far the plan is from its edge"


class ValidationStep(Struct, frozen=True):
    """One run."""

    name: str
    run: str
    concurrency: float | None
    """Requests in flight, or sequences per GPU at a time."""
    minutes: float
    measure: tuple[str, ...]
    expect: tuple[str, ...]
    """What decides whether the plan holds."""


def validation_steps(requirement: Requirement, best: PlanCandidate) -> tuple[ValidationStep, ...]:
    """Return the runs that test the predictions for a candidate."""
    runs = _training if requirement.task.trains else _serving
    return tuple(runs(requirement, best))


def _serving(requirement: Requirement, candidate: PlanCandidate) -> Iterator[ValidationStep]:
    load = requirement.load
    rate = candidate.rate
    is_of_tokens = requirement.answers_in_tokens
    planned = rate.concurrency or load.concurrency or 1.0
    number_format = candidate.format.name if candidate.format else requirement.precision.weights
    load_text = "batches of as many samples, one after another"
    if is_of_tokens:
        lengths = f"{load.input_tokens:g} tokens in and {load.output_tokens:g} out"
        drafts = f"; {load.speculative_tokens:g} proposed tokens" if load.speculative_tokens else ""
        load_text = f"{lengths}{drafts}; keep as many requests in flight"
    for name, share in _LOADS:
        requests = max(1.0, math.ceil(planned * share))
        if share < 1.0 and requests >= planned:
            continue
        yield ValidationStep(
            name=name,
            run=f"serve on {_spelled(candidate)} with weights in {number_format}; {load_text}",
            concurrency=requests,
            minutes=10.0,
            measure=(*(_OF_TOKENS if is_of_tokens else _OF_SAMPLES), *_OF_THE_GPU),
            expect=_AROUND.get(name) or tuple(_expected(requirement, candidate)),
        )


def _training(requirement: Requirement, candidate: PlanCandidate) -> Iterator[ValidationStep]:
    training = requirement.training
    run = f"train on {_spelled(candidate)} at each micro_batch with sequences of"
    run += f" {training.sequence}: 20 steps to warm up, then 100"
    for name, more, expect in (("the load", 0, ()), ("above it", 1, (_TRAINING_EDGE,))):
        yield ValidationStep(
            name=name,
            run=run,
            concurrency=float(training.micro_batch + more),
            minutes=15.0,
            measure=_OF_TRAINING,
            expect=expect or tuple(_expected(requirement, candidate)),
        )


def _expected(requirement: Requirement, candidate: PlanCandidate) -> Iterator[str]:
    rate = candidate.rate
    load = requirement.load
    memory = candidate.memory.total
    low, high, usable = (
        size_bytes / GIB for size_bytes in (memory.low, memory.high, candidate.usable_bytes)
    )
    if high <= usable:
        shown = shown_gibibytes(requirement, candidate)
        of, why = _KEPT if requirement.task.trains else _RESERVED
        also = "" if shown is None else f"{of} (nvidia-smi shows {shown:.1f}, {why})"
        yield f"{low:.1f} to {high:.1f} of {usable:.1f} GiB a GPU{also}"
    else:
        yield f"{low:.1f} to {high:.1f} GiB a GPU, of which {usable:.1f} are there"
    if rate.units_per_second is not None:
        throughput = rate.units_per_second
        demand = load.units_per_second
        needed = "" if demand is None else f" ({number(demand)} needed)"
        yield f"{interval_text(throughput)} {requirement.unit_text}/s{needed}"
    if load.ttft_ms is not None:
        yield f"first token within {load.ttft_ms:g} ms{_share(load.ttft_percentile)}"
    if load.tpot_ms is not None:
        yield f"{load.tpot_ms:g} ms between tokens{_share(load.tpot_percentile)}"
    if load.latency_ms is not None:
        yield f"99% of answers within {load.latency_ms:g} ms"


def shown_gibibytes(requirement: Requirement, candidate: PlanCandidate) -> float | None:
    """Return what nvidia-smi shows beside what is needed; `None` if that is the same.

    A server takes memory ahead, the allocator of a training keeps blocks while there is room.
    """
    memory = candidate.memory
    shown = memory.device_bytes or 0.0
    model = requirement.model
    serves = not requirement.task.trains and isinstance(model, Transformer)
    if serves and not requirement.engine.hears_alone:
        shown = TAKEN_RATIO * candidate.usable_bytes
    shown = min(shown, candidate.usable_bytes)
    return shown / GIB if shown > memory.total_bytes else None


def _spelled(candidate: PlanCandidate) -> str:
    layout = candidate.layout
    return f"{candidate} (tensor {layout.tensor}, pipeline {layout.pipeline}, data {layout.data})"


def _share(percentile: float | None) -> str:
    return "" if percentile is None else f" for {percentile:g}% of requests"
