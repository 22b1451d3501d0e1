"""Whatever measured a model at work beside its plan: recordings, traces, logs of benchmarks."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rightsizer.domain.errors import UsageError
from rightsizer.profiles.formats import is_profile, read_all
from rightsizer.profiles.reader import ReadLimits
from rightsizer.runtime.plan_benchmark import compare_benchmark
from rightsizer.runtime.plan_measured import Measured, compare_measured
from rightsizer.runtime.plan_recording import read_devices
from rightsizer.runtime.plan_trace import compare_trace
from rightsizer.sizing.candidates import Candidate
from rightsizer.sizing.planner import Planner
from rightsizer.sizing.requirement import Requirement
from rightsizer.telemetry.recorded.source import open_recording

__all__ = ["check_plan"]


def check_plan(
    requirement: Requirement,
    planner: Planner,
    planned: Candidate,
    paths: Sequence[Path],
    board: str | None = None,
) -> Measured:
    """All that the files say of a prediction, told by what is in them.

    Args:
        requirement: What was planned.
        planner: Predicts anew for what was measured.
        planned: The first in rank.
        paths: Files of a recording, of a profiler, of MLPerf; all of one run.
        board: The key of the board that was measured, where the files do not say.

    Raises:
        RecordingError: a recording cannot be read, or has no reading.
        ProfileError: a profile cannot be read, or cannot carry a comparison.
        UsageError: the files are of several runs, or of different GPUs.
    """
    limits = ReadLimits()
    of_profilers = [each for each in paths if is_profile(each, limits)]
    recordings = [each for each in paths if each not in of_profilers]
    if board is not None:
        planned = replace(planned, gpu=planner.catalogue.get(board).key)
    found: list[Measured] = []
    if recordings:
        source = open_recording(recordings, catalogue=planner.catalogue, board=board)
        try:
            devices = read_devices(source)
        finally:
            source.close()
        found.append(compare_measured(requirement, planner, planned, devices))
    if of_profilers:
        profiles = read_all(of_profilers, limits)
        traces = [each for each in profiles if each.benchmark is None]
        results = [each for each in profiles if each.benchmark is not None]
        if len(results) > 1:
            raise UsageError(
                f"--measured: {len(results)} results of benchmarks; a prediction is of one run"
            )
        if traces:
            found.append(compare_trace(requirement, planner, planned, traces, board))
        if results:
            found.append(compare_benchmark(requirement, planner, planned, results[0]))
    return _joined(found)


def _joined(found: Sequence[Measured]) -> Measured:
    first, *others = found
    for each in others:
        if each.candidate.gpu != first.candidate.gpu:
            raise UsageError(
                f"--measured: files of {first.candidate.gpu} and of {each.candidate.gpu}; give "
                "those of one run"
            )
    # Of one figure that two measured, the first is kept: a recording's window is the longest.
    comparisons = {
        comparison.what: comparison for each in reversed(found) for comparison in each.comparisons
    }
    return Measured(first.candidate, tuple(comparisons.values()))
