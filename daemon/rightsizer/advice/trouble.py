"""Something that is wrong with a GPU's hardware: what it means, and what repairs it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rightsizer.advice.standing import BoardStanding
from rightsizer.domain.finding import Instruction, Severity
from rightsizer.domain.node import Node
from rightsizer.domain.settings import setting
from rightsizer.domain.units import Nanoseconds

__all__ = ["SURE", "Board", "Remedy", "Trouble", "TroubleSettings", "instruction_for"]

SURE: Final = 1.0
"""The driver keeps it until somebody repairs it; one look is enough."""


@dataclass(frozen=True, slots=True)
class TroubleSettings:
    """From when on something counts as trouble."""

    xid_recent_seconds: float = setting(
        86400.0,
        help="How long an Xid counts after it came.",
        unit="seconds",
        minimum=600,
        source="assumed; what is wrong with the hardware shows again within a day",
    )
    retired_pages_maximum: int = setting(
        60,
        help="Retired memory pages from which on a board is due for replacement.",
        minimum=1,
        maximum=64,
        source="NVIDIA, Dynamic Page Retirement: boards with 60 or more are replaced",
    )
    nvlink_errors_maximum: int = setting(
        1000,
        help="NVLink errors since the driver was loaded from which on the links are looked at.",
        minimum=1,
        source="assumed; single errors are sent again and cost nothing",
    )
    pcie_replays_maximum: int = setting(
        1000,
        help="PCIe packets sent again since the driver was loaded from which on the slot is "
        "looked at.",
        minimum=1,
        source="assumed; DCGM's health watch warns at 8 a minute, two hours of which are 960",
    )
    momentary_ratio: float = setting(
        0.9,
        help="Confidence in what a single reading shows and may pass by itself.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="assumed; links are trained anew within seconds",
    )
    unclear_time_ratio: float = setting(
        0.6,
        help="Confidence in a critical Xid whose time is not known, for others came after it.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="assumed; most often the later one is its consequence",
    )


@dataclass(frozen=True, slots=True)
class Board:
    """A GPU with all that tells of its health."""

    standing: BoardStanding
    node: Node
    now: Nanoseconds
    """The end of the window, wall time."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What repairs it; `{uuid}` stands for the GPU."""

    title: str
    text: str
    language: str = "text"


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong."""

    what: str
    """For a person: `remapping a memory row has failed`."""
    means: str
    severity: Severity
    remedy: Remedy
    certainty: float = SURE
    evidence: Mapping[str, object] = field(default_factory=dict, hash=False)


def instruction_for(trouble: Trouble, uuid: str) -> Instruction:
    """The remedy for one GPU."""
    remedy = trouble.remedy
    return Instruction(remedy.title, remedy.text.replace("{uuid}", uuid), remedy.language)
