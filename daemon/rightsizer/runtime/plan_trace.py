"""A profiler's trace beside what was planned: step time, memory, and where the time went."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from rightsizer.domain.errors import ProfileError
from rightsizer.domain.profile import Profile
from rightsizer.runtime.plan_benchmark import layout_of_count
from rightsizer.runtime.plan_measured import Comparison, Measured
from rightsizer.runtime.profiled_run import ProfiledRun, profiled_run
from rightsizer.sizing.candidates import Candidate
from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.planner import Planner
from rightsizer.sizing.profiled_time import ProfiledTime
from rightsizer.sizing.requirement import Requirement

__all__ = ["compare_trace"]

_GIB: Final = 2.0**30
_MUCH: Final = 0.3
"""Of the time, beyond which a wait or communication explains most of what is off."""


def compare_trace(
    requirement: Requirement,
    planner: Planner,
    planned: Candidate,
    profiles: Sequence[Profile],
    board: str | None = None,
) -> Measured:
    """What the traces of one program say of a prediction.

    Args:
        requirement: What was planned.
        planner: Predicts anew, on the GPU and over as many GPUs as the traces are of.
        planned: The candidate that is taken where the traces do not say.
        profiles: One file, or one of each rank.
        board: The key of the board, where the traces do not say.

    Raises:
        ProfileError: there is no time line of a GPU at work, or GPUs that the plan cannot be on.
    """
    run = profiled_run(profiles, planner.catalogue)
    if run.board is None and run.device_name and board is None:
        raise ProfileError(
            f"{run.source}: recorded on '{run.device_name}', which is not in the catalogue; name "
            "the board that it is with --board"
        )
    gpu = run.board.key if run.board is not None else board or planned.gpu
    layout = planned.layout
    if requirement.task.trains:
        sizes = [each.world_size for each in profiles if each.world_size is not None]
        layout = layout_of_count(planned, max((run.devices, *sizes)), run.source)
    asked = replace(requirement, parallel=layout)
    candidate = planner.predicted(asked, gpu)
    return Measured(candidate, tuple(_comparisons(asked, candidate, run)))


def _comparisons(
    requirement: Requirement, candidate: Candidate, run: ProfiledRun
) -> Iterator[Comparison]:
    if run.memory_peak_bytes is not None:
        yield _memory(candidate, run.memory_peak_bytes)
    if requirement.task.trains:
        if run.step_seconds is None:
            raise ProfileError(
                f"{run.source}: no step is marked, and a prediction of training is of steps; call "
                "the profiler's step() after each, or mark steps with ranges"
            )
        yield from _steps(requirement, candidate, run.step_seconds)
    time = run.time
    yield Comparison("kernel_time", "ratio", time.busy, None, _host_remark(time))
    yield Comparison("tensor_core_kernel_time", "ratio", time.tensor, None)
    yield Comparison("host_wait_time", "ratio", time.host_wait, None)
    yield Comparison("exposed_copy_time", "ratio", time.copy, None)
    yield Comparison(
        "exposed_communication_time",
        "ratio",
        time.collective,
        None,
        "communication that no kernel hides" if time.collective > _MUCH else "",
    )


def _memory(candidate: Candidate, peak: int) -> Comparison:
    """Against what the allocator sees of the prediction: the context and libraries are outside."""
    outside = candidate.memory.overhead_bytes
    total = candidate.memory.total
    within = Interval(total.value - outside, max(0.0, total.low - outside), total.high - outside)
    return Comparison(
        "memory_bytes",
        "bytes",
        float(peak),
        within,
        f"the allocator's own peak; {outside / _GIB:.1f} GiB of context and libraries come on top",
    )


def _steps(
    requirement: Requirement, candidate: Candidate, step_seconds: float
) -> Iterator[Comparison]:
    training, rate = requirement.training, candidate.rate
    made = rate.tokens_per_second
    if made is None:
        return
    speaks = isinstance(requirement.model, Transformer)
    each = training.micro_batch * candidate.layout.data
    batch = training.global_batch or each
    units = batch * (float(training.sequence) if speaks else 1.0)
    told = "global" if training.global_batch else "micro"
    remark = f"a step of {batch:,} {'sequences' if speaks else 'samples'}, the {told} batch"
    yield Comparison(
        "step_seconds",
        "s",
        step_seconds,
        Interval(units / made.value, units / made.high, units / made.low),
        remark,
    )
    measured = units / step_seconds
    unit = "tokens" if speaks else "samples"
    yield Comparison(f"{unit}_per_second", f"{unit}/s", measured, made)
    if rate.mfu_ratio:
        of_one = rate.mfu_ratio / made.value
        yield Comparison("mfu_ratio", "ratio", measured * of_one, made.scaled(of_one))


def _host_remark(time: ProfiledTime) -> str:
    if time.host_wait <= _MUCH:
        return ""
    return "the GPU waits for its host, which no prediction counts: mend that first"
