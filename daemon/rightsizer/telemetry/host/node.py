"""The whole node's signals."""

from collections.abc import Mapping

from rightsizer.domain.signal import Signal
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.telemetry.host.counter import Counter, Meter, summed
from rightsizer.telemetry.host.disks import Disks, disk_counters
from rightsizer.telemetry.host.interfaces import (
    interface_counters,
    node_interfaces_text,
    physical_interfaces,
)
from rightsizer.telemetry.host.kept import Kept
from rightsizer.telemetry.host.pressure import node_pressures
from rightsizer.telemetry.host.processors import node_processors
from rightsizer.telemetry.host.settings import HostSettings

__all__ = ["NodeReader"]


class NodeReader:
    """CPU, pressure, disks and network of the node since the last look."""

    def __init__(self, procfs: str, sysfs: str, settings: HostSettings) -> None:
        """Reads nothing before it is asked."""
        self._procfs = procfs
        self._sysfs = sysfs
        shortest = nanoseconds(settings.shortest_seconds)
        recheck = nanoseconds(settings.recheck_interval_seconds)
        self._ratios: Meter[Signal] = Meter(shortest)
        self._throughput: Meter[tuple[Signal, str]] = Meter(shortest)
        self._interfaces: Kept[None, frozenset[str]] = Kept(recheck, recheck)

    def read(self, disks: Disks, now: Nanoseconds) -> Mapping[Signal, float]:
        """What is known now."""
        ratios = self._ratios.look(
            now, lambda: node_pressures(self._procfs, now) | node_processors(self._procfs)
        )
        throughput = self._throughput.look(now, lambda: self._counters(disks, now))
        return {signal: min(1.0, ratio) for signal, ratio in ratios.items()} | summed(throughput)

    def _counters(self, disks: Disks, now: Nanoseconds) -> Mapping[tuple[Signal, str], Counter]:
        physical = self._interfaces.get(None, now, lambda: physical_interfaces(self._sysfs))
        text = node_interfaces_text(self._procfs)
        return {
            **disk_counters(self._procfs, disks, now),
            **interface_counters(text, physical.__contains__, now),
        }
