"""What the books remember of one device from one reading to the next."""

from dataclasses import dataclass

from rightsizer.accounting.energy import Energy, EnergyMeter, EnergySettings
from rightsizer.accounting.link import LinkSettings, LinkWatch
from rightsizer.accounting.pressure import Pressure, PressureSettings
from rightsizer.domain.signal import Signal
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Holding
from rightsizer.domain.xid import XidLog

__all__ = ["Page", "Stretch"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is known of a device from `start` to `end` (wall time)."""

    start: Nanoseconds
    end: Nanoseconds
    signals: dict[Signal, float]
    peer_stalls: bool
    steady_end: Nanoseconds
    xids: XidLog | None
    holdings: tuple[Holding, ...]
    clock_ratio: float

    @property
    def duration(self) -> Nanoseconds:
        """How long it is."""
        return self.end - self.start


class Page:
    """One device's memory; a device that is no longer there has none."""

    __slots__ = ("_meter", "accounted", "has_dead_counters", "link", "pressure")

    def __init__(
        self, energy: EnergySettings, pressure: PressureSettings, link: LinkSettings
    ) -> None:
        """A device that was not read yet."""
        self.accounted: Nanoseconds | None = None
        """Up to when, on the source's steady clock; `None` before its first reading."""
        self.has_dead_counters = False
        self.pressure = Pressure(pressure)
        self.link = LinkWatch(link)
        self._meter = EnergyMeter(energy)

    def begin(self, now: Nanoseconds, energy_joules: float | None) -> None:
        """Account from a first reading on: what was before, nobody saw."""
        self.accounted = now
        self._meter.restart(energy_joules)

    def skip(self, until: Nanoseconds) -> None:
        """Pass over a gap; the counter of energy went on in it."""
        self.accounted = until
        self._meter.restart(None)

    def energy(self, stretch: Stretch, limit_watts: float | None) -> Energy | None:
        """What was drawn over a stretch, `None` where nobody knows."""
        signals = stretch.signals
        return self._meter.measure(
            stretch.duration,
            signals.get(Signal.POWER_WATTS),
            signals.get(Signal.ENERGY_JOULES),
            signals.get(Signal.POWER_LIMIT_WATTS, limit_watts),
        )
