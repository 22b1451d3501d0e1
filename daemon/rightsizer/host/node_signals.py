"""Signals of the whole node: CPU, pressure, disks, network interfaces."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.host.cache import RefreshingCache
from rightsizer.host.files import cpu_set, link_name, read_file, read_line, read_names
from rightsizer.host.rates import CounterMeter, MonotonicCounter, sum_by_signal
from rightsizer.host.settings import HostSettings
from rightsizer.model.values import Nanoseconds, Signal, nanoseconds, seconds

_KINDS: Final = (
    (Signal.CPU_PRESSURE, "cpu"),
    (Signal.IO_PRESSURE, "io"),
    (Signal.MEMORY_PRESSURE, "memory"),
)
_SOME: Final = re.compile(r"some avg10=(\d+(?:\.\d+)?) .*?total=(\d+)")
_MICROSECOND: Final = 1000
_IDLE: Final = 3
_IO_WAIT: Final = 4
_GUEST: Final = 8
"""From this field on, the time is already included in user time."""
_DISK_SIGNALS: Final = (Signal.DISK_READ_BYTES_PER_SECOND, Signal.DISK_WRITE_BYTES_PER_SECOND)
_NETWORK_SIGNALS: Final = (
    Signal.NETWORK_RECEIVE_BYTES_PER_SECOND,
    Signal.NETWORK_TRANSMIT_BYTES_PER_SECOND,
)
_NAME: Final = 2
_SECTORS_READ: Final = 5
_SECTORS_WRITTEN: Final = 9
_SECTOR_BYTES: Final = 512
"""Sector size of the kernel's counters, independent of the disk's."""
_RECEIVED: Final = 0
_TRANSMITTED: Final = 8
_MULTIPATH: Final = re.compile(r"(nvme\d+)c\d+(n\d+)")
"""One path to a disk of NVMe multipath, e.g. `nvme0c1n1` to `nvme0n1`."""
_REPRESENTOR: Final = re.compile(r"(?:c\d+)?pf\d+.*")
"""Representor on the host of an adapter's function used by a guest."""
_VIRTUAL: Final = re.compile(
    r"(?:lo|veth|br[-\d]|docker|cni|cali|lxc|tun|tap|wg|sit|gre|erspan|ip6|dummy|ifb|vxlan|geneve|flannel"
    r"|cilium|virbr|vnet|bond|team|nodelocaldns|kube)"
)
"""Virtual interfaces by their usual names, for namespaces that are not visible in sysfs."""


def pressures(path_of: Callable[[str], str], now: Nanoseconds) -> dict[Signal, MonotonicCounter]:
    """Time that some task waited, from the file of each kind; empty without kernel support."""
    counters: dict[Signal, MonotonicCounter] = {}
    for signal, name in _KINDS:
        match = _SOME.match(read_file(path_of(name)) or "")
        if match is not None:
            recent, waited = match.groups()
            counters[signal] = MonotonicCounter(
                int(waited) * _MICROSECOND, now, float(recent) / 100
            )
    return counters


def node_processors(procfs: str) -> dict[Signal, MonotonicCounter]:
    """CPU time in use, and in I/O wait, relative to the total.

    The kernel may decrease I/O wait slightly; it is then missing for one read.
    """
    fields = (read_file(f"{procfs}/stat") or "").partition("\n")[0].split()[1:]
    try:
        ticks = [int(field) for field in fields[:_GUEST]]
    except ValueError:
        return {}
    if len(ticks) <= _IO_WAIT:
        return {}
    total = sum(ticks)
    return {
        Signal.CPU: MonotonicCounter(total - ticks[_IDLE] - ticks[_IO_WAIT], total),
        Signal.IO_WAIT: MonotonicCounter(ticks[_IO_WAIT], total),
    }


def online_cpus(sysfs: str) -> frozenset[int]:
    """Online CPUs; empty if sysfs does not list them."""
    return cpu_set(read_file(f"{sysfs}/devices/system/cpu/online") or "")


def nodes_with_cpus(sysfs: str) -> frozenset[int]:
    """NUMA nodes with CPUs; the others are device memory."""
    return cpu_set(read_file(f"{sysfs}/devices/system/node/has_cpu") or "")


class Disks(Struct, frozen=True):
    """Whole disks of the node."""

    names: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    """Device numbers used by cgroups, e.g. `259:0`."""


def whole_disks(sysfs: str) -> Disks:
    """Disks with hardware behind them, and the paths of multipath disks."""
    top = f"{sysfs}/block"
    block_devices = [name for name in read_names(top) if Path(top, name, "device").is_symlink()]
    # sysfs replaces slashes in disk names by exclamation marks.
    names = frozenset(name.replace("!", "/") for name in block_devices)
    # Control groups count the I/O of a multipath disk, never that of its hidden paths.
    numbers = [
        read_line(f"{top}/{name}/dev")
        for name in block_devices
        if read_line(f"{top}/{name}/hidden") != "1"
    ]
    return Disks(names, frozenset(filter(None, numbers)))


