"""The node's CPU time."""

from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.host.counter import Counter
from rightsizer.telemetry.host.text import cpu_list, read

__all__ = ["node_processors", "nodes_with_cpus", "online_cpus"]

_IDLE: Final = 3
_IO_WAIT: Final = 4
_GUEST: Final = 8
"""From here on the time is already counted as user time."""


def node_processors(procfs: str) -> dict[Signal, Counter]:
    """CPU time in use and CPU time that waited for a disk, of all there was.

    A kernel may set I/O wait back a little; then it has no value for one look.
    """
    fields = (read(f"{procfs}/stat") or "").partition("\n")[0].split()[1:]
    try:
        ticks = [int(field) for field in fields[:_GUEST]]
    except ValueError:
        return {}
    if len(ticks) <= _IO_WAIT:
        return {}
    total = sum(ticks)
    return {
        Signal.CPU: Counter(total - ticks[_IDLE] - ticks[_IO_WAIT], total),
        Signal.IO_WAIT: Counter(ticks[_IO_WAIT], total),
    }


def online_cpus(sysfs: str) -> frozenset[int]:
    """The CPUs that are there and switched on; none where sysfs does not say."""
    return cpu_list(read(f"{sysfs}/devices/system/cpu/online") or "")


def nodes_with_cpus(sysfs: str) -> frozenset[int]:
    """The NUMA nodes that have CPUs; the others are memory of devices."""
    return cpu_list(read(f"{sysfs}/devices/system/node/has_cpu") or "")
