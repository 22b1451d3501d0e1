"""What a profiler's files told of a projected workload, and what stays an assumption."""

from collections.abc import Iterator
from typing import Any, Final

from rightsizer.cli.counted import counted
from rightsizer.cli.project_request import Answer
from rightsizer.cli.wrapped import wrapped
from rightsizer.runtime.profiled_run import ProfiledRun
from rightsizer.sizing.profiled_time import ProfiledTime

__all__ = ["assumptions", "run_form", "run_lines"]

_PARTS: Final = {
    "tensor": "kernels with tensor cores",
    "plain": "kernels without",
    "unknown": "kernels of which that is not known",
    "collective": "collectives beside no kernel",
    "copy": "copies beside no kernel",
    "host_wait": "waits for the host",
    "gap": "idle for other reasons",
}
_DIGITS: Final = 6
_LEAST: Final = 0.005


def run_form(run: ProfiledRun) -> dict[str, Any]:
    """Where the time went, in shares of it that sum to 1; by the names of the documentation."""
    return {
        "source": run.source,
        "devices": run.devices,
        "steps": run.steps,
        "step_seconds": run.step_seconds,
        "time_shares": {part: round(getattr(run.time, part), _DIGITS) for part in _PARTS},
        "memory_peak_bytes": run.memory_peak_bytes,
    }


def assumptions(answer: Answer) -> list[str]:
    """What the profile does not tell, a sentence each; none where no profile was given."""
    return [] if answer.run is None else list(_assumptions(answer, answer.run))


def run_lines(answer: Answer) -> Iterator[str]:
    """The same for people."""
    if answer.run is None:
        return
    run = answer.run
    steps = f", {counted(run.steps, 'step', 'steps')}" if run.steps else ""
    devices = f", {run.devices} GPUs" if run.devices > 1 else ""
    yield from wrapped(f"by {run.source}{devices}{steps}: {_spelled(run.time)}")
    for each in _assumptions(answer, run):
        yield from wrapped(f"assumed: {each}")


def _spelled(time: ProfiledTime) -> str:
    shares = ((words, getattr(time, part)) for part, words in _PARTS.items())
    return ", ".join(f"{words} {share:.0%}" for words, share in shares if share >= _LEAST)


def _assumptions(answer: Answer, run: ProfiledRun) -> Iterator[str]:
    if not answer.has_counters:
        yield (
            "kernels with tensor cores wait for them, others for the memory; the interval holds "
            "either way. shares.tensor_active and shares.dram_active, measured, would narrow it"
        )
        if run.time.unknown >= _LEAST:
            yield (
                "half of the kernels whose names do not tell are products of matrices; the "
                "interval holds whatever they are"
            )
    if not run.is_launch_known:
        yield (
            "idle time is nobody's fault in particular: launches are not in the profile, so waits "
            "for the host and other waits are one; all of them stay as long as they are"
        )
    if run.time.collective >= _LEAST:
        yield "collectives are bound by the link and not by whom they wait for"
    if not run.steps:
        yield "no step is marked: all time from the first kernel to the last is like any other"
