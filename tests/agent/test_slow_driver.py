"""Reporting of a slow driver: in the log once, in the gauges always."""

from structlog import get_logger
from structlog.testing import capture_logs

from rightsizer.agent.coordinator import driver_metrics
from rightsizer.agent.source_log import SlowDriverLog
from rightsizer.model.device import Device
from rightsizer.model.snapshot import Slow, Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND

SECOND = NANOSECONDS_PER_SECOND
DEVICES = (Device("GPU-0", 0), Device("GPU-1", 1))


def snapshot(second: int, **postponed: tuple[str, ...]) -> Snapshot:
    """One tick, with slow GPUs and the readings that are taken less often."""
    slow = {uuid.replace("_", "-"): Slow(1.5, names) for uuid, names in postponed.items()}
    return Snapshot(second * SECOND, second * SECOND, SECOND, DEVICES, {}, slow=slow)


def log_lines(*snapshots: Snapshot) -> list[dict[str, object]]:
    """The log lines of consecutive snapshots."""
    log = SlowDriverLog(get_logger())
    with capture_logs() as lines:
        for each in snapshots:
            log.log(each)
    return [dict(line) for line in lines]


def test_a_slow_driver_is_reported_once_with_what_is_done() -> None:
    """With GPUs and readings, half a minute after the first call, and when it is over."""
    course = [snapshot(second, GPU_0=("ecc",)) for second in range(10)]
    course += [snapshot(second, GPU_0=("ecc",), GPU_1=("clocks",)) for second in range(10, 500)]
    course += [snapshot(second) for second in range(500, 600)]

    slow, over = log_lines(*course)

    assert (slow["event"], slow["gpus"]) == ("driver_slow", "0,1")
    assert slow["asked_less_often"] == "clocks,ecc"
    assert slow["longest_round_seconds"] == 1.5
    assert over["event"] == "driver_recovered"


def test_more_that_is_slow_is_reported_now_and_then() -> None:
    """Additions are logged ten minutes after the previous line, and nothing is repeated."""
    course = [snapshot(second, GPU_0=()) for second in range(100)]
    course += [snapshot(second, GPU_0=(), GPU_1=("ecc",)) for second in range(100, 3000)]

    lines = log_lines(*course)

    assert [line["gpus"] for line in lines] == ["0", "0,1"]


def test_a_quick_driver_is_not_talked_about() -> None:
    """Neither that it is fast nor that it became so."""
    assert log_lines(*(snapshot(second) for second in range(100))) == []


def test_metrics_tell_what_is_slow_and_what_waits() -> None:
    """Each GPU has a gauge; a reading taken less often has one only meanwhile."""
    metrics = driver_metrics(snapshot(1, GPU_1=("clocks", "ecc")))

    assert metrics == {
        "rightsizer_workers_abandoned": 0.0,
        'rightsizer_device_slow{uuid="GPU-0"}': 0.0,
        'rightsizer_device_slow{uuid="GPU-1"}': 1.0,
        'rightsizer_device_round_duration_seconds{uuid="GPU-1"}': 1.5,
        'rightsizer_collector_postponed_devices{collector="clocks"}': 1.0,
        'rightsizer_collector_postponed_devices{collector="ecc"}': 1.0,
    }
