"""Predictions of a plan compared with recordings, profiles and benchmark results."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from rightsizer.model.profile import Profile
from rightsizer.model.values import ProfileError, UsageError
from rightsizer.planner.benchmark_check import compare_benchmark, layout_of_count
from rightsizer.planner.plan_check import PlanCheck, Prediction, trace_comparisons, unnamed_board
from rightsizer.planner.recording_check import compare_recording, read_devices
from rightsizer.profiler.profiled_run import profiled_run
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import is_profile, read_all
from rightsizer.recordings.source import open_recording


def _compare_trace(prediction: Prediction, profiles: Sequence[Profile]) -> PlanCheck:
    """What the traces of one program say of a prediction, one file of each rank.

    It is predicted again, on the GPU and over as many GPUs as the traces are of.

    Raises:
        ProfileError: there is no timeline of a GPU at work, nothing says which board it is, or the
            plan cannot be on as many.
    """
    run = profiled_run(profiles, prediction.planner.catalogue)
    if (gpu := prediction.board_of(run.device_name)) is None:
        raise ProfileError(f"{run.source}: {unnamed_board(run.device_name)}")
    requirement = prediction.requirement
    layout = prediction.planned.layout
    if requirement.task.trains:
        sizes = [profile.world_size for profile in profiles if profile.world_size is not None]
        layout = layout_of_count(prediction.planned, max((run.devices, *sizes)), run.source)
    asked = replace(requirement, parallel=layout)
    candidate = prediction.planner.predicted(asked, gpu)
    return PlanCheck(candidate, tuple(trace_comparisons(asked, candidate, run)))


def check_plan(prediction: Prediction, paths: Sequence[Path]) -> PlanCheck:
    """All that files of a recording, of a profiler, of MLPerf say of a prediction of one run.

    Raises:
        RecordingError: a recording cannot be read, or has no reading.
        ProfileError: a profile cannot be read, or cannot carry a comparison.
        UsageError: the files are of several runs, or of different GPUs.
    """
    limits = ReadLimits()
    of_profilers = [path for path in paths if is_profile(path, limits)]
    recordings = [path for path in paths if path not in of_profilers]
    checks: list[PlanCheck] = []
    if recordings:
        catalogue = prediction.planner.catalogue
        opened = open_recording(recordings, catalogue=catalogue, board=prediction.board)
        with closing(opened) as source:
            devices = read_devices(source)
        checks.append(compare_recording(prediction, devices))
    if of_profilers:
        profiles = read_all(of_profilers, limits)
        traces = [profile for profile in profiles if profile.benchmark is None]
        results = [profile for profile in profiles if profile.benchmark is not None]
        if len(results) > 1:
            raise UsageError(
                f"--measured: {len(results)} results of benchmarks; a prediction is of one run"
            )
        if traces:
            checks.append(_compare_trace(prediction, traces))
        if results:
            checks.append(compare_benchmark(prediction, results[0]))
    return _joined(checks)


def _joined(checks: Sequence[PlanCheck]) -> PlanCheck:
    first, *others = checks
    for check in others:
        if check.candidate.gpu != first.candidate.gpu:
            files = f"files of {first.candidate.gpu} and of {check.candidate.gpu}"
            raise UsageError(f"--measured: {files}; give those of one run")
    # If two sources measured a figure, the first wins: a recording's window is the longest.
    figures = (figure for plan_check in reversed(checks) for figure in plan_check.comparisons)
    comparisons = {figure.what: figure for figure in figures}
    return PlanCheck(first.candidate, tuple(comparisons.values()))
