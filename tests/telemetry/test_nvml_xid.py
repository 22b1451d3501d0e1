"""Xids: one thread listens for all GPUs; they are counted and logged, over driver failures."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pynvml
import pytest
from structlog.testing import capture_logs

from nvml_answers import FakeEvents, refusing
from nvml_driver import FakeDriver, FakeGpu, FakeInstance, installed
from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.clock import FastClock
from rightsizer.model.driver_codes import OTHER_XID, XidLog
from rightsizer.model.units import NANOSECONDS_PER_SECOND as SECOND
from rightsizer.telemetry.nvml.driver import NvmlDriver
from rightsizer.telemetry.nvml.inventory import Inventory
from rightsizer.telemetry.nvml.settings import LiveSettings
from rightsizer.telemetry.nvml.xid_listener import XidEvent, XidEventLog, XidListener

WAIT = "nvmlEventSetWait_v2"
NOW = 1_790_000_000 * 10**9


@dataclass
class Node:
    """A listener over a driver, and the owner of NVML."""

    driver: FakeDriver
    events: FakeEvents
    opener: NvmlDriver
    listener: XidListener

    def read(self) -> Inventory:
        """Discover devices, as is done once a minute, and follow them."""
        found = self.opener.find_devices()
        assert isinstance(found, Inventory)
        self.listener.set_inventory(found)
        return found

    def poll_until(self, is_so: Callable[[], bool]) -> None:
        """Tick until a condition holds; the listener's thread needs a moment."""
        for _ in range(1000):
            self.listener.poll()
            if is_so():
                return
            time.sleep(0.002)
        pytest.fail(f"it never came to pass: {self.listener.xids}")

    def poll_until_heard(self, uuid: str, total: int) -> None:
        """Tick until a device has the given number of Xids."""
        self.poll_until(lambda: self.counted(uuid) == total)

    def counted(self, uuid: str) -> int | None:
        """All Xids of a device; `None` where it is not listened to."""
        log = self.listener.xids.get(uuid)
        return None if log is None else log.total


@contextmanager
def listening(
    *gpus: FakeGpu, kinds: int = pynvml.nvmlEventTypeXidCriticalError, **settings: float
) -> Iterator[Node]:
    """A listener that follows the GPUs of a driver."""
    driver = FakeDriver(*gpus)
    events = FakeEvents(driver, kinds)
    with installed(driver):
        opener = NvmlDriver(itertools.count(), built_in(), Path("/nowhere"), root=Path("/nowhere"))
        chosen = LiveSettings(**settings)  # type: ignore[arg-type]
        listener = XidListener(clock=FastClock(NOW), settings=chosen)
        node = Node(driver, events, opener, listener)
        node.read()
        try:
            yield node
        finally:
            listener.close(time.monotonic() + 5)
            opener.close()


def test_drivers_before_r450_report_xids_by_the_first_version() -> None:
    """Its events have no instances."""
    with listening(FakeGpu("GPU-0")) as node:
        node.driver.more["nvmlEventSetWait"] = node.driver.more.pop(WAIT)
        node.driver.lacking.add(WAIT)
        node.read()
        node.events.report(0, 79)
        node.poll_until_heard("GPU-0", 1)


def test_xids_are_counted_by_device_and_code() -> None:
    """Each GPU has its own counts, with the last Xid and its time."""
    with listening(FakeGpu("GPU-0"), FakeGpu("GPU-1")) as node:
        for code in (31, 79, 31):
            node.events.report(1, code)
        node.poll_until_heard("GPU-1", 3)
        log = node.listener.xids["GPU-1"]
        assert log.counts == {31: 2, 79: 1}
        assert (log.last, log.last_wall_time) == (31, NOW)
        assert node.counted("GPU-0") == 0
        assert node.listener.outcome is not None
        assert node.listener.outcome.success


def test_xid_is_logged_with_its_meaning() -> None:
    """The line has the meaning; an Xid that needs action is an error."""
    with capture_logs() as logs, listening(FakeGpu("GPU-0")) as node:
        node.events.report(0, 79)
        node.events.report(0, 31)
        node.events.report(0, 777)
        node.poll_until_heard("GPU-0", 3)
    critical, fault, strange = logs
    assert critical["log_level"] == "error"
    assert critical["code"] == 79
    assert critical["uuid"] == "GPU-0"
    assert critical["critical"]
    assert critical["meaning"] == "the GPU has fallen off the bus"
    assert (fault["log_level"], fault["critical"]) == ("warning", False)
    assert strange["meaning"] == "see NVIDIA's Xid catalog"


