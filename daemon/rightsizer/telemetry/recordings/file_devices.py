"""Devices of several files: one under two names, and two of different nodes under one."""

from collections.abc import Iterator, Mapping
from typing import Final

from rightsizer.model.errors import RecordingError
from rightsizer.model.signal import Signal
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.recordings.row import SUMMED, RecordingDeviceFacts, RecordingRow

_BY_INDEX: Final = "index:"
_NEAR: Final[Nanoseconds] = 2 * NANOSECONDS_PER_SECOND
_FEWEST: Final = 30
"""Pairs of readings that differ, and more than are alike: of one GPU some do while it changes."""
_COMPARED: Final = (
    (Signal.MEMORY_USED_BYTES, 2.0**30),
    (Signal.GPU_BUSY, 0.5),
)
"""What a GPU has once at a time, the steadiest first, and by how much two of it differ."""


def other_names(facts: Mapping[str, RecordingDeviceFacts]) -> dict[str, str]:
    """The uuids of devices that other rows call by their index, where but one device has it."""
    named: dict[int, list[str]] = {}
    for device, fact in facts.items():
        if fact.index is not None and fact.mig_profile is None:
            named.setdefault(fact.index, []).append(device)
    return {
        by_index: uuid
        for index, (uuid, *others) in ((at, sorted(each)) for at, each in named.items())
        if others == [by_index := f"index:{index}"]
    }


def of_one_node(rows: Iterator[RecordingRow]) -> Iterator[RecordingRow]:
    """The rows of several files; refused where an index is of different GPUs, as of two nodes."""
    last: dict[str, dict[str, RecordingRow]] = {}
    pairs: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        yield row
        if not row.device.startswith(_BY_INDEX) or row.rank == SUMMED:
            continue
        streams = last.setdefault(row.device, {})
        for stream, other in streams.items():
            is_near = stream != row.stream and row.time - other.time <= _NEAR
            if is_near and (differs := _differs(row, other)) is not None:
                one, two = sorted((stream, row.stream))
                pair = pairs.setdefault((row.device, one, two), [0, 0])
                pair[differs] += 1
        streams[row.stream] = row
    for (device, one, two), (alike, different) in pairs.items():
        if different >= max(_FEWEST, alike):
            raise RecordingError(
                f"GPU {device.removeprefix(_BY_INDEX)} of {one} is not that of {two}: replay the "
                "logs of each node by themselves, or record with uuid"
            )


def _differs(one: RecordingRow, other: RecordingRow) -> bool | None:
    for signal, difference in _COMPARED:
        if signal in one.values and signal in other.values:
            return abs(one.values[signal] - other.values[signal]) >= difference
    return None
