"""What a check comes to, and what all checks look at."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from rightsizer.agent.settings import Settings
from rightsizer.model.frozen import dataclass
from rightsizer.model.snapshot import Snapshot


class Verdict(StrEnum):
    """How something stands."""

    OK = "ok"
    LIMITED = "limited"
    """It is there in part, or only for some."""
    MISSING = "missing"
    UNUSED = "unused"
    """It is not there, and nobody has asked for it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that the agent makes use of."""

    name: str
    verdict: Verdict
    found: str
    lost: str = ""
    """What the telemetry or the advice lacks for it."""
    remedy: str = ""


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