def test_a_storm_of_one_code_is_a_line_a_minute() -> None:
    """The next line has the number of suppressed ones; another code has its own."""
    clock = FastClock(NOW)
    log = XidEventLog(clock)
    with capture_logs() as lines:
        for second in range(90):
            log.log(XidEvent("GPU-0", 31))
            if second == 10:
                log.log(XidEvent("GPU-0", 79))
            clock.wait_until(clock.time() + SECOND, threading.Event())
    assert [(line["code"], line.get("without_a_line_before")) for line in lines] == [
        (31, None),
        (79, None),
        (31, 59),
    ]


def test_codes_without_end_are_a_bounded_number_of_lines() -> None:
    """A driver that answers with garbage; critical codes keep lines of their own."""
    clock = FastClock(0)
    log = XidEventLog(clock)
    with capture_logs() as lines:
        for minute in range(3):
            for code in (*range(1000, 2000), 79):
                log.log(XidEvent("GPU-0", code))
            clock.wait_until((minute + 1) * 60 * SECOND, threading.Event())
    assert len(lines) == 3 * 66
    assert sum(line["code"] == 79 for line in lines) == 3
    assert sum(line.get("without_a_line_before", 0) for line in lines) == 2 * 935


def test_codes_without_end_are_a_bounded_number_of_series() -> None:
    """Known codes have series of their own at any time; of others the first sixteen do."""
    log = XidLog({})
    for code in range(100_000, 100_100):
        log = log.counted(code, NOW)
    log = log.counted(100_003, NOW).counted(79, NOW).counted(200_000, NOW)
    assert len(log.counts) == 18
    assert (log.counts[100_003], log.counts[79], log.counts[OTHER_XID]) == (2, 1, 85)
    assert (log.total, log.last) == (103, 200_000)


def test_one_event_set_for_all_gpus() -> None:
    """All GPUs are registered with one set, which is freed when the listener ends."""
    with listening(FakeGpu("GPU-0"), FakeGpu("GPU-1")) as node:
        node.poll_until(lambda: node.events.registered == {0, 1})
        assert len(node.events.sets) == 1
        node.read()
        node.events.report(0, 31)
        node.poll_until_heard("GPU-0", 1)
        assert node.driver.calls.count("nvmlEventSetCreate") == 1
    assert node.events.sets == {}


def test_xid_of_a_mig_instance_is_its_own() -> None:
    """An Xid that the driver attributes to an instance counts there, all count for the GPU."""
    instances = [FakeInstance("MIG-a", gpu_instance_id=7), FakeInstance("MIG-b", gpu_instance_id=8)]
    with listening(FakeGpu("GPU-0", instances=instances)) as node:
        node.events.report(0, 43, instance=(8, 0))
        node.events.report(0, 43, instance=(9, 0))
        node.events.report(0, 79)
        node.poll_until_heard("GPU-0", 3)
        assert dict(node.listener.xids["GPU-0"].counts) == {43: 2, 79: 1}
        assert node.counted("MIG-b") == 1
        assert node.counted("MIG-a") == 0


def test_event_of_an_unknown_device_is_reported_by_its_uuid() -> None:
    """The driver may report a GPU that was never registered."""
    with listening(FakeGpu("GPU-0")) as node:
        node.driver.gpus.append(FakeGpu("GPU-new"))
        node.events.report(1, 48)
        node.poll_until_heard("GPU-new", 1)


def test_event_of_nobody_is_logged_only() -> None:
    """Without a UUID the Xid is logged, but counts for no device."""
    with capture_logs() as logs, listening(FakeGpu("GPU-0")) as node:
        node.events.report(9, 48)
        node.events.report(0, 31)
        node.poll_until_heard("GPU-0", 1)
        assert set(node.listener.xids) == {"GPU-0"}
    assert (logs[0]["code"], logs[0]["uuid"]) == (48, None)


def test_other_events_are_no_xids() -> None:
    """A set may report more than was registered."""
    with listening(FakeGpu("GPU-0")) as node:
        node.events.report(0, 5, kind=int(pynvml.nvmlEventTypePState))
        node.events.report(0, 31)
        node.poll_until_heard("GPU-0", 1)
        assert node.listener.xids["GPU-0"].counts == {31: 1}


@pytest.mark.parametrize("name", ["nvmlEventSetCreate", "nvmlDeviceRegisterEvents"])
def test_driver_without_events_is_left_alone(name: str) -> None:
    """Virtual GPUs have no events: nothing is counted, and no call is repeated."""
    with capture_logs() as logs, listening(FakeGpu("GPU-0")) as node:
        node.driver.more[name] = refusing(int(pynvml.NVML_ERROR_NOT_SUPPORTED))
        node.poll_until(lambda: name in node.driver.calls)
        for _ in range(20):
            node.listener.poll()
            time.sleep(0.002)
        assert node.driver.calls.count(name) == 1
        assert node.listener.xids == {}
        assert node.listener.outcome is None
    assert logs == []


