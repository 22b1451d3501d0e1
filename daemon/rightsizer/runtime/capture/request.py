"""What is asked for: a profile of these processes on these GPUs, into this folder, and why."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rightsizer.domain.device import Device
from rightsizer.domain.finding import Finding
from rightsizer.domain.workload import Workload, WorkloadKind
from rightsizer.publish.json_form import Form, workload_form

__all__ = ["REQUEST_VERSION", "CaptureRequest"]

REQUEST_VERSION: Final = 1
"""Grows when a key of the form changes its meaning or goes; keys are added without."""
_MEANINGLESS: Final = re.compile(r"[^A-Za-z0-9._:/@-]")
"""All but these may mean something to a program that is given a name."""


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """The facts, whoever is called."""

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
    def slurm_job(self) -> str | None:
        """The number of its Slurm job, `None` where it is none."""
        is_job = self.workload.kind is WorkloadKind.SLURM and self.workload.name.isdecimal()
        return self.workload.name if is_job else None

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
            # Whoever starts a workload names it: no name may be taken for an option.
            "workload": _MEANINGLESS.sub("_", self.workload.key).lstrip("-"),
        }

    def form(self, node: str) -> Form:
        """The same as plain values for JSON.

        Args:
            node: What the machine is called.
        """
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
