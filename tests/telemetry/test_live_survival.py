"""Any fault of the driver or a GPU leaves other GPUs unaffected, and recovery is automatic."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pynvml
import pytest

from instrumented_library import InstrumentedLibrary
from nvml_driver import reading, tick
from refusals import check_sane
from rightsizer.io.clock import FastClock
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import Nanoseconds, nanoseconds, seconds
from rightsizer.simulator.library.faults import XidReportEvent
from rightsizer.simulator.node import SimulatedNode
from rightsizer.telemetry.live import LiveSource
from rightsizer.telemetry.nvml.library import use_library
from simulated_driver import hour, node_of

# It waits most of its time, and starts with the slow ones.
pytestmark = pytest.mark.timeout(240)

UNKNOWN = pynvml.NVML_ERROR_UNKNOWN
OFF_THE_BUS = 79
NOTHING = XidLog({})
RETRY_SECONDS = 75
"""Maximum wait of a recovered GPU: the next discovery, and a tick or two."""


@dataclass
class Watch:
    """A live source over a simulated node, tick by tick."""

    node: SimulatedNode
    library: InstrumentedLibrary
    clock: FastClock
    source: LiveSource
    start: Nanoseconds
    times: dict[str, Nanoseconds] = field(default_factory=dict)
    """Time of the last reading of each device."""
    read_at: dict[str, list[float]] = field(default_factory=dict)
    """Seconds since the start at which each device was read."""

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return seconds(self.clock.time() - self.start)

    def uuid(self, index: int) -> str:
        """UUID of a GPU."""
        return self.node.units[index].device.uuid

    def tick(self, step_seconds: float = 1.0) -> Snapshot:
        """Read once; return the time until the next tick."""
        now = self.clock.time()
        snapshot = self.source.read()
        check_sane(snapshot)
        for uuid, found in snapshot.readings.items():
            # A reading is current, or came late with the time of its measurement.
            assert self.times.get(uuid, 0) <= found.time <= snapshot.time == now
            self.times[uuid] = found.time
            self.read_at.setdefault(uuid, []).append(self.elapsed)
        if snapshot.readings:
            self._listen(snapshot)
        tick(self.clock, step_seconds)
        return snapshot

    def _listen(self, snapshot: Snapshot) -> None:
        """Let the Xid listener's thread restart before fast time passes it."""
        for _ in range(5000):
            if "xid" in snapshot.collectors:
                return
            time.sleep(0.002)
            snapshot = self.source.read()

    def until(self, is_so: Callable[[Snapshot], bool], step_seconds: float = 1.0) -> Snapshot:
        """Tick until a condition holds; a returning thread needs a moment of real time."""
        for _ in range(300):
            snapshot = self.tick(step_seconds)
            if is_so(snapshot):
                return snapshot
            time.sleep(0.002)
        pytest.fail(f"it never came to pass: {snapshot.down} {snapshot.trouble}")


@contextmanager
def watching(scenario: str, start: Nanoseconds, **options: float) -> Iterator[Watch]:
    """A source over a packaged scenario's node, starting at a given time."""
    node = node_of(scenario, start)
    clock = FastClock(start)
    library = InstrumentedLibrary(node, clock.wall_time)
    options = {"deadline_seconds": 6.0, "hung_after_seconds": 3.0, **options}
    try:
        with reading(library, clock, **options) as source:
            yield Watch(node, library, clock, source, start)
    finally:
        library.faults.clear()


def test_nothing_that_befalls_a_node_outlasts_itself() -> None:
    """Ten minutes with all faults: each GPU is affected by its own only, and none stays."""
    with watching("faulty-node", hour(12)) as watch:
        well_since = dict.fromkeys(range(8), 0.0)
        loaded_since = 0.0
        while watch.elapsed < 600:
            now = watch.clock.time()
            elapsed = watch.elapsed
            snapshot = watch.tick(5.0)
            time.sleep(0.01)  # The Xid listener runs in real time.
            if watch.node.unload(now):
                loaded_since = elapsed + 5
                assert not snapshot.readings
                continue
            for index in range(8):
                uuid = watch.uuid(index)
                if watch.node.timeline(watch.node.units[index]).is_silent(now):
                    well_since[index] = elapsed + 5
                    assert uuid not in snapshot.readings
                elif elapsed >= max(well_since[index], loaded_since) + (
                    RETRY_SECONDS if well_since[index] or loaded_since else 0
                ):
                    assert uuid in snapshot.readings, f"GPU {index} at {elapsed} s"
        heard = {index: snapshot.xids[watch.uuid(index)].counts for index in range(7)}
    assert heard == {0: {}, 1: {79: 1}, 2: {94: 1}, 3: {}, 4: {}, 5: {74: 1}, 6: {31: 1}}
    assert not snapshot.down
    steady = [len(watch.read_at[watch.uuid(index)]) for index in range(2, 7)]
    # All ticks but those without a driver, and one until NVML was initialized again.
    assert min(steady) >= 600 // 5 - 4


