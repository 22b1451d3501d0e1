"""Devices of rows without a device column, identified by row order within a poll."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, pairwise
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds, RecordingError, Signal
from rightsizer.recordings.row import RecordingNotes

_MILLISECOND: Final = 1_000_000
_LONGEST_GAP: Final = 500 * _MILLISECOND
"""A driver that takes longer per device hangs, and is not polling."""
_SHORTEST_POLL: Final = 50 * _MILLISECOND
"""Rows closer than this are one poll: none is so frequent."""
_MOST_DEVICES: Final = 64
_SEPARATION: Final = 2.0
"""Minimum ratio of typical gaps between polls to those within."""
_STRAY_RATIO: Final = 0.1
"""Share of gaps of each kind that may be atypical."""
_AGREEMENT: Final = 0.8
"""Share of polls that must have the typical number of rows."""
_STATED_AGREEMENT: Final = 0.5
"""The same if the number of devices is stated."""
_QUANTILES: Final = 128
_WITHIN_REACH: Final = 0.9
"""Share of the typical gap between polls for which an incomplete poll continues."""
_SLOW_SIGNALS: Final = {
    Signal.MEMORY_USED_BYTES: 16 * 2.0**20,
    Signal.MEMORY_USED: 0.002,
    Signal.TEMPERATURE_CELSIUS: 2.0,
    Signal.MEMORY_TOTAL_BYTES: 0.0,
    Signal.POWER_LIMIT_WATTS: 0.0,
    Signal.SM_CLOCK_MAXIMUM_HERTZ: 0.0,
}
"""Signals that do not alternate on one device, with their tolerance."""
_MEMORY: Final = (Signal.MEMORY_USED_BYTES, Signal.MEMORY_USED)
_FEW_SWAPS: Final = 3
_NEAR: Final = NANOSECONDS_PER_SECOND
_LOOK_BACK_ROWS: Final = 2 * _MOST_DEVICES
_SWING_RATIO: Final = 0.05
"""Share of rows from which alternating values mean several devices."""
_UNEVEN: Final = 4.0
_UNEVEN_RATIO: Final = 0.05
_SAMPLED_ROWS: Final = 10_000
_DeviceAt: TypeAlias = Callable[[Nanoseconds, int], str]
"""Returns a row's device by time and line."""
_RECORD: Final = "record with index or uuid"


class PollPattern(Struct, frozen=True):
    """Rows per poll, and the gap that ends an incomplete one."""

    rows: int
    ends_after: Nanoseconds | None = None
    """`None` if times do not separate polls."""


_SINGLE: Final = PollPattern(1)


def poll_pattern(times: Sequence[Nanoseconds], stated: int | None = None) -> PollPattern:
    """Find the polls in the times of rows, by the frequency of gaps.

    With several devices, gaps are of two kinds: a few milliseconds between devices, and the
    interval. Single gaps in between do not matter: a limit is right if it leaves polls of equal
    size; of several, the one with the most such polls, then the widest.
    """
    gaps = [after - before for before, after in pairwise(times)]
    best = _SINGLE if stated is None else PollPattern(stated)
    best_rank = (0.0, 0.0)
    if stated == 1:
        return best
    for low, high in _limits(sorted(gap for gap in gaps if gap >= 0)):
        rows, regular = _usual_size(gaps, low)
        rank = regular, high / max(low, _MILLISECOND)
        is_fit = (
            1 < rows <= _MOST_DEVICES and regular >= _AGREEMENT
            if stated is None
            else rows == stated and regular >= _STATED_AGREEMENT
        )
        if is_fit and rank > best_rank:
            best = PollPattern(rows, max(low, round(_WITHIN_REACH * high)))
            best_rank = rank
    return best


def _limits(gaps: Sequence[Nanoseconds]) -> list[tuple[Nanoseconds, Nanoseconds]]:
    """Return for each split the longest gap within a poll, and the typical one between.

    With n devices, all but one of n gaps are within a poll.
    """
    if not gaps:
        return []
    count = len(gaps)
    shares = {at / _QUANTILES for at in range(1, _QUANTILES)}
    shares |= {1 - 1 / devices for devices in range(2, _MOST_DEVICES + 1)}
    values = {gaps[min(count - 1, round(share * count))] for share in shares}
    # A split keeps equal gaps together: it is before the first or after the last of them.
    places = {side(gaps, value) for value in values for side in (bisect_left, bisect_right)}
    limits: dict[Nanoseconds, Nanoseconds] = {}
    for at in sorted(places - {0, count}):
        usual_within = gaps[int((1 - _STRAY_RATIO) * (at - 1))]
        usual_between = gaps[at + int(_STRAY_RATIO * (count - at))]
        is_apart = usual_between >= _SEPARATION * max(usual_within, _MILLISECOND)
        if gaps[at - 1] <= _LONGEST_GAP and is_apart:
            limits[gaps[at - 1]] = usual_between
    if gaps[-1] <= _SHORTEST_POLL:
        limits[gaps[-1]] = 2 * _LONGEST_GAP
    return list(limits.items())