def disk_counters(
    procfs: str, disks: Disks, now: Nanoseconds
) -> Mapping[tuple[Signal, str], MonotonicCounter]:
    """Bytes read and written by disk."""
    lines = (line.split() for line in (read_file(f"{procfs}/diskstats") or "").splitlines())
    whole = (line for line in lines if len(line) > _SECTORS_WRITTEN and line[_NAME] in disks.names)
    rows = {fields[_NAME]: (fields[_SECTORS_READ], fields[_SECTORS_WRITTEN]) for fields in whole}
    # A multipath disk's own counters stay 0 before Linux 6.3; those of its paths do not.
    repeated = {_MULTIPATH.sub(r"\1\2", name) for name in rows if _MULTIPATH.fullmatch(name)}
    once = [(name, *counts) for name, counts in rows.items() if name not in repeated]
    return _counters(once, _DISK_SIGNALS, now, _SECTOR_BYTES)


def _counters(
    rows: Iterable[tuple[str, str, str]],
    signals: tuple[Signal, Signal],
    now: Nanoseconds,
    unit_bytes: int = 1,
) -> dict[tuple[Signal, str], MonotonicCounter]:
    """Two counters per disk or interface; lines without numbers are skipped."""
    counters: dict[tuple[Signal, str], MonotonicCounter] = {}
    for name, *texts in rows:
        try:
            counts = [int(text) * unit_bytes for text in texts]
        except ValueError:
            continue
        for signal, count in zip(signals, counts, strict=True):
            counters[signal, name] = MonotonicCounter(count, seconds(now))
    return counters


def physical_interfaces(sysfs: str) -> frozenset[str]:
    """Interfaces with hardware behind them, not already counted by another."""
    top = f"{sysfs}/class/net"
    interfaces = {name for name in read_names(top) if Path(top, name, "device").is_symlink()}
    return frozenset(
        name for name in interfaces if not _is_counted_elsewhere(f"{top}/{name}", interfaces)
    )


def _is_counted_elsewhere(folder: str, physical: set[str]) -> bool:
    # Accelerated path of a virtual machine, below an interface with its own hardware.
    if link_name(f"{folder}/master") in physical:
        return True
    return _REPRESENTOR.fullmatch(read_line(f"{folder}/phys_port_name")) is not None


def is_outward(name: str) -> bool:
    """Whether a container's interface leads outside, judged by its name."""
    return _VIRTUAL.match(name) is None


def interface_counters(
    text: str | None, is_counted: Callable[[str], bool], now: Nanoseconds
) -> Mapping[tuple[Signal, str], MonotonicCounter]:
    """Bytes received and transmitted by interface, from `net/dev`."""
    rows = []
    for line in (text or "").splitlines():
        # The interface name may contain colons.
        name, colon, rest = line.rpartition(":")
        name = name.strip()
        fields = rest.split()
        if colon and len(fields) > _TRANSMITTED and is_counted(name):
            rows.append((name, fields[_RECEIVED], fields[_TRANSMITTED]))
    return _counters(rows, _NETWORK_SIGNALS, now)


class NodeSignalReader:
    """CPU, pressure, disks and network of the node since the last read."""

    def __init__(self, procfs: str, sysfs: str, settings: HostSettings) -> None:
        self._procfs = procfs
        self._sysfs = sysfs
        shortest = nanoseconds(settings.shortest_seconds)
        recheck = nanoseconds(settings.recheck_interval_seconds)
        self._ratios = CounterMeter[Signal](shortest)
        self._throughput = CounterMeter[tuple[Signal, str]](shortest)
        self._interfaces = RefreshingCache[None, frozenset[str]](recheck, recheck)

    def read(self, disks: Disks, now: Nanoseconds) -> Mapping[Signal, float]:
        """Available signals."""
        throughput = self._throughput.update(now, lambda: self._counters(disks, now))
        ratios = self._ratios.update(
            now,
            lambda: (
                pressures(lambda kind: f"{self._procfs}/pressure/{kind}", now)
                | node_processors(self._procfs)
            ),
        )
        bounded = {signal: min(1.0, ratio) for signal, ratio in ratios.items()}
        return bounded | sum_by_signal(throughput)

    def _counters(
        self, disks: Disks, now: Nanoseconds
    ) -> Mapping[tuple[Signal, str], MonotonicCounter]:
        physical = self._interfaces.get(None, now, lambda: physical_interfaces(self._sysfs))
        # Interfaces of the host's first process, since our own may be a container's.
        first = read_file(f"{self._procfs}/1/net/dev")
        text = first or read_file(f"{self._procfs}/net/dev")
        return {
            **disk_counters(self._procfs, disks, now),
            **interface_counters(text, physical.__contains__, now),
        }
