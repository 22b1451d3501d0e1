"""What a collector is: a name, the signals it gives, and how it reads them."""

from collections.abc import Callable
from dataclasses import dataclass

from rightsizer.domain.device import Device
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.handle import Handle
from rightsizer.telemetry.nvml.library import FieldKey

__all__ = ["Collector"]


@dataclass(frozen=True, slots=True)
class Collector:
    """Some signals of a device that are read together."""

    name: str
    signals: tuple[Signal, ...]
    read: Callable[[Handle, Draft], None]
    """Asks the handle and puts each answer into the draft, failures too."""
    part_of: str = ""
    """The collector under whose name it is told how it fares; its own where there is none."""
    fields: tuple[FieldKey, ...] = ()
    """NVML's numbered fields that it takes from `Handle.field`: those of all collectors come in
    one call a round."""
    is_essential: bool = False
    """Whether it is asked every round, however slow the driver is; the others wait for room."""
    is_slow: bool = False
    """Whether its signals change so slowly that they are read at the slow interval and hold."""
    tells: tuple[str, ...] = ()
    """What it puts into the draft beside its signals, by attribute."""
    release: Callable[[Handle, Draft], None] | None = None
    """Gives back the counters that it holds, when a profiler needs them, and puts into the draft
    why its signals are missing meanwhile."""
    on_mig_parent: bool = True
    """Whether a GPU that is cut into MIG instances has these signals itself."""
    on_mig_instance: bool = False
    """Whether a MIG instance has these signals itself."""
    settles: bool = False
    """Whether a GPU that has just been woken up gives misleading values."""

    def applies_to(self, device: Device) -> bool:
        """Whether the device is of a kind that can have these signals."""
        if device.mig is not None:
            return self.on_mig_instance
        return self.on_mig_parent or not device.has_mig_instances
