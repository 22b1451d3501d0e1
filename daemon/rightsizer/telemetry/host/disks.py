"""Whole disks and what passes through them.

Partitions repeat their disk, and loop devices, RAM disks, volumes and arrays repeat the disks
below them: only what has a piece of hardware behind it is counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.units import seconds as in_seconds
from rightsizer.telemetry.host.counter import Counter
from rightsizer.telemetry.host.text import names_in, read, words

__all__ = ["Disks", "disk_counters", "whole_disks"]

_NAME: Final = 2
_SECTORS_READ: Final = 5
_SECTORS_WRITTEN: Final = 9
_SECTOR_BYTES: Final = 512
"""Of the kernel's counters, whatever the disk's own sectors are."""


@dataclass(frozen=True, slots=True)
class Disks:
    """The whole disks of the node."""

    names: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    """As control groups call them: `259:0`."""


def whole_disks(sysfs: str) -> Disks:
    """Disks with hardware behind them, but for the hidden paths of a disk that has several."""
    top = f"{sysfs}/block"
    found = {
        name: words(f"{top}/{name}/dev")
        for name in names_in(top)
        if Path(top, name, "device").is_symlink() and words(f"{top}/{name}/hidden") != "1"
    }
    # A slash in a disk's name is an exclamation mark in sysfs.
    names = frozenset(name.replace("!", "/") for name in found)
    return Disks(names, frozenset(filter(None, found.values())))


def disk_counters(
    procfs: str, disks: Disks, now: Nanoseconds
) -> Mapping[tuple[Signal, str], Counter]:
    """Bytes read and written, disk by disk."""
    time, counters = in_seconds(now), dict[tuple[Signal, str], Counter]()
    for line in (read(f"{procfs}/diskstats") or "").splitlines():
        fields = line.split()
        if len(fields) <= _SECTORS_WRITTEN or fields[_NAME] not in disks.names:
            continue
        name = fields[_NAME]
        try:
            taken, written = int(fields[_SECTORS_READ]), int(fields[_SECTORS_WRITTEN])
        except ValueError:
            continue
        counters[Signal.DISK_READ_BYTES_PER_SECOND, name] = Counter(taken * _SECTOR_BYTES, time)
        counters[Signal.DISK_WRITE_BYTES_PER_SECOND, name] = Counter(written * _SECTOR_BYTES, time)
    return counters
