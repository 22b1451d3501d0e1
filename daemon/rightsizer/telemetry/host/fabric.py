"""What passes through the ports nearest to a GPU."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.fabric_port import FabricPort
from rightsizer.domain.signal import Signal
from rightsizer.domain.topology import Placement
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.domain.units import seconds as in_seconds
from rightsizer.telemetry.host.counter import Counter, Meter
from rightsizer.telemetry.host.fabric_ports import (
    LocatedPort,
    found_ports,
    port_errors,
    with_counters,
)
from rightsizer.telemetry.host.kept import Kept
from rightsizer.telemetry.host.settings import HostSettings

__all__ = ["FabricReader", "nearest"]

_SHORT_DOMAIN: Final = 4
_DIRECTIONS: Final = (
    (Signal.INFINIBAND_RECEIVE_BYTES_PER_SECOND, Signal.INFINIBAND_RECEIVE),
    (Signal.INFINIBAND_TRANSMIT_BYTES_PER_SECOND, Signal.INFINIBAND_TRANSMIT),
)


class FabricReader:
    """Reads each port once a pass, and what seldom changes of it more seldom.

    Adapters ask their firmware for state and errors, which takes them longer than for bytes.
    """

    def __init__(self, sysfs: str, settings: HostSettings) -> None:
        """Reads nothing before it is asked."""
        self._sysfs = sysfs
        shortest = nanoseconds(settings.shortest_seconds)
        recheck = nanoseconds(settings.recheck_interval_seconds)
        forget_after = nanoseconds(settings.forget_after_seconds)
        self._located: Kept[None, tuple[LocatedPort, ...]] = Kept(recheck, forget_after)
        self._errors: Kept[str, Mapping[str, float]] = Kept(recheck, forget_after)
        self._ports: Kept[None, _Pass] = Kept(shortest, forget_after)
        self._meter: Meter[tuple[Signal, str]] = Meter(shortest)

    def ports(self, now: Nanoseconds) -> tuple[FabricPort, ...]:
        """All ports with their counters."""
        return self._pass(now).ports

    def near(self, place: Placement, now: Nanoseconds) -> Mapping[Signal, float]:
        """The throughput of the active ports nearest to a GPU, all together."""
        last = self._pass(now)
        ports = {port.name: port for port in last.ports if port.is_active}
        rates = self._meter.look(last.time, lambda: _counters(last.ports, last.time))
        chosen = [
            ports[located.port.name]
            for located in nearest(
                [each for each in self._all(now) if each.port.name in ports], place
            )
        ]
        signals: dict[Signal, float] = {}
        for throughput, ratio in _DIRECTIONS:
            measured = [port for port in chosen if (throughput, port.name) in rates]
            if not measured:
                continue
            signals[throughput] = sum(rates[throughput, port.name] for port in measured)
            limits = [port.rate_bytes_per_second for port in measured]
            known = [limit for limit in limits if limit]
            if len(known) == len(limits):
                signals[ratio] = min(1.0, signals[throughput] / sum(known))
        return signals

    def _all(self, now: Nanoseconds) -> tuple[LocatedPort, ...]:
        return self._located.get(None, now, lambda: found_ports(self._sysfs))

    def _pass(self, now: Nanoseconds) -> "_Pass":
        return self._ports.get(
            None, now, lambda: _Pass(now, tuple(self._read(each, now) for each in self._all(now)))
        )

    def _read(self, located: LocatedPort, now: Nanoseconds) -> FabricPort:
        errors = self._errors.get(located.folder, now, lambda: port_errors(located.folder))
        return with_counters(located, errors)


@dataclass(frozen=True, slots=True)
class _Pass:
    """All ports as they were at one time."""

    time: Nanoseconds
    ports: tuple[FabricPort, ...]


def nearest(ports: Collection[LocatedPort], place: Placement) -> list[LocatedPort]:
    """The ports with the most PCIe bridges in common with a GPU, else those of its NUMA node.

    Where neither tells them apart, all ports are equally near.
    """
    above = {_address(bridge.pci_bus_id) for bridge in place.bridges}

    def rank(located: LocatedPort) -> tuple[int, bool]:
        node = located.port.numa_node
        return (
            len(above.intersection(map(_address, located.bridges))),
            node is not None and node == place.numa_node,
        )

    best = max(map(rank, ports), default=None)
    return [located for located in ports if rank(located) == best]


def _address(text: str) -> str:
    """A PCI address as sysfs writes it; NVML's has a longer domain."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-_SHORT_DOMAIN:]}:{rest}"


def _counters(ports: Collection[FabricPort], now: Nanoseconds) -> dict[tuple[Signal, str], Counter]:
    counters: dict[tuple[Signal, str], Counter] = {}
    for port in ports:
        for (signal, _), count in zip(
            _DIRECTIONS, (port.receive_bytes, port.transmit_bytes), strict=True
        ):
            if count is not None:
                counters[signal, port.name] = Counter(count, in_seconds(now))
    return counters
