"""The log of the source: each change once, and no flood when reasons alternate."""

from typing import Any

from msgspec.structs import replace
from structlog import get_logger
from structlog.testing import capture_logs

from readings import EPOCH as NOW
from readings import gpu
from rightsizer.agent.source_log import SourceLog
from rightsizer.model.device import MigInstance
from rightsizer.model.reading import Missing
from rightsizer.model.snapshot import CollectorOutcome, Down, Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND

SECOND = NANOSECONDS_PER_SECOND


def log_reasons(*troubles: str | None) -> list[str]:
    """The logged reasons, one failure a second; `back` where devices were found."""
    log = SourceLog(get_logger())
    with capture_logs() as lines:
        for second, trouble in enumerate(troubles):
            log.log(Snapshot(second * SECOND, second * SECOND, SECOND, (), {}, trouble=trouble))
    return [line.get("reason", "back") for line in lines]


def test_reasons_that_take_turns_are_reported_once_each() -> None:
    """A driver that hangs at various calls while opening; new reasons are logged at once."""
    turns = ["NVML is slow", "NVML hangs in a", "NVML is slow", "NVML hangs in b"]

    assert log_reasons(*turns * 20) == ["NVML is slow", "NVML hangs in a", "NVML hangs in b"]


def test_turns_that_last_are_reported_again() -> None:
    """Every ten minutes each, so that the end of the log shows them."""
    turns = ["NVML is slow", "NVML hangs in a"]

    assert log_reasons(*turns * 601) == turns * 3


def test_device_that_comes_back_is_logged_as_new() -> None:
    """Its time starts again."""
    assert log_reasons("gone", None, "gone") == ["gone", "back", "gone"]


GPUS = tuple(gpu(index) for index in range(8))
LOST = Down(Missing.LOST, "GPU is lost")


def logged(*rounds: set[int]) -> list[dict[str, Any]]:
    """The lines about devices; the indices of those down are given per second."""
    log = SourceLog(get_logger())
    with capture_logs() as lines:
        for second, away in enumerate(rounds):
            time = second * SECOND
            down = {GPUS[index].uuid: LOST for index in away}
            log.log(Snapshot(NOW + time, time, SECOND, GPUS, {}, down=down))
    return [dict(line) for line in lines]


def test_a_gpu_that_is_lost_is_reported_once_and_its_return_too() -> None:
    """With uuid, reason and start, and how long it was absent."""
    down, up = logged(set(), *[{3}] * 40, set(), set())

    assert (down["event"], down["log_level"], down["gpu"]) == ("device_down", "warning", "GPU 3")
    assert (down["uuid"], down["reason"], down["detail"]) == ("GPU-3", "lost", "GPU is lost")
    assert down["since"] == "2026-01-01T00:00:01+00:00"
    assert (up["event"], up["gpu"], up["down_seconds"]) == ("device_up", "GPU 3", 40)


def test_a_gpu_that_was_never_there_is_reported_too() -> None:
    """Down from the first snapshot on."""
    (line,) = logged({0}, {0})
    assert (line["event"], line["since"]) == ("device_down", "2026-01-01T00:00:00+00:00")


def test_all_gpus_at_once_are_one_line() -> None:
    """When they go down and when they return."""
    down, up = logged(set(), set(range(8)), set(range(8)), set())

    assert (down["event"], down["of"], down["reason"]) == ("devices_down", 8, "lost")
    assert down["gpus"].startswith("GPU 0,GPU 1,")
    assert up["event"] == "devices_up"


def test_a_gpu_that_comes_and_goes_is_reported_once_in_ten_minutes() -> None:
    """Absent three of six seconds for half an hour: two lines every ten minutes, with a count."""
    lines = logged(*[{5}, {5}, {5}, set(), set(), set()] * 300)

    events = [line["event"] for line in lines]
    assert events == ["device_down", "device_up"] * 3
    assert [line.get("times_before") for line in lines[::2]] == [None, 99, 99]


def test_outages_that_no_line_was_about_are_told_when_it_has_calmed_down() -> None:
    """Once, with their number."""
    lines = logged(*[{5}, set()] * 10, *[set()] * 700)

    assert [line["event"] for line in lines] == ["device_down", "device_up", "device_was_down"]
    assert (lines[-1]["uuid"], lines[-1]["times"]) == ("GPU-5", 9)


def test_a_second_outage_that_lasts_is_reported_after_half_a_minute() -> None:
    """Although the first was logged a moment ago."""
    lines = logged({5}, set(), *[{5}] * 40)

    assert [line["event"] for line in lines] == ["device_down", "device_up", "device_down"]


def test_instances_go_with_their_board() -> None:
    """One line for a lost board with seven instances."""
    board = gpu()
    parts = tuple(
        gpu(uuid=f"MIG-{at}", mig=MigInstance(board.uuid, "1g.10gb", at, 0, 1 / 7, 1 / 8))
        for at in range(7)
    )
    down = {each.uuid: LOST for each in (board, *parts)}
    with capture_logs() as lines:
        SourceLog(get_logger()).log(Snapshot(NOW, 0, SECOND, (board, *parts), {}, down=down))
    assert [line["gpu"] for line in lines] == ["GPU 0"]


def logged_collectors(*failures: str | None) -> list[dict[str, Any]]:
    """The lines about a collector; its failure is given per second."""
    log = SourceLog(get_logger())
    with capture_logs() as lines:
        for second, failure in enumerate(failures):
            outcome = CollectorOutcome(failure is None, 0.0, failure)
            time = second * SECOND
            log.log(Snapshot(time, time, SECOND, GPUS, {}, collectors={"gpm": outcome}))
    return [dict(line) for line in lines]


def test_collector_that_fails_is_logged_with_its_reason_once() -> None:
    """The metric has no reason; the end is logged, too."""
    failed, recovered = logged_collectors(None, *["GPU 3: nvmlGpmSampleGet: no"] * 40, None, None)

    assert (failed["event"], failed["log_level"]) == ("collector_failed", "warning")
    assert (failed["collector"], failed["detail"]) == ("gpm", "GPU 3: nvmlGpmSampleGet: no")
    assert (recovered["event"], recovered["collector"]) == ("collector_recovered", "gpm")


def test_collector_that_fails_on_and_off_is_logged_every_ten_minutes() -> None:
    """Also if what it was answered differs each time."""
    lines = logged_collectors(*[f"answered {n}" if n % 2 else None for n in range(1800)])

    assert [line["event"] for line in lines] == ["collector_failed", "collector_recovered"] * 3


def test_outage_of_a_gpu_that_was_identified_meanwhile_ends() -> None:
    """It was listed by its index, and is now another device."""
    log = SourceLog(get_logger())
    placeholder = replace(GPUS[1], uuid="index:1")
    with capture_logs() as lines:
        log.log(Snapshot(NOW, 0, SECOND, (placeholder,), {}, down={"index:1": LOST}))
        log.log(Snapshot(NOW, SECOND, SECOND, (GPUS[1],), {}))
        log.log(Snapshot(NOW, 2 * SECOND, SECOND, (GPUS[1],), {}))

    assert [line["event"] for line in lines] == ["device_down", "device_unlisted"]
    assert (lines[1]["gpu"], lines[1]["uuid"]) == ("GPU 1", "index:1")
