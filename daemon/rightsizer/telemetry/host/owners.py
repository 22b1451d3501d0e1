"""What the control groups and network namespaces of some processes use."""

from collections.abc import Callable, Collection, Container, Mapping
from typing import TypeAlias

from rightsizer.domain.signal import Signal
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.telemetry.host.control_group import ControlGroup, Seat, outermost
from rightsizer.telemetry.host.counter import Counter, Meter, summed
from rightsizer.telemetry.host.disks import Disks
from rightsizer.telemetry.host.group_counters import core_seconds, disk_bytes
from rightsizer.telemetry.host.group_limits import Limits
from rightsizer.telemetry.host.interfaces import interface_counters, is_outward
from rightsizer.telemetry.host.kept import Recent
from rightsizer.telemetry.host.places import Place
from rightsizer.telemetry.host.pressure import group_pressures
from rightsizer.telemetry.host.settings import HostSettings
from rightsizer.telemetry.host.text import read

__all__ = ["OwnerReader"]


_Meters: TypeAlias = Recent[ControlGroup, Meter[Signal]]


class OwnerReader:
    """Adds up each group once, however many processes and devices it has."""

    def __init__(self, procfs: str, settings: HostSettings) -> None:
        """Reads nothing before it is asked."""
        self._procfs = procfs
        self._shortest = nanoseconds(settings.shortest_seconds)
        forget_after = nanoseconds(settings.forget_after_seconds)
        self._limits = Limits(nanoseconds(settings.recheck_interval_seconds), forget_after)
        self._processors: _Meters = Recent(forget_after)
        self._pressures: _Meters = Recent(forget_after)
        self._disks: _Meters = Recent(forget_after)
        self._networks: Recent[int, Meter[tuple[Signal, str]]] = Recent(forget_after)

    def __len__(self) -> int:
        """How many groups and namespaces are followed."""
        followed = (self._processors, self._pressures, self._disks, self._networks)
        return sum(len(meters) for meters in followed)

    def read(
        self,
        places: Collection[Place],
        *,
        disks: Disks,
        online: frozenset[int],
        host_network: int | None,
        now: Nanoseconds,
    ) -> Mapping[Signal, float]:
        """What is known of the processes' groups and namespaces.

        Args:
            places: Where the processes run.
            disks: Those that count.
            online: The node's CPUs, for groups that nothing limits.
            host_network: The namespace whose traffic is the node's, not the owner's.
            now: The time of the look.
        """
        seats = {place.seat for place in places}
        return {
            **self._cpu(seats, online, now),
            **self._pressure(seats, now),
            **self._disk(seats, disks, now),
            **self._network(places, host_network, now),
        }

    def _cpu(
        self, seats: Collection[Seat], online: frozenset[int], now: Nanoseconds
    ) -> dict[Signal, float]:
        """CPU time used of the quota; groups without a rate count on neither side."""
        groups = outermost([seat.cpu_time for seat in seats])
        rates = {
            group: rate
            for group in groups
            for rate in self._look(self._processors, group, now, core_seconds).values()
        }
        if not rates:
            return {}
        measured = frozenset(
            seat for seat in seats if seat.cpu_time and _is_in(seat.cpu_time, rates)
        )
        cores = self._limits.cores(measured, online, now)
        return {Signal.CPU: min(1.0, sum(rates.values()) / cores)} if cores else {}

    def _pressure(self, seats: Collection[Seat], now: Nanoseconds) -> dict[Signal, float]:
        """The worst of the groups: at least for that long, some task of theirs waited."""
        worst: dict[Signal, float] = {}
        for group in outermost([seat.pressure for seat in seats]):
            found = self._look(
                self._pressures, group, now, lambda group, now: group_pressures(group.folder, now)
            )
            for signal, ratio in found.items():
                worst[signal] = max(worst.get(signal, 0.0), min(1.0, ratio))
        return worst

    def _disk(self, seats: Collection[Seat], disks: Disks, now: Nanoseconds) -> dict[Signal, float]:
        parts = {
            (signal, group.folder): rate
            for group in outermost([seat.io for seat in seats])
            for signal, rate in self._look(
                self._disks, group, now, lambda group, now: disk_bytes(group, disks.numbers, now)
            ).items()
        }
        return summed(parts)

    def _network(
        self, places: Collection[Place], host_network: int | None, now: Nanoseconds
    ) -> dict[Signal, float]:
        """Each namespace once, through any process in it; none where that is the host's."""
        if host_network is None:
            return {}
        inside = {place.network: place.pid for place in places}
        parts = {
            (signal, f"{network} {name}"): rate
            for network, pid in inside.items()
            if network not in (None, host_network)
            for (signal, name), rate in self._interfaces(network, pid, now).items()
        }
        return summed(parts)

    def _interfaces(
        self, network: int, pid: int, now: Nanoseconds
    ) -> Mapping[tuple[Signal, str], float]:
        meter = self._networks.get(network, now, lambda: Meter(self._shortest))
        return meter.look(
            now,
            lambda: interface_counters(read(f"{self._procfs}/{pid}/net/dev"), is_outward, now),
        )

    def _look(
        self,
        meters: _Meters,
        group: ControlGroup,
        now: Nanoseconds,
        counters: Callable[[ControlGroup, Nanoseconds], Mapping[Signal, Counter]],
    ) -> Mapping[Signal, float]:
        meter = meters.get(group, now, lambda: Meter(self._shortest))
        return meter.look(now, lambda: counters(group, now))


def _is_in(group: ControlGroup, others: Container[ControlGroup]) -> bool:
    return any(each in others for each in group.lineage)