@pytest.mark.parametrize("name", ["nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents"])
def test_driver_that_denies_events_is_a_failed_collector(name: str) -> None:
    """Nothing is counted, and the reason is reported, although no GPU is listened to."""
    with listening(FakeGpu("GPU-0")) as node:
        node.driver.codes[name] = int(pynvml.NVML_ERROR_NO_PERMISSION)
        node.poll_until(lambda: node.listener.outcome is not None)
        assert node.listener.outcome is not None
        assert name in (node.listener.outcome.failure or "")
        assert node.listener.xids == {}


def test_gpu_without_xid_events_is_not_listened_to() -> None:
    """A GPU reports its supported events; a count of 0 would claim support."""
    with listening(FakeGpu("GPU-0"), kinds=int(pynvml.nvmlEventTypePState)) as node:
        node.poll_until(lambda: "nvmlDeviceGetSupportedEventTypes" in node.driver.calls)
        assert "nvmlDeviceRegisterEvents" not in node.driver.calls
        assert node.listener.xids == {}


def test_lost_gpu_leaves_the_others_heard() -> None:
    """After a failed wait for a GPU off the bus, a set of the others is used."""
    with listening(FakeGpu("GPU-0"), FakeGpu("GPU-1")) as node:
        node.poll_until(lambda: node.events.registered == {0, 1})
        node.driver.gpus[1].is_lost = True
        node.driver.codes[WAIT] = int(pynvml.NVML_ERROR_GPU_IS_LOST)
        node.poll_until(lambda: node.listener.outcome is not None and node.events.sets == {})
        node.driver.codes.clear()
        node.poll_until(lambda: node.events.registered == {0})
        node.events.report(0, 31)
        node.poll_until_heard("GPU-0", 1)
        node.driver.gpus[1].is_lost = False
        node.read()  # It has recovered: the next discovery registers it.
        node.poll_until(lambda: node.events.registered == {0, 1})


def test_gpu_that_spoils_the_set_is_left_out() -> None:
    """After an unknown error in registering, the set is created again without that GPU."""
    with listening(FakeGpu("GPU-0"), FakeGpu("GPU-1")) as node:
        refused = int(pynvml.NVML_ERROR_UNKNOWN)
        node.driver.codes_of["nvmlDeviceRegisterEvents", 0] = refused
        node.poll_until(lambda: node.events.registered == {1} and node.counted("GPU-1") == 0)
        assert len(node.events.sets) == 1
        assert node.listener.outcome is not None
        assert not node.listener.outcome.success


def test_counts_outlive_the_driver() -> None:
    """After an unload NVML is initialized again, GPUs are registered, and counting continues."""
    with listening(FakeGpu("GPU-0")) as node:
        node.events.report(0, 31)
        node.poll_until_heard("GPU-0", 1)
        node.driver.is_loaded = False
        node.poll_until(
            lambda: node.listener.outcome is not None and not node.listener.outcome.success
        )
        calls = len(node.driver.calls)
        for _ in range(20):
            node.listener.poll()
            time.sleep(0.002)
        assert len(node.driver.calls) == calls  # No device can be queried.
        node.listener.set_inventory(None)
        node.opener.close()
        node.driver.is_loaded = True
        node.read()
        node.events.report(0, 31)
        node.poll_until_heard("GPU-0", 2)


def test_nothing_is_held_after_letting_go() -> None:
    """The set is freed before NVML is shut down: workers are returned to be waited for."""
    with listening(FakeGpu("GPU-0")) as node:
        node.poll_until(lambda: bool(node.events.sets))
        node.listener.set_inventory(None)
        assert node.listener.worker.join(time.monotonic() + 5)
        assert node.events.sets == {}
        node.listener.poll()
        assert node.counted("GPU-0") == 0


def test_hung_wait_delays_no_one() -> None:
    """While the driver hangs, polling continues; a new thread gets later events."""
    with listening(FakeGpu("GPU-0"), deadline_seconds=0.02, abandon_after_seconds=0.04) as node:
        gate = threading.Event()
        node.poll_until(lambda: node.counted("GPU-0") == 0)
        node.driver.hanging[WAIT, -1] = gate
        node.poll_until(
            lambda: node.listener.outcome is not None and not node.listener.outcome.success
        )
        node.driver.hanging.clear()
        node.events.report(0, 119)
        node.poll_until_heard("GPU-0", 1)
        gate.set()


def test_storm_is_heard_whole() -> None:
    """A poll takes a bounded number of events, and the following polls take the rest."""
    with listening(FakeGpu("GPU-0")) as node:
        for _ in range(600):
            node.events.report(0, 13)
        node.poll_until_heard("GPU-0", 600)
