"""What a check comes to, and what all checks look at."""

import socket
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from rightsizer.agent.settings import Settings
from rightsizer.io.yaml import load_beside
from rightsizer.model.frozen import dataclass
from rightsizer.model.snapshot import Snapshot


class Verdict(StrEnum):
    """How something stands."""

    OK = "ok"
    LIMITED = "limited"
    """It is there in part, or only for some."""
    MISSING = "missing"
    UNUSED = "unused"
    """It is not there, and was not asked for."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that the agent makes use of."""

    name: str
    verdict: Verdict
    found: str
    lost: str = ""
    """What the telemetry or the advice lacks for it."""
    remedy: str = ""


@cache
def _remedies() -> Any:
    return load_beside(__file__, "remedies.yaml")


def unwell(name: str, verdict: Verdict, case: str, found: str, **words: object) -> Check:
    """A check in a case of `remedies.yaml`, which has its loss and remedy."""
    texts = _remedies()[name][case]
    lost, remedy = (texts.get(key, "").format_map(words) for key in ("lost", "remedy"))
    return Check(name, verdict, found, lost, remedy)


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Where the doctor looks."""

    settings: Settings
    snapshot: Snapshot
    """What the agent's own source reads here and now."""
    environ: Mapping[str, str]
    devices: Path = Path("/dev")

    @property
    def procfs(self) -> Path:
        """Where procfs is mounted."""
        return Path(self.settings.path.procfs)

    @property
    def sysfs(self) -> Path:
        """Where sysfs is mounted."""
        return Path(self.settings.path.sysfs)

    @property
    def is_simulated(self) -> bool:
        """Whether the GPUs are, so that their files are not missed."""
        return bool(self.settings.sources.simulated.scenario)


def is_listened_at(host: str, port: int) -> bool:
    """Whether a process listens on a port, at an address to listen at or to connect to."""
    local = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound.
    try:
        with socket.create_connection((local.get(host, host), port), timeout=1.0):
            return True
    except OSError:
        return False