def test_a_gpu_off_the_bus_is_down_and_its_xid_is_counted() -> None:
    """Its neighbors miss no tick; the Xid stays known while the GPU is gone."""
    with watching("eight-gpu-node", hour(12)) as watch:
        watch.tick()
        lost = watch.uuid(4)
        watch.library.faults.report(XidReportEvent(lost, OFF_THE_BUS))
        watch.library.faults.lose(lost)
        snapshot = watch.until(lambda snapshot: bool(snapshot.xids.get(lost, NOTHING).counts))
        for _ in range(5):
            snapshot = watch.tick()
            assert len(snapshot.readings) == 7
            assert snapshot.down[lost].reason is Missing.LOST
            assert snapshot.xids[lost].counts == {OFF_THE_BUS: 1}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "install the NVIDIA driver"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "modprobe nvidia"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "reload the module"),
        (pynvml.NVML_ERROR_UNKNOWN, "if this is a container, restart it"),
    ],
)
def test_a_driver_that_is_missing_at_the_start_appears_later(code: int, words: str) -> None:
    """Until then the snapshot has the remedy, and attempts become rarer."""
    with watching("eight-gpu-node", hour(12)) as watch:
        watch.library.faults.unload(code)
        for _ in range(20):
            snapshot = watch.tick()
            assert snapshot.devices == ()
            assert words in (snapshot.trouble or "")
        watch.library.faults.clear()
        snapshot = watch.until(lambda snapshot: len(snapshot.readings) == 8)
        assert watch.elapsed < 20 + 32 + 2
        assert snapshot.trouble is None
        assert not snapshot.down


def test_a_library_that_is_installed_later_is_found() -> None:
    """The bindings load it themselves: no restart is needed."""
    start = hour(12)
    node = node_of("eight-gpu-node", start)
    clock = FastClock(start)
    with reading(None, clock, deadline_seconds=1.0) as source:
        watch = Watch(node, InstrumentedLibrary(node, clock.wall_time), clock, source, start)
        if watch.tick().devices:
            pytest.skip("this machine has a GPU")
        use_library(watch.library)
        watch.until(lambda snapshot: len(snapshot.readings) == 8)


def test_a_driver_that_is_loaded_again_goes_on_where_it_was() -> None:
    """Devices stay listed meanwhile, and counters that reset give no negative values."""
    with watching("eight-gpu-node", hour(12)) as watch:
        before = watch.until(lambda snapshot: len(snapshot.readings) == 8)
        watch.library.faults.unload()
        for _ in range(3):
            snapshot = watch.tick()
            assert not snapshot.readings
            assert snapshot.devices == before.devices
            assert {down.reason for down in snapshot.down.values()} == {Missing.LOST}
        watch.library.faults.clear()
        snapshot = watch.until(lambda snapshot: len(snapshot.readings) == 8)
        assert snapshot.devices == before.devices
        # Profiling counters need a second sample; all other values are there at once.
        assert Signal.SM_ACTIVE not in snapshot.readings[watch.uuid(0)].values
        assert Signal.SM_ACTIVE in watch.tick().readings[watch.uuid(0)].values


def test_a_gpu_that_is_plugged_in_later_is_found() -> None:
    """GPUs that were present before miss no tick."""
    with watching("faulty-node", hour(12)) as watch:
        appeared = watch.until(lambda snapshot: len(snapshot.devices) == 8, 2.0)
        assert 45 <= watch.elapsed <= 45 + RETRY_SECONDS
        assert watch.uuid(7) in appeared.readings
        ticks = len(watch.read_at[watch.uuid(2)])
        assert watch.elapsed == pytest.approx(2.0 * ticks)


