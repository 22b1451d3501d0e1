"""What goes wrong in a scenario: when, on which GPUs, and what it does to them."""

from dataclasses import dataclass
from typing import TypeAlias

from rightsizer.catalogue.board import MigProfile
from rightsizer.telemetry.simulated.window import Window

__all__ = [
    "Absence",
    "Answer",
    "DeadCounters",
    "Effect",
    "Fault",
    "Hang",
    "Loss",
    "MemoryErrors",
    "NvlinkTrouble",
    "PcieTrouble",
    "Recut",
    "Throttle",
    "Unload",
    "XidReport",
]


@dataclass(frozen=True, slots=True)
class Hang:
    """Calls do not come back."""

    function: str = ""
    """Of the library; empty for all calls on the GPU."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Calls answer with a code of the driver's."""

    code: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Loss:
    """The GPU falls off the bus."""


@dataclass(frozen=True, slots=True)
class Absence:
    """The GPU is not there and nobody counts it: before it is plugged in, or after."""


@dataclass(frozen=True, slots=True)
class Unload:
    """The driver is away; its counters begin anew when it is back."""

    code: int


@dataclass(frozen=True, slots=True)
class Recut:
    """The GPU is cut into other instances."""

    profiles: tuple[MigProfile, ...]
    first_instance: int
    """Its place in the scenario's numbers of the GPU's instances: `5/3`."""


@dataclass(frozen=True, slots=True)
class XidReport:
    """The driver reports an Xid when the fault begins."""

    code: int


@dataclass(frozen=True, slots=True)
class MemoryErrors:
    """Counted when the fault begins; what waits for a reset waits while it holds."""

    corrected: int = 0
    uncorrected: int = 0
    rows_correctable: int = 0
    """Rows remapped, or pages retired where the board cannot remap rows."""
    rows_uncorrectable: int = 0
    is_pending: bool = False
    has_failed: bool = False


@dataclass(frozen=True, slots=True)
class Throttle:
    """Something holds the clocks down; what is `None` is as it was."""

    power_limit_watts: float | None = None
    ambient_celsius: float | None = None
    clock_ratio: float | None = None
    """The ceiling, of the highest SM clock."""
    reasons: int = 0
    """What the driver says of that ceiling."""


@dataclass(frozen=True, slots=True)
class PcieTrouble:
    """The link is worse than its slot; what is `None` is as it was."""

    generation: int | None = None
    width: int | None = None
    idle_generation: int | None = None
    """Only while no process holds the GPU, to save power: harmless."""
    replays: int = 0
    """Counted when the fault begins."""


@dataclass(frozen=True, slots=True)
class NvlinkTrouble:
    """Links that are down while it holds, or err when it begins."""

    links: frozenset[int]
    is_down: bool = False
    replay_errors: int = 0
    """On each of the links, as are the others."""
    recovery_errors: int = 0
    crc_errors: int = 0


@dataclass(frozen=True, slots=True)
class DeadCounters:
    """The profiling counters read 0 whatever happens."""


Effect: TypeAlias = (
    Hang
    | Answer
    | Loss
    | Absence
    | Unload
    | Recut
    | XidReport
    | MemoryErrors
    | Throttle
    | PcieTrouble
    | NvlinkTrouble
    | DeadCounters
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of a scenario's `faults`."""

    window: Window
    gpus: tuple[int, ...]
    """By index; a driver that is unloaded concerns all."""
    effect: Effect
