"""Capture request and its result, and the context that decisions rest on."""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from rightsizer.advice.rules.rule import Judgement
from rightsizer.model.advice import Advice
from rightsizer.model.device import Device
from rightsizer.model.finding import Finding
from rightsizer.model.frozen import dataclass
from rightsizer.model.report import Report
from rightsizer.model.workload import Workload
from rightsizer.report.json_encoder import Form, workload_form


@dataclass(frozen=True, slots=True)
class CaptureContext:
    """Asked again at every look, from a thread of a job's."""

    report: Callable[[], Report | None]
    """The latest."""
    judgements: Callable[[], Sequence[Judgement]]
    """Of the last run of the rules."""
    advice: Callable[[], Sequence[Advice]]
    """All of it, what was closed too."""


REQUEST_VERSION: Final = 1
"""Grows when a key of the form changes its meaning or goes; keys are added without."""
_MEANINGLESS: Final = re.compile(r"[^A-Za-z0-9._:/@-]")
"""All but these may mean something to a program that is given a name."""


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """The facts, the same for every profiler."""

    id: str
    """Of the capture; its folder is called so."""
    finding: Finding
    workload: Workload
    devices: tuple[Device, ...]
    """Those that it holds; the one that the finding is about most comes first."""
    pids: tuple[int, ...]
    """Its processes on them, in this node's own numbers; empty where they are not known."""
    seconds: float
    folder: Path

    @property
    def reason(self) -> str:
        """Why a profile is asked for."""
        return str(self.finding.reasons[0])

    @property
    def placeholders(self) -> dict[str, str]:
        """What stands for the words in braces of a command."""
        first = self.devices[0]
        return {
            "pid": str(self.pids[0]) if self.pids else "",
            "pids": ",".join(map(str, self.pids)),
            "gpu_uuid": first.uuid,
            "gpu_index": str(first.index),
            "seconds": f"{self.seconds:g}",
            "folder": str(self.folder),
            # The user who starts a workload names it: no name may be taken for an option.
            "workload": _MEANINGLESS.sub("_", self.workload.key).lstrip("-"),
        }

    def form(self, node: str) -> Form:
        """The same as plain values for JSON, with the name of the machine."""
        return {
            "version": REQUEST_VERSION,
            "capture": self.id,
            "node": node,
            "workload": workload_form(self.workload),
            "finding": self.finding.id,
            "reason": self.reason,
            "summary": self.finding.summary,
            "devices": [{"uuid": each.uuid, "index": each.index} for each in self.devices],
            "pids": list(self.pids),
            "seconds": self.seconds,
            "folder": str(self.folder),
        }


class CaptureOutcome(StrEnum):
    """Where a capture stands, or how it ended."""

    RUNNING = "running"
    CALLED = "called"
    """The receiver has taken it; the profile is still to land."""
    LANDED = "landed"
    """A profile of it was read."""
    EMPTY = "empty"
    """None came, or none that can be read."""
    FAILED = "failed"
    """The receiver refused, or failed."""
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    """The agent ended meanwhile."""

    @property
    def is_final(self) -> bool:
        """Whether nothing more will become of it."""
        return self not in (CaptureOutcome.RUNNING, CaptureOutcome.CALLED)

    @property
    def is_fruitful(self) -> bool:
        """Whether a profile came of it, or still may."""
        return self in (CaptureOutcome.RUNNING, CaptureOutcome.CALLED, CaptureOutcome.LANDED)


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """An answer."""

    outcome: CaptureOutcome
    detail: str = ""
    """What became of it in our words, which may be shown anywhere; a line or two."""
    said: str = ""
    """What a program said, for the log alone: it may name whatever it likes."""
    is_recorded: bool = False
    """Whether the recording is over; it may only have been asked for."""