def test_a_gpu_that_is_cut_into_instances_and_made_whole_again() -> None:
    """Instances come and go with their values; the other GPU and its instances are unaffected."""
    with watching("h100-mig", hour(18) - nanoseconds(10)) as watch:
        cut = watch.uuid(0)
        other = watch.uuid(1)
        watch.tick()
        before = watch.tick()
        assert Signal.SM_ACTIVE in before.readings[cut].values
        snapshot = watch.until(lambda snapshot: count_of(snapshot, cut) == 2, 5.0)
        assert watch.elapsed <= 10 + RETRY_SECONDS
        assert count_of(snapshot, other) == 3
        snapshot = watch.tick(5.0)
        parent = snapshot.readings[cut]
        assert parent.why_missing(Signal.GPU_BUSY) is Missing.NOT_SUPPORTED
        assert Signal.POWER_WATTS in parent.values
        for device in snapshot.devices:
            assert device.mig is None or Signal.SM_ACTIVE in snapshot.readings[device.uuid].values
        tick(watch.clock, seconds(hour(22) - watch.clock.time()))
        snapshot = watch.until(lambda snapshot: count_of(snapshot, cut) == 0, 5.0)
        assert cut in watch.tick(5.0).readings
        ticks = len(watch.read_at[other])
        assert all(len(watch.read_at[uuid]) == ticks for uuid in family_of(before, other))


def test_a_gpu_of_unknown_errors_costs_the_others_nothing() -> None:
    """NVML is restarted now and then for it; other GPUs are read at every tick."""
    with watching("eight-gpu-node", hour(12)) as watch:
        watch.until(lambda snapshot: len(snapshot.readings) == 8)
        for name in watch.library.functions:
            if name.startswith(("nvmlDevice", "nvmlGpm")) and name != "nvmlDeviceGetUUID":
                watch.library.faults.answer(name, UNKNOWN, watch.uuid(3))
        reads: Counter[str] = Counter()
        for _ in range(90):
            snapshot = watch.tick()
            assert snapshot.down[watch.uuid(3)].reason is Missing.FAILED
            assert len(snapshot.readings) == 7
            reads.update(
                uuid
                for uuid, found in snapshot.readings.items()
                if Signal.SM_ACTIVE in found.values
            )
        # After a restart profiling counters need a second sample, less and less often.
        assert min(reads.values()) >= 80
        watch.library.faults.clear()
        watch.until(lambda snapshot: len(snapshot.readings) == 8)


def test_a_hung_gpu_has_no_reading_rather_than_its_last() -> None:
    """This holds for any duration and any hanging call, in fast and in slow rounds."""
    with watching("eight-gpu-node", hour(12), slow_interval_seconds=4.0) as watch:
        watch.until(lambda snapshot: len(snapshot.readings) == 8)
        hangs = {1: "nvmlDeviceGetPowerUsage", 2: "nvmlDeviceGetEnforcedPowerLimit"}
        for index, name in hangs.items():
            watch.library.faults.hang(name, watch.uuid(index))
        hung = [watch.uuid(index) for index in hangs]
        watch.until(lambda snapshot: all(uuid in snapshot.down for uuid in hung))
        for _ in range(20):
            snapshot = watch.tick()
            assert len(snapshot.readings) == 6
            for index, name in hangs.items():
                down = snapshot.down[watch.uuid(index)]
                assert down.reason is Missing.TIMED_OUT
                assert name.removeprefix("nvml") in down.detail
        watch.library.faults.clear()
        watch.until(lambda snapshot: len(snapshot.readings) == 8)


def test_slow_readings_hold_for_two_of_their_intervals_at_most() -> None:
    """A slowly read value that is refused from now on is soon missing, never repeated."""
    slow = {
        Signal.POWER_LIMIT_WATTS: "nvmlDeviceGetEnforcedPowerLimit",
        Signal.BAR1_USED_BYTES: "nvmlDeviceGetBAR1MemoryInfo",
        Signal.PERFORMANCE_STATE: "nvmlDeviceGetPerformanceState",
    }
    with watching("eight-gpu-node", hour(12), slow_interval_seconds=5.0) as watch:
        watch.tick()
        for name in slow.values():
            watch.library.faults.answer(name, UNKNOWN)
        held = 0
        for _ in range(2 * 5):
            snapshot = watch.tick()
            held += sum(
                signal in found.values for found in snapshot.readings.values() for signal in slow
            )
        assert held
        for found in watch.tick().readings.values():
            assert {found.why_missing(signal) for signal in slow} == {Missing.FAILED}


def count_of(snapshot: Snapshot, uuid: str) -> int:
    """Number of a GPU's instances."""
    return len(family_of(snapshot, uuid)) - 1


def family_of(snapshot: Snapshot, uuid: str) -> list[str]:
    """A GPU and its instances."""
    return [
        device.uuid
        for device in snapshot.devices
        if uuid in {device.uuid, device.mig.parent_uuid if device.mig else None}
    ]