def _usual_size(gaps: Sequence[Nanoseconds], longest_within: Nanoseconds) -> tuple[int, float]:
    """Return the typical number of rows per poll, and the share of polls with it."""
    sizes = [1]
    for gap in gaps:
        if 0 <= gap <= longest_within:
            sizes[-1] += 1
        else:
            sizes.append(1)
    size, _ = Counter(sizes).most_common(1)[0]
    if len(sizes) > 1 and sizes[-1] < size:
        sizes.pop()  # The log ends within its last poll.
    return size, sizes.count(size) / len(sizes)


class SampledRow(NamedTuple):
    """A row at the start of a log, reduced to what identifies devices."""

    time: Nanoseconds
    values: Mapping[Signal, float]
    facts: tuple[str, ...] = ()
    """Cells that never change for a device."""


def doubt_of_single(rows: Sequence[SampledRow]) -> str | None:
    """Return why rows taken for one device's may be of several, or `None`."""
    if len(rows) > 1 and all(
        sampled_row.facts != other.facts for sampled_row, other in pairwise(rows)
    ):
        return "rows that follow each other name different boards"
    for signal, tolerance in _SLOW_SIGNALS.items():
        if _swings(rows, signal, tolerance) >= max(2, _SWING_RATIO * len(rows)):
            return f"'{signal}' swings back and forth within a second"
    if sum(before.facts != after.facts for before, after in pairwise(rows)) > 1:
        return "rows of different boards take turns"
    gaps = [max(_MILLISECOND, abs(after.time - before.time)) for before, after in pairwise(rows)]
    uneven = sum(after > _UNEVEN * before for before, after in pairwise(gaps))
    if uneven >= max(2, _UNEVEN_RATIO * len(gaps)):
        return "rows follow each other after very different times"
    return None


def _swings(rows: Sequence[SampledRow], signal: Signal, tolerance: float) -> int:
    """Count values that leave the previous one for one seen shortly before."""
    recent: list[float] = []
    last_time: Nanoseconds | None = None
    swings = 0
    for row in rows:
        value = row.values.get(signal)
        if value is None:
            continue
        slack = max(tolerance, 0.002 * abs(value)) if tolerance else 0.0
        is_near = last_time is not None and abs(row.time - last_time) <= _NEAR
        if (
            is_near
            and abs(value - recent[-1]) > slack
            and any(abs(value - other) <= slack for other in recent[-_LOOK_BACK_ROWS:-1])
        ):
            swings += 1
        recent.append(value)
        last_time = row.time
    return swings


class StatedDevices(Struct, frozen=True):
    """User's statement about the devices of a log that does not name them."""

    count: int | None = None
    name: str | None = None
    """The only device; a number is its index."""


NOTHING_STATED: Final = StatedDevices()


def device_order(
    rows: Iterable[SampledRow],
    stated: StatedDevices,
    notes: RecordingNotes,
    counted: int | None = None,
) -> _DeviceAt:
    """Return what identifies devices of rows without a device column; warn if it is a guess.

    `rows` is read as far as needed; `counted` is the number of the node's GPUs, of which a log may
    have some alone.

    Raises:
        RecordingError: rows of a poll come in varying order.
    """
    name = stated.name or ("0" if stated.count == 1 else None)
    if name is not None:
        only = notes.gpu(int(name)) if name.isdecimal() else name
        return lambda *_: only
    sample = list(islice(rows, _SAMPLED_ROWS))
    ordered = _in_order(sample)
    times = [row.time for row in ordered]
    pattern = poll_pattern(times, stated.count)
    if counted and stated.count is None and _may_be(counted, pattern, times):
        stated = StatedDevices(counted)
        pattern = poll_pattern(times, counted)
    _check_order(ordered, pattern, stated, notes)
    if stated.count is None:
        _warn(sample, pattern, notes)
    return _DeviceOrder(pattern, notes).device


