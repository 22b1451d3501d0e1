"""A slow driver: readings come at its pace, and none is lost."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from instrumented_library import InstrumentedLibrary
from nvml_driver import reading
from rightsizer.accounting.entry_builder import EntryBuilder
from rightsizer.io.clock import SystemClock
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import State
from rightsizer.model.units import nanoseconds
from rightsizer.model.window import Entry
from rightsizer.simulator.node import SimulatedNode
from rightsizer.telemetry.live import LiveSource
from simulated_driver import node_of
from slow_driver import SlowDriver

# It waits most of its time, and starts with the slow ones.
pytestmark = pytest.mark.timeout(240)

POWER = "nvmlDeviceGetPowerUsage"
GPM = "nvmlGpmSampleGet"
SHARES = "nvmlDeviceGetProcessUtilization"
TICK_SECONDS = 0.05
CLOCKS_APART = 20_000_000
"""Nanoseconds: the wall clock and the monotonic one are not read at the same instant."""
PATIENCE = {"deadline_seconds": 0.04, "hung_after_seconds": 30.0, "slow_interval_seconds": 1.0}


@dataclass
class SlowNode:
    """Eight GPUs with slow calls, ticked in real time, with accounting."""

    node: SimulatedNode
    driver: SlowDriver
    source: LiveSource
    clock: SystemClock
    tick_seconds: float = TICK_SECONDS
    builder: EntryBuilder = field(default_factory=EntryBuilder)
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    read_at: dict[str, list[int]] = field(default_factory=dict)
    """Times of the distinct readings of each device."""

    def uuid(self, index: int) -> str:
        """UUID of a GPU."""
        return self.node.units[index].device.uuid

    def tick(self) -> Snapshot:
        """Read once; return the time until the next tick."""
        due = self.clock.time() + nanoseconds(self.tick_seconds)
        snapshot = self.source.read()
        for entry in self.builder.post(snapshot):
            self.entries.setdefault(entry.uuid, []).append(entry)
        for uuid, found in snapshot.readings.items():
            times = self.read_at.setdefault(uuid, [])
            if not times or found.time != times[-1]:
                times.append(found.time)
        self.clock.wait_until(due, threading.Event())
        return snapshot

    def pace(self, ticks: int) -> float:
        """Readings a tick of the least read GPU, over a number of ticks."""
        before = {uuid: len(times) for uuid, times in self.read_at.items()}
        for _ in range(ticks):
            assert not self.tick().down
        return min(len(times) - before[uuid] for uuid, times in self.read_at.items()) / ticks

    def until(self, is_so: Callable[[Snapshot], bool]) -> Snapshot:
        """Tick until a condition holds."""
        for _ in range(600):
            snapshot = self.tick()
            if is_so(snapshot):
                return snapshot
        pytest.fail(f"it never came to pass: {snapshot.down} {snapshot.trouble}")


@contextmanager
def slow_node(tick_seconds: float = TICK_SECONDS, **options: float) -> Iterator[SlowNode]:
    """The node, after all its GPUs were read."""
    clock = SystemClock()
    node = node_of("eight-gpu-node", clock.wall_time())
    driver = SlowDriver(InstrumentedLibrary(node, clock.wall_time, counts_calls=True))
    with reading(driver, clock, **{**PATIENCE, **options}) as source:
        slow = SlowNode(node, driver, source, clock, tick_seconds)
        try:
            slow.until(lambda snapshot: len(snapshot.readings) == 8)
            yield slow
        finally:
            driver.release()


def test_a_round_that_is_late_counts_when_it_comes() -> None:
    """A GPU whose essential calls take longer than a tick is up, at its own pace."""
    with slow_node() as node:
        node.driver.latency = lambda _, index: 0.03 if index == 3 else 0.0
        node.until(lambda snapshot: node.uuid(3) in snapshot.slow)
        before = len(node.read_at[node.uuid(3)])

        def has_had_turns(snapshot: Snapshot) -> bool:
            assert not snapshot.down
            assert len(snapshot.readings) == 8
            return len(node.read_at[node.uuid(3)]) > before + 3

        node.until(has_had_turns)
        assert len(node.read_at[node.uuid(3)]) < len(node.read_at[node.uuid(2)])


def test_essential_metrics_are_read_first() -> None:
    """Each round has utilization, memory and power; other metrics take turns."""
    # Ticks are long, as calls' costs are measured, and a busy machine adds delays.
    with slow_node(0.25, deadline_seconds=0.2, slow_interval_seconds=5.0) as node:
        node.driver.latency = lambda _, index: 0.025 if index == 3 else 0.0
        node.until(lambda snapshot: node.uuid(3) in snapshot.slow)
        inside = node.driver.inside
        before = Counter(inside.calls)
        for _ in range(24):
            found = node.tick().readings[node.uuid(3)]
            for signal in (Signal.GPU_BUSY, Signal.MEMORY_USED_BYTES, Signal.POWER_WATTS):
                assert found.get(signal) is not None
            # Values not read in this round stay.
            assert found.get(Signal.TEMPERATURE_CELSIUS) is not None
        snapshot = node.tick()
        assert {"temperature", "clocks"} & set(snapshot.slow[node.uuid(3)].postponed)
        assert not {"gpm", "utilization", "memory", "power"} & set(
            snapshot.slow[node.uuid(3)].postponed
        )
        calls = Counter(inside.calls) - before
        assert calls["nvmlDeviceGetTemperature"] < calls[POWER]


def test_one_slow_call_is_asked_less_often_alone() -> None:
    """Process shares take three ticks: they are postponed, and hardly delay other metrics."""
    with slow_node() as node:
        usual = node.pace(30)
        node.driver.latency = lambda name, _: (
            0.1 if name.startswith("nvmlDeviceGetProcess") else 0.0
        )
        node.until(lambda snapshot: len(snapshot.slow) == 8)
        postponed: set[str] = set()

        def waits(snapshot: Snapshot) -> bool:
            assert not snapshot.down
            postponed.update(
                uuid
                for uuid, slow in snapshot.slow.items()
                if "process_utilization" in slow.postponed
            )
            return postponed == node.read_at.keys()

        # On a busy machine a GPU's turn may be late, and its readings fewer.
        node.until(waits)
        node.until(lambda _: node.pace(60) > usual / 2)


def test_a_slow_profiling_sample_stretches_the_pace_of_its_gpu() -> None:
    """Its counters are means between two samples, so that no time is missing."""
    with slow_node() as node:
        node.driver.latency = lambda name, _: 0.1 if name == GPM else 0.0
        node.until(lambda snapshot: len(snapshot.slow) == 8)
        for _ in range(30):
            snapshot = node.tick()
            assert not snapshot.down
            for found in snapshot.readings.values():
                assert found.why_missing(Signal.SM_ACTIVE) is None


def test_a_driver_that_serves_one_call_at_a_time() -> None:
    """All GPUs are queued: each is up and gets its turn."""
    with slow_node() as node:
        node.driver.is_serial = True
        node.driver.latency = lambda _, index: 0.005 if index >= 0 else 0.0
        node.until(lambda snapshot: len(snapshot.slow) == 8)
        before = {uuid: len(times) for uuid, times in node.read_at.items()}

        def all_had_two_turns(snapshot: Snapshot) -> bool:
            assert not snapshot.down
            return all(len(times) > before[uuid] + 1 for uuid, times in node.read_at.items())

        node.until(all_had_two_turns)


def test_quick_driver_is_read_at_the_usual_pace_again() -> None:
    """After the slow period every tick reads every GPU completely again."""
    with slow_node() as node:
        calls = node.driver.inside.calls

        def asked_in_20_ticks() -> int:
            before = calls["nvmlDeviceGetTemperature"]
            node.pace(20)
            return int(calls["nvmlDeviceGetTemperature"] - before)

        usual = asked_in_20_ticks()
        node.driver.latency = lambda _, index: 0.01 if index >= 0 else 0.0
        node.until(lambda snapshot: len(snapshot.slow) == 8)
        node.driver.release()
        node.until(lambda _: asked_in_20_ticks() >= 0.9 * usual)
        states = {entry.state for entries in node.entries.values() for entry in entries}
        assert State.UNKNOWN not in states


def test_a_hung_call_takes_its_own_gpu_out() -> None:
    """It is slow for a while, then down until a round returns; no neighbor misses a tick."""
    with slow_node(hung_after_seconds=1.0) as node:
        hung = node.uuid(2)
        node.driver.latency = lambda name, index: (
            float("inf") if (name, index) == (POWER, 2) else 0.0
        )
        snapshot = node.until(lambda snapshot: hung in snapshot.down)
        assert snapshot.down[hung].reason is Missing.TIMED_OUT
        assert POWER in snapshot.down[hung].detail
        for _ in range(10):
            snapshot = node.tick()
            assert set(snapshot.down) == {hung}
            assert len(snapshot.readings) == 7
        node.driver.release()
        node.until(lambda snapshot: not snapshot.down)


def test_a_slow_round_is_not_given_up() -> None:
    """Returning calls show life: no thread is abandoned, however long a round takes."""
    with slow_node(abandon_after_seconds=1.0) as node:
        node.driver.latency = lambda _, index: 0.2 if index == 1 else 0.0
        times = node.read_at[node.uuid(1)]
        known = len(times)

        def has_come(snapshot: Snapshot) -> bool:
            assert snapshot.abandoned_workers == 0
            return len(times) > known + 2

        node.until(has_come)


@settings(
    phases=[Phase.explicit, Phase.generate],
    max_examples=5,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)
@given(
    st.lists(
        st.dictionaries(
            st.tuples(st.integers(0, 7), st.sampled_from([POWER, GPM, SHARES, ""])),
            st.sampled_from([0.0, 0.002, 0.01, 0.03, 0.08, 0.15]),
            max_size=6,
        ),
        min_size=1,
        max_size=3,
    )
)
def test_no_reading_is_lost_or_counted_twice(
    phases: list[dict[tuple[int, str], float]],
) -> None:
    """For any durations, entries are contiguous, and each ends with a reading.

    Every round that was begun counts once, except the one running at the end.
    """
    with slow_node() as node:
        asked = Counter({uuid: len(times) for uuid, times in node.read_at.items()})
        begun: Counter[int] = Counter()
        for phase in phases:

            def latency(
                name: str, index: int, phase: dict[tuple[int, str], float] = phase
            ) -> float:
                begun[index] += name == POWER
                return max(phase.get((index, name), 0.0), phase.get((index, ""), 0.0))

            node.driver.latency = latency
            for _ in range(20):
                snapshot = node.tick()
                assert snapshot.readings.keys() | snapshot.down.keys() == {
                    device.uuid for device in snapshot.devices
                }
        for index in range(8):
            uuid = node.uuid(index)
            times = node.read_at[node.uuid(index)]
            entries = node.entries.get(uuid, [])
            assert times == sorted(set(times))
            apart = [abs(former.end - later.start) for former, later in pairwise(entries)]
            accounted = sum(entry.end - entry.start for entry in entries)
            assert max(apart, default=0) < CLOCKS_APART
            assert abs(accounted - (times[-1] - times[0])) < CLOCKS_APART
            assert len(entries) == len(times) - 1
            assert begun[index] - 2 <= len(times) - asked[uuid] <= begun[index] + 1
