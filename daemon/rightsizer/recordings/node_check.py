"""Check that rows are of one node: devices by two names, an index or a time of two GPUs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Final

from rightsizer.model.values import (
    BY_INDEX,
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    RecordingError,
    Signal,
    format_duration,
    seconds,
)
from rightsizer.recordings.row import SUMMED, RecordingNotes, RecordingRow
from rightsizer.recordings.row_file import RowFile
from rightsizer.telemetry.device_description import DeviceDescription

_NEAR: Final[Nanoseconds] = 2 * NANOSECONDS_PER_SECOND
_FEWEST: Final = 30
"""Minimum number of differing pairs of readings; some of one GPU differ while it changes."""
_FEW: Final = 3
"""Minimum number of unequal readings of one time to remark, if at most times."""
_TAKEN_FOR_ONE: Final = "they are read as of one node; replay the logs of two nodes one by one"
_ROTATED: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND
_ROTATED_STEPS: Final = 3
"""Maximum gap to the next file of one log, in time or in its readings."""
_COMPARED: Final = ((Signal.MEMORY_USED_BYTES, 2.0**30), (Signal.GPU_BUSY, 0.5))
"""Signals with one value at a time, steadiest first, and the difference that matters."""


def other_names(facts: Mapping[str, DeviceDescription]) -> dict[str, str]:
    """Return the uuids of devices that other rows identify by a unique index."""
    named: dict[int, list[str]] = {}
    for device, fact in facts.items():
        if fact.index is not None and fact.mig_profile is None:
            named.setdefault(fact.index, []).append(device)
    return {
        by_index: uuid
        for index, (uuid, *others) in ((at, sorted(uuids)) for at, uuids in named.items())
        if others == [by_index := f"{BY_INDEX}{index}"]
    }


def of_one_node(rows: Iterator[RecordingRow], first: RowFile) -> Iterator[RecordingRow]:
    """Yield the rows of several files; fail if an index is of different GPUs, as of two nodes.

    If nothing tells, the first file's notes remark that they count as one node's.
    """
    last: dict[str, dict[str, RecordingRow]] = {}
    steps: dict[str, Nanoseconds] = {}
    pairs: Counter[tuple[str, str, str, bool]] = Counter()
    for row in rows:
        yield row
        if not row.device.startswith(BY_INDEX) or row.rank == SUMMED:
            continue
        streams = last.setdefault(row.device, {})
        if (before := streams.get(row.stream)) is not None:
            steps[row.stream] = row.time - before.time
        elif streams and row.stream != first.text.name:
            _tell_gap(max(streams.values(), key=attrgetter("time")), row, steps, first.notes)
        for stream, other in streams.items():
            is_near = stream != row.stream and row.time - other.time <= _NEAR
            if is_near and (differs := _differs(row, other)) is not None:
                one, two = sorted((stream, row.stream))
                pairs[row.device, one, two, differs] += 1
        streams[row.stream] = row
    for device, one, two in dict.fromkeys(pair[:3] for pair in pairs):
        alike = pairs[device, one, two, False]
        different = pairs[device, one, two, True]
        if different >= max(_FEWEST, alike):
            raise RecordingError(
                f"GPU {device.removeprefix(BY_INDEX)} of {one} is not that of {two}: replay the "
                "logs of each node by themselves, or record with uuid"
            )
        if alike >= _FEWEST:
            first.notes.remark(
                f"{one} and {two} have GPUs of one index at the same times: {_TAKEN_FOR_ONE}"
            )


class RepeatedTimes:
    """Rows of one stream, device and time: only the last counts."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str], list[int]] = {}
        self._unequal: Counter[tuple[str, str]] = Counter()

    def add(self, before: RecordingRow, row: RecordingRow) -> None:
        """Add a row with the time of the one before."""
        if (differs := _differs(before, row)) is not None:
            self._pairs.setdefault((row.device, row.stream), [0, 0])[differs] += 1
        self._unequal[row.device, row.stream] += before.values != row.values

    def check(self, times: Mapping[tuple[str, str], int], notes: RecordingNotes) -> None:
        """Fail if a device has two loads at a time, as in joined logs of nodes.

        If they are alike at most times, of which `times` are the numbers, only remark it.
        """
        unequal: dict[str, int] = {}
        for (device, stream), (alike, different) in self._pairs.items():
            name = device.replace(BY_INDEX, "GPU ")
            if different >= max(_FEWEST, alike):
                raise RecordingError(
                    f"{stream}: {name} has two readings that differ at each of {different:,} "
                    "times, as where logs of several nodes or GPUs are joined; write each node's "
                    "log to a file of its own, and name the GPU of each row by index or uuid"
                )
            count = self._unequal[device, stream]
            if count >= max(_FEW, times[device, stream] / 2):
                unequal[name] = count
        if unequal:
            notes.remark(
                f"{', '.join(unequal)} {'have' if len(unequal) > 1 else 'has'} several readings at "
                f"each of {max(unequal.values()):,} times, of which the last counts; where they "
                "are of several nodes, write each one's to a file of its own"
            )


def _tell_gap(
    before: RecordingRow,
    row: RecordingRow,
    steps: Mapping[str, Nanoseconds],
    notes: RecordingNotes,
) -> None:
    """Note a file that begins long after the end of another, as it may be of another node."""
    gap = row.time - before.time
    if gap > max(_ROTATED, _ROTATED_STEPS * steps.get(before.stream, 0)):
        notes.remark(
            f"{row.stream} begins {format_duration(seconds(gap))} after {before.stream} ends, and "
            f"has GPUs of the same index: {_TAKEN_FOR_ONE}"
        )


def _differs(one: RecordingRow, other: RecordingRow) -> bool | None:
    for signal, difference in _COMPARED:
        if signal in one.values and signal in other.values:
            return abs(one.values[signal] - other.values[signal]) >= difference
    return None
