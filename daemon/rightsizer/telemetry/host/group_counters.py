"""What a control group has used so far, in either version of the files."""

from collections.abc import Iterator
from typing import Final, TypeAlias

from rightsizer.domain.signal import Signal
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.domain.units import seconds as in_seconds
from rightsizer.telemetry.host.control_group import ControlGroup
from rightsizer.telemetry.host.counter import Counter
from rightsizer.telemetry.host.text import read, whole_number

__all__ = ["core_seconds", "disk_bytes"]

_Line: TypeAlias = tuple[str, Signal, int]
"""A device, in which direction, and how many bytes."""

_MICROSECONDS_PER_SECOND: Final = 1_000_000
_USAGE: Final = "usage_usec "
_READ: Final = Signal.DISK_READ_BYTES_PER_SECOND
_WRITE: Final = Signal.DISK_WRITE_BYTES_PER_SECOND
_UNIFIED_KEYS: Final = {"rbytes": _READ, "wbytes": _WRITE}
_BLKIO_KEYS: Final = {"Read": _READ, "Write": _WRITE}
_BLKIO_FILES: Final = (
    "blkio.throttle.io_service_bytes_recursive",
    "blkio.throttle.io_service_bytes",
)
"""The second leaves out what groups inside have done; older kernels have no other."""


def core_seconds(group: ControlGroup, now: Nanoseconds) -> dict[Signal, Counter]:
    """CPU time; its rate is the number of cores in use."""
    if group.is_unified:
        text = read(f"{group.folder}/cpu.stat") or ""
        if not text.startswith(_USAGE):
            return {}
        used, unit = text[len(_USAGE) :].partition("\n")[0], _MICROSECONDS_PER_SECOND
    else:
        number = whole_number(f"{group.folder}/cpuacct.usage")
        used, unit = "" if number is None else str(number), NANOSECONDS_PER_SECOND
    try:
        return {Signal.CPU: Counter(int(used) / unit, in_seconds(now))}
    except ValueError:
        return {}


def disk_bytes(
    group: ControlGroup, disks: frozenset[str], now: Nanoseconds
) -> dict[Signal, Counter]:
    """Bytes read from and written to whole disks.

    Version 2 has nothing to say of a group that has done nothing, which is 0. Version 1 says the
    same where the kernel does not count, so there the group's first bytes are the beginning.

    Args:
        group: Whose.
        disks: The numbers of the whole disks; a volume repeats the disks below it.
        now: The time of the look.
    """
    lines = _unified_lines(group) if group.is_unified else _blkio_lines(group)
    if lines is None or not disks:
        return {}
    totals = {_READ: 0, _WRITE: 0}
    for device, signal, count in lines:
        if device in disks:
            totals[signal] += count
    return {signal: Counter(total, in_seconds(now)) for signal, total in totals.items()}


def _unified_lines(group: ControlGroup) -> list[_Line] | None:
    text = read(f"{group.folder}/io.stat")
    return None if text is None else list(_pairs(text))


def _pairs(text: str) -> Iterator[_Line]:
    for line in text.splitlines():
        device, _, fields = line.partition(" ")
        for field in fields.split():
            key, _, count = field.partition("=")
            if key in _UNIFIED_KEYS and count.isdecimal():
                yield device, _UNIFIED_KEYS[key], int(count)


def _blkio_lines(group: ControlGroup) -> list[_Line] | None:
    for name in _BLKIO_FILES:
        text = read(f"{group.folder}/{name}")
        if text is not None:
            return list(_triples(text)) or None
    return None


def _triples(text: str) -> Iterator[_Line]:
    for line in text.splitlines():
        # The last line, the sum of all, has no device.
        device, _, rest = line.partition(" ")
        operation, _, count = rest.partition(" ")
        if operation in _BLKIO_KEYS and count.isdecimal():
            yield device, _BLKIO_KEYS[operation], int(count)
