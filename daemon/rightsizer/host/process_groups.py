"""Signals of processes' control groups and network namespaces, and the processes' locations."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct

from rightsizer.host.cache import ExpiringCache, RefreshingCache
from rightsizer.host.cgroups import (
    ControlGroup,
    ControlGroupHierarchies,
    ControlGroupMembership,
    CpuLimits,
    core_seconds,
    disk_bytes,
    outermost,
)
from rightsizer.host.files import cpu_set, inode_of, read_file
from rightsizer.host.node_signals import Disks, interface_counters, is_outward, pressures
from rightsizer.host.process_table import ProcessRow, ProcessTable
from rightsizer.host.rates import CounterMeter, MonotonicCounter, sum_by_signal
from rightsizer.host.settings import HostSettings
from rightsizer.model.values import Nanoseconds, Signal, nanoseconds, seconds

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_CPUS: Final = "Cpus_allowed_list:"
_Memberships: TypeAlias = Collection[ControlGroupMembership]
_Meters: TypeAlias = ExpiringCache[ControlGroup, CounterMeter[Signal]]


class ProcessLocation(Struct, frozen=True):
    """Location of one process in control groups, CPUs and namespaces."""

    pid: int
    started_ticks: int
    """Since boot; identifies the process together with its reusable pid."""
    membership: ControlGroupMembership
    cpus: frozenset[int]
    """CPUs allowed to its first thread; empty if unknown."""
    network: int | None
    """Inode number of its network namespace; `None` if procfs hides it."""


class _CpuUsage:
    """CPU time that a process uses, between two reads of its row."""

    def __init__(self, shortest: Nanoseconds) -> None:
        self._meter = CounterMeter[Signal](shortest)
        self._row: ProcessRow | None = None
        self._rate: float | None = None

    def update(self, row: ProcessRow, now: Nanoseconds) -> float | None:
        """Share of one CPU; the last one if the row was not read again."""
        if row is not self._row:
            self._row = row
            counter = MonotonicCounter(row.cpu_ticks / _TICKS_PER_SECOND, seconds(now))
            rates = self._meter.update(now, lambda: {Signal.PROCESS_CPU: counter})
            self._rate = rates.get(Signal.PROCESS_CPU)
        return self._rate


_INTERVALS_HELD: Final = 3
"""Intervals for which CPUs and namespace of a process are cached.

Source: as long as its owner. Its control groups, which change more often, are part of the key.
"""


class ProcessLocator:
    """Cache of process locations, looked up again when a pid is reused or a process is moved."""

    def __init__(
        self,
        procfs: str,
        table: ProcessTable,
        hierarchies: ControlGroupHierarchies,
        settings: HostSettings,
    ) -> None:
        self._procfs = procfs
        self._table = table
        self._hierarchies = hierarchies
        interval = nanoseconds(settings.recheck_interval_seconds)
        forget_after = nanoseconds(settings.forget_after_seconds)
        self._shortest = nanoseconds(settings.shortest_seconds)
        self._known = RefreshingCache[tuple[int, int, str], ProcessLocation](
            _INTERVALS_HELD * interval, forget_after
        )
        self._usages = ExpiringCache[tuple[int, int], _CpuUsage](forget_after)
        self._host_network = RefreshingCache[None, int | None](interval, forget_after)

    def of(self, pids: Iterable[int], now: Nanoseconds) -> tuple[ProcessLocation, ...]:
        """Locations of the existing processes."""
        if not self._table.shows_our_pids:
            return ()
        places = (self._of(pid, now) for pid in dict.fromkeys(pids))
        return tuple(place for place in places if place is not None)

    def busiest(self, pids: Iterable[int], now: Nanoseconds) -> Mapping[Signal, float]:
        """CPU time of the process that uses the most, of one CPU, and at most 1."""
        if not self._table.shows_our_pids:
            return {}
        rates = [rate for pid in pids if (rate := self._cpu(pid, now)) is not None]
        return {Signal.PROCESS_CPU: min(1.0, max(rates))} if rates else {}

    def host_network(self, now: Nanoseconds) -> int | None:
        """Network namespace of the host's first process; `None` if procfs hides it."""
        return self._host_network.get(None, now, lambda: self._network(1))

    def _cpu(self, pid: int, now: Nanoseconds) -> float | None:
        row = self._table.row(pid)
        if row is None:
            return None
        key = pid, row.started_ticks
        usage = self._usages.get(key, now, lambda: _CpuUsage(self._shortest))
        return usage.update(row, now)

    def _of(self, pid: int, now: Nanoseconds) -> ProcessLocation | None:
        row = self._table.row(pid)
        if row is None:
            return None
        key = pid, row.started_ticks, self._table.control_groups(pid)
        return self._known.get(key, now, lambda: self._place(*key))

    def _network(self, pid: int) -> int | None:
        # The link `ns/net` is restricted to tracers; the interface list is readable for everyone,
        # and exists once per namespace.
        return inode_of(f"{self._procfs}/{pid}/net/dev")

    def _place(self, pid: int, started: int, groups: str) -> ProcessLocation:
        folder = f"{self._procfs}/{pid}"
        return ProcessLocation(
            pid=pid,
            started_ticks=started,
            membership=self._hierarchies.membership(groups),
            cpus=_cpus(read_file(f"{folder}/status") or ""),
            network=self._network(pid),
        )


