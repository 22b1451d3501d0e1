"""PlanCheck: figures of a run compared with their predictions; those of a profiler's trace."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.errors import ProfileError
from rightsizer.model.units import GIB
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.planner import Planner
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.workload_profile import ProfiledRun

_MUCH: Final = 0.3
"""Share of time beyond which a wait or communication explains most of the deviation."""


class FigureComparison(Struct, frozen=True):
    """One figure, predicted and measured."""

    what: str
    unit: str
    measured: float
    predicted: EstimateInterval | None
    remark: str = ""
    is_quantile: bool = False
    """Over many requests, while the prediction is their mean: exceeding it is no deviation."""

    @property
    def ratio(self) -> float | None:
        """Measured over predicted."""
        if self.predicted is None or not self.predicted.value:
            return None
        return self.measured / self.predicted.value

    @property
    def is_as_predicted(self) -> bool | None:
        """Whether it is within the interval; `None` without a prediction."""
        if self.predicted is None:
            return None
        if self.is_quantile and self.measured > self.predicted.high:
            return None
        return self.predicted.low <= self.measured <= self.predicted.high


class Prediction(Struct, frozen=True):
    """Candidate with which a run is compared."""

    requirement: Requirement
    planner: Planner
    planned: PlanCandidate
    board: str | None = None
    """Key of the board that was used, if its files do not name it."""
    states_sequence: bool = False
    """Whether the plan states the tokens of a training sample, which no log has."""

    def board_of(self, name: str | None) -> str | None:
        """Return the key of the board that was used; `None` if unknown.

        As named in the files, else as stated; if neither, the only board requested by the plan.
        """
        board = self.planner.catalogue.find(name) if name else None
        if board is not None:
            return board.key
        is_alone = not name and len(self.requirement.gpus) == 1
        return self.board or (self.planned.gpu if is_alone else None)


class PlanCheck(Struct, frozen=True):
    """A run compared with its candidate."""

    candidate: PlanCandidate
    """Predicted again, with the measured requests in flight."""
    comparisons: tuple[FigureComparison, ...]


def unnamed_board(name: str | None) -> str:
    """Explain why nothing can be compared, with the remedy."""
    why = f"is of '{name}', which is not in the catalogue" if name else "does not name its GPU"
    return f"{why}; name the board that it is with --board"


def requirement_as_run(
    requirement: Requirement, layout: Parallelism, in_flight: float | None
) -> Requirement:
    """Return the requirement with the measured layout and requests in flight."""
    load = requirement.load
    load = replace(load, concurrency=in_flight or load.concurrency)
    return replace(requirement, parallel=layout, load=load)


def throughput_comparison(
    unit: str, speed: float, predicted: EstimateInterval | None, remark: str = ""
) -> FigureComparison:
    """Compare units of work per second."""
    return FigureComparison(f"{unit}_per_second", f"{unit}/s", speed, predicted, remark)


def share_comparison(what: str, share: float, remark: str = "") -> FigureComparison:
    """Return a measured share that nothing predicts."""
    return FigureComparison(what, "ratio", share, None, remark)


def utilization_comparison(candidate: PlanCandidate, speed: float) -> Iterator[FigureComparison]:
    """Yield the model FLOPs utilization at a measured speed, if it is predicted."""
    mfu = candidate.rate.mfu_ratio
    throughput = candidate.rate.units_per_second
    if mfu and throughput is not None:
        mfu_per_throughput = mfu / throughput.value
        yield FigureComparison(
            "mfu_ratio", "ratio", speed * mfu_per_throughput, throughput.scaled(mfu_per_throughput)
        )


def trace_comparisons(
    requirement: Requirement, candidate: PlanCandidate, run: ProfiledRun
) -> Iterator[FigureComparison]:
    """Compare a profiled run with the plan for its layout."""
    if run.memory_peak_bytes is not None:
        # The allocator excludes the context and libraries.
        memory = candidate.memory
        outside = memory.outside_bytes
        peak = run.memory_peak_bytes
        context = f"{outside / GIB:.1f} GiB of context and libraries come on top"
        remark = f"the allocator's own peak; {context}"
        yield FigureComparison("memory_bytes", "bytes", float(peak), memory.allocated, remark)
    if requirement.task.trains:
        if run.step_seconds is None:
            fault = "no step is marked, and a prediction of training is of steps"
            remedy = "call the profiler's step() after each, or mark steps with ranges"
            raise ProfileError(f"{run.source}: {fault}; {remedy}")
        yield from _steps(requirement, candidate, run.step_seconds)
    time = run.time
    waits = "the GPU waits for its host, which no prediction counts: fix that first"
    yield share_comparison("kernel_time", time.busy, waits if time.host_wait > _MUCH else "")
    yield share_comparison("tensor_core_kernel_time", time.tensor)
    yield share_comparison("host_wait_time", time.host_wait)
    yield share_comparison("exposed_copy_time", time.copy)
    exposed = "communication that no kernel hides" if time.collective > _MUCH else ""
    yield share_comparison("exposed_communication_time", time.collective, exposed)


def _steps(
    requirement: Requirement, candidate: PlanCandidate, step_seconds: float
) -> Iterator[FigureComparison]:
    training = requirement.training
    throughput = candidate.rate.units_per_second
    if throughput is None:
        return
    is_of_tokens = isinstance(requirement.model, Transformer)
    batch = training.global_batch or training.micro_batch * candidate.layout.data
    units = batch * (float(training.sequence) if is_of_tokens else 1.0)
    kind = "global" if training.global_batch else "micro"
    remark = f"a step of {batch:,} {'sequences' if is_of_tokens else 'samples'}, the {kind} batch"
    predicted = EstimateInterval(
        units / throughput.value, units / throughput.high, units / throughput.low
    )
    yield FigureComparison("step_seconds", "s", step_seconds, predicted, remark)
    unit = "tokens" if is_of_tokens else "samples"
    speed = units / step_seconds
    yield throughput_comparison(unit, speed, throughput)
    yield from utilization_comparison(candidate, speed)
