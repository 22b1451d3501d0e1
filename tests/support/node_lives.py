"""Lives of one GPU for hypothesis: any sampling interval, gaps, clock steps, suspension, faults."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from hypothesis import strategies as st
from msgspec import Struct

from readings import EPOCH, SECOND, Signals, gpu, snapshot
from rightsizer.model.device import Device
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import Nanoseconds, Unit

__all__ = ["GPU", "Accounted", "Moment", "accounted", "lives", "moments", "snapshots_of"]

GPU: Final[Device] = gpu()
_RATIOS: Final = sorted(
    signal for signal in Signal if signal.unit is Unit.RATIO and signal is not Signal.GPU_BUSY
)
_MILLISECOND: Final = SECOND // 1000
_ACTIVE: Final = 0.01


class Moment(Struct, frozen=True):
    """One tick: time since the one before, step of the wall clock, and the reading."""

    after: Nanoseconds
    clock_step: Nanoseconds
    signals: Signals | None
    """`None` where nothing was read."""
    is_down: bool = False


class Accounted(Struct, frozen=True):
    """Division of a device's time, by the definition alone."""

    known: Nanoseconds
    unknown: Nanoseconds


def _values() -> st.SearchStrategy[Signals]:
    """Signals of a board with any telemetry; the busy share makes its state known."""
    ratios = st.dictionaries(st.sampled_from(_RATIOS), st.floats(0.0, 1.0), max_size=6)
    rest = st.fixed_dictionaries(
        {Signal.GPU_BUSY: st.floats(0.0, 1.0)},
        optional={
            Signal.POWER_WATTS: st.floats(0.0, 900.0),
            Signal.CLOCK_EVENT_REASONS: st.sampled_from([0.0, 4.0, 8.0, 32.0, 128.0]),
            Signal.SM_CLOCK_HERTZ: st.floats(2e8, 1.98e9),
            Signal.MEMORY_USED_BYTES: st.floats(0.0, 9e10),
            Signal.PROCESS_COUNT: st.sampled_from([0.0, 1.0]),
            Signal.REQUESTS_WAITING: st.sampled_from([0.0, 8.0]),
        },
    )
    return st.builds(lambda some, others: _credible({**others, **some}), rest, ratios)


def _credible(signals: Signals) -> Signals:
    """The same without contradictions: rest at high power, work without memory."""
    found = dict(signals)
    if found[Signal.GPU_BUSY] < _ACTIVE:
        found.pop(Signal.POWER, None)
        found.pop(Signal.POWER_WATTS, None)
    for memory, least in ((Signal.MEMORY_USED_BYTES, 1e8), (Signal.MEMORY_USED, 0.002)):
        if memory in found:
            found[memory] = max(least, found[memory])
    return found


def moments(interval: Nanoseconds, longest_gap: Nanoseconds) -> st.SearchStrategy[Moment]:
    """A tick of a source with an interval: most on time, some late, some after a suspension."""
    on_time = st.integers(1, max(1, 3 * interval // _MILLISECOND))
    late = st.integers(0, longest_gap // _MILLISECOND)
    after = st.one_of(on_time, on_time, on_time, late).map(lambda count: count * _MILLISECOND)
    step = st.one_of(st.just(0), st.just(0), st.integers(-7200, 7200).map(lambda by: by * SECOND))
    read = st.builds(Moment, after, step, _values())
    unread = st.builds(Moment, after, step, st.none(), st.booleans())
    return st.one_of(read, read, read, unread)


def lives(
    intervals: Sequence[float] = (0.1, 1.0, 10.0, 100.0), longest_gap_seconds: float = 20_000.0
) -> st.SearchStrategy[tuple[Nanoseconds, list[Moment]]]:
    """A sampling interval, and what happened."""
    longest = round(longest_gap_seconds * SECOND)
    return st.sampled_from([round(interval * SECOND) for interval in intervals]).flatmap(
        lambda interval: st.tuples(
            st.just(interval), st.lists(moments(interval, longest), min_size=1, max_size=40)
        )
    )


def snapshots_of(interval: Nanoseconds, life: Iterable[Moment]) -> list[Snapshot]:
    """The life as its source tells it. The counter of energy counts on through every gap."""
    taken = list(life)
    times = list(accumulate(each.after for each in taken))
    walls = list(accumulate(each.clock_step for each in taken))
    counter = 5e6
    found = []
    for each, time, stepped in zip(taken, times, walls, strict=True):
        signals = dict(each.signals or {})
        counter += 0.9 * signals.get(Signal.POWER_WATTS, 200.0) * each.after / SECOND
        if Signal.POWER_WATTS in signals and signals[Signal.GPU_BUSY] > 0.3:
            signals[Signal.ENERGY_JOULES] = counter
        found.append(
            snapshot(
                time / SECOND,
                [GPU],
                {} if each.signals is None else {GPU: signals},
                interval_seconds=interval / SECOND,
                down=[GPU] if each.is_down and each.signals is None else (),
                wall_time=EPOCH + time + stepped,
            )
        )
    return found


def accounted(snapshots: Iterable[Snapshot]) -> Accounted:
    """Known up to the longest usual gap before each reading, unknown beyond it and while down."""
    known = unknown = 0
    last: Nanoseconds | None = None
    for each in snapshots:
        usual = max(5 * SECOND, 3 * each.interval)
        is_read = GPU.uuid in each.readings
        if last is None:
            last = each.time if is_read else None
            continue
        lost = max(0, each.time - usual - last) if is_read else 0
        if GPU.uuid in each.down:
            lost = each.time - last
        unknown = unknown + lost
        last = last + lost
        if is_read:
            known = known + each.time - last
            last = each.time
    return Accounted(known, unknown)