def _may_be(counted: int, pattern: PollPattern, times: Sequence[Nanoseconds]) -> bool:
    """Whether polls of so many rows are possible: with one row each, none would be this close."""
    near = sum(after - before <= _LONGEST_GAP for before, after in pairwise(times))
    is_near = near >= _AGREEMENT * (1 - 1 / counted) * (len(times) - 1)
    return pattern.rows == counted or (pattern == _SINGLE and is_near)


def _in_order(sample: Sequence[SampledRow]) -> Sequence[SampledRow]:
    """Return rows in log order; by time if the log is unordered."""
    backward = sum(after.time < before.time for before, after in pairwise(sample))
    is_ordered = backward <= _UNEVEN_RATIO * len(sample)
    return sample if is_ordered else sorted(sample, key=attrgetter("time"))


def _check_order(
    rows: Sequence[SampledRow],
    pattern: PollPattern,
    stated: StatedDevices,
    notes: RecordingNotes,
) -> None:
    """Refuse polls whose rows come in varying order; warn if their order is stated."""
    order = _DeviceOrder(pattern, RecordingNotes(notes.file))
    polls: list[list[SampledRow]] = []
    for row in rows:
        if order.position(row.time, 0) == 0:
            polls.append([])
        polls[-1].append(row)
    whole = [poll for poll in polls if len(poll) == pattern.rows]
    swapped = sum(_is_swapped(*pair) for pair in pairwise(whole))
    if swapped < max(_FEW_SWAPS, _SWING_RATIO * len(whole)):
        return
    fault = (
        f"no column names the GPU, and the rows of a poll come in varying order: in {swapped} of "
        f"{len(whole)} polls GPUs seem to change their memory with each other"
    )
    if stated.count is None:
        remedy = f"{_RECORD}, or with --devices {pattern.rows} say that their order is the same"
        raise RecordingError(f"{notes.file}: {fault}; {remedy}")
    notes.remark(f"{fault}; {_RECORD}")


def _is_swapped(before: Sequence[SampledRow], after: Sequence[SampledRow]) -> bool:
    """Whether a poll has the memory of the one before, at other places."""
    for signal in _MEMORY:
        old = [row.values[signal] for row in before if signal in row.values]
        new = [row.values[signal] for row in after if signal in row.values]
        if len(old) == len(new) == len(before):
            slack = _SLOW_SIGNALS[signal]
            return _are_near(sorted(old), sorted(new), slack) and not _are_near(old, new, slack)
    return False


def _are_near(values: Sequence[float], others: Sequence[float], slack: float) -> bool:
    return all(abs(one - other) <= slack for one, other in zip(values, others, strict=True))


def _warn(sample: Sequence[SampledRow], pattern: PollPattern, notes: RecordingNotes) -> None:
    if pattern.rows > 1:
        notes.remark(
            f"no column names the GPU: the rows are read as those of {pattern.rows} GPUs, by their "
            f"order in each poll; confirm it with --devices {pattern.rows}, or {_RECORD}"
        )
    elif doubt := doubt_of_single(sample) or doubt_of_single(_in_order(sample)):
        notes.remark(
            f"no column names the GPU, and the rows, read as those of one, may be of several: "
            f"{doubt}; say how many with --devices N (1 for one), or {_RECORD}"
        )


class _DeviceOrder:
    """Devices by their order in a poll; incomplete and oversized polls are reported."""

    def __init__(self, pattern: PollPattern, notes: RecordingNotes) -> None:
        self._pattern = pattern
        self._notes = notes
        self._last: Nanoseconds | None = None
        self._position = -1

    def device(self, time: Nanoseconds, line: int) -> str:
        return self._notes.gpu(self.position(time, line))

    def position(self, time: Nanoseconds, line: int) -> int:
        rows = self._pattern.rows
        longest = self._pattern.ends_after
        last = self._last
        self._last = time
        if last is None or self._position + 1 >= rows:
            self._position = 0
        elif (gap := time - last) < 0 or (longest is not None and gap > longest):
            self._notes.count(
                f"poll of fewer than {rows} rows before this line; which GPU its rows and those "
                f"around it are of is a guess; {_RECORD}",
                line,
                effect="which GPU those rows are of",
            )
            self._position = 0
        else:
            self._position += 1
        return self._position
