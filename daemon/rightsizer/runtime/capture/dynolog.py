"""Dynolog's trigger: its client asks its daemon, which has the programs profile themselves.

Flags and answers as in dynolog's `cli/src/main.rs` and `cli/src/commands/gputrace.rs`.
"""

from dataclasses import replace
from typing import Final

from rightsizer.runtime.capture.called import Called, CaptureOutcome
from rightsizer.runtime.capture.request import CaptureRequest
from rightsizer.runtime.capture.settings import DynologSettings

__all__ = ["judged", "words"]

_NOBODY: Final = "No processes were matched"


def words(settings: DynologSettings, request: CaptureRequest) -> tuple[str, ...]:
    """The command: the processes on the GPUs by number, which dynolog keeps by Slurm job.

    Each process writes a file of its own, with its number at the end of its name.
    """
    return (
        *(settings.program, "--port", str(settings.port), "gputrace"),
        *(("--job-id", request.slurm_job) if request.slurm_job is not None else ()),
        *("--pids", ",".join(map(str, request.pids))),
        *("--process-limit", str(max(1, len(request.pids)))),
        *("--duration-ms", str(max(1, round(request.seconds * 1000)))),
        *("--log-file", str(request.folder / "trace.json")),
        *settings.arguments,
    )


def judged(called: Called) -> Called:
    """What its client's answer means: it ends well even where it has reached nobody."""
    if called.outcome is not CaptureOutcome.CALLED:
        return called
    if _NOBODY in called.said:
        return Called(
            CaptureOutcome.FAILED,
            "dynolog knows none of the processes: start them with KINETO_USE_DAEMON=1, and the "
            "daemon with --enable_ipc_monitor",
            said=called.said,
        )
    return replace(called, is_recorded=False)