def _cpus(status: str) -> frozenset[int]:
    _, separator, rest = status.partition(f"\n{_CPUS}")
    return cpu_set(rest.partition("\n")[0].strip()) if separator else frozenset()


class ProcessGroupReader:
    """Reads each group once, however many processes and devices it has."""

    def __init__(self, procfs: str, settings: HostSettings) -> None:
        self._procfs = procfs
        self._shortest = nanoseconds(settings.shortest_seconds)
        forget_after = nanoseconds(settings.forget_after_seconds)
        self._limits = CpuLimits(nanoseconds(settings.recheck_interval_seconds), forget_after)
        self._processors: _Meters = ExpiringCache(forget_after)
        self._pressures: _Meters = ExpiringCache(forget_after)
        self._disks: _Meters = ExpiringCache(forget_after)
        self._networks = ExpiringCache[int, CounterMeter[tuple[Signal, str]]](forget_after)

    def __len__(self) -> int:
        followed = (self._processors, self._pressures, self._disks, self._networks)
        return sum(len(meters) for meters in followed)

    def read(
        self,
        places: Collection[ProcessLocation],
        *,
        disks: Disks,
        online: frozenset[int],
        host_network: int | None,
        now: Nanoseconds,
    ) -> Mapping[Signal, float]:
        """Available signals of the processes' groups and namespaces."""
        memberships = {place.membership for place in places}
        return {
            **self._cpu(memberships, online, now),
            **self._pressure(memberships, now),
            **self._disk(memberships, disks, now),
            **self._network(places, host_network, now),
        }

    def _cpu(
        self, memberships: _Memberships, online: frozenset[int], now: Nanoseconds
    ) -> dict[Signal, float]:
        """CPU time used, relative to the quota; groups without a rate are excluded from both."""
        groups = outermost([membership.cpu_time for membership in memberships])
        rates = {
            group: rate
            for group in groups
            for rate in self._rates(self._processors, group, now, core_seconds).values()
        }
        if not rates:
            return {}
        measured = frozenset(
            membership
            for membership in memberships
            if membership.cpu_time and not rates.keys().isdisjoint(membership.cpu_time.lineage)
        )
        cores = self._limits.cores(measured, online, now)
        return {Signal.CPU: min(1.0, sum(rates.values()) / cores)} if cores else {}

    def _pressure(self, memberships: _Memberships, now: Nanoseconds) -> dict[Signal, float]:
        """Maximum over the groups, a lower bound of the time that some task waited."""
        worst: dict[Signal, float] = {}
        for group in outermost([membership.pressure for membership in memberships]):
            rates = self._rates(self._pressures, group, now, _pressures)
            for signal, ratio in rates.items():
                worst[signal] = max(worst.get(signal, 0.0), min(1.0, ratio))
        return worst

    def _disk(
        self, memberships: _Memberships, disks: Disks, now: Nanoseconds
    ) -> dict[Signal, float]:
        parts = {
            (signal, group.folder): rate
            for group in outermost([membership.io for membership in memberships])
            for signal, rate in self._rates(
                self._disks, group, now, lambda group, now: disk_bytes(group, disks.numbers, now)
            ).items()
        }
        return sum_by_signal(parts)

    def _network(
        self, places: Collection[ProcessLocation], host_network: int | None, now: Nanoseconds
    ) -> dict[Signal, float]:
        """Read each namespace once, through any of its processes; omit the host's."""
        if host_network is None:
            return {}
        inside = {place.network: place.pid for place in places}
        parts = {
            (signal, f"{network} {name}"): rate
            for network, pid in inside.items()
            if network not in (None, host_network)
            for (signal, name), rate in self._interfaces(network, pid, now).items()
        }
        return sum_by_signal(parts)

    def _interfaces(
        self, network: int, pid: int, now: Nanoseconds
    ) -> Mapping[tuple[Signal, str], float]:
        meter = self._networks.get(network, now, lambda: CounterMeter(self._shortest))
        return meter.update(
            now,
            lambda: interface_counters(read_file(f"{self._procfs}/{pid}/net/dev"), is_outward, now),
        )

    def _rates(
        self,
        meters: _Meters,
        group: ControlGroup,
        now: Nanoseconds,
        counters: Callable[[ControlGroup, Nanoseconds], Mapping[Signal, MonotonicCounter]],
    ) -> Mapping[Signal, float]:
        meter = meters.get(group, now, lambda: CounterMeter(self._shortest))
        return meter.update(now, lambda: counters(group, now))


def _pressures(group: ControlGroup, now: Nanoseconds) -> Mapping[Signal, MonotonicCounter]:
    return pressures(lambda kind: f"{group.folder}/{kind}.pressure", now)
