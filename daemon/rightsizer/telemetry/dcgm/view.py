"""What is known through a dcgm-exporter at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rightsizer.domain.device import Device
from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.domain.snapshot import CollectorOutcome, Down
from rightsizer.domain.workload import Holding
from rightsizer.domain.xid import XidLog

__all__ = ["Told", "View"]


@dataclass(frozen=True, slots=True)
class Told:
    """What the exporter says of one device."""

    values: Mapping[Signal, float]
    missing: Mapping[Signal, Missing]
    profiled: frozenset[Signal]
    """Signals that come from the hardware's own counters."""
    holdings: tuple[Holding, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """Everything that stands; nothing in it is older than it may be."""

    outcome: CollectorOutcome
    error: str | None = None
    """Why the last look failed."""
    devices: tuple[Device, ...] = ()
    """All that were listed, those that are down too."""
    down: Mapping[str, Down] = field(default_factory=dict)
    told: Mapping[str, Told] = field(default_factory=dict)
    """By the exporter's own name of a device."""
    instances: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Of each MIG instance, the GPU that it is a part of and its GPU instance id."""
    xids: Mapping[str, XidLog] = field(default_factory=dict)
    driver_version: str | None = None
