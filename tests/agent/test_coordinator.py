"""The heartbeat: on time whatever its source does, and over at the end of the source."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from structlog.testing import capture_logs

from readings import EPOCH, SECOND, snapshot
from rightsizer.agent.coordinator import Coordinator, InstalledPackage
from rightsizer.io.clock import FastClock
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import Nanoseconds

MINUTE: Final = 60 * SECOND


class Script:
    """A source that follows a script, tick by tick, and then ends."""

    name = "script"

    def __init__(self, *ticks: Callable[[], object]) -> None:
        self._ticks = list(ticks)
        self.reads = 0

    def read(self) -> Snapshot | None:
        """Run the next step."""
        if self.reads == len(self._ticks):
            return None
        self.reads += 1
        self._ticks[self.reads - 1]()
        return snapshot(float(self.reads), (), {})

    def close(self) -> None:
        """Nothing is held."""


class StepsBack(FastClock):
    """A clock with a wall time set back by an hour after three seconds."""

    def wall_time(self) -> Nanoseconds:
        """An hour earlier from then on."""
        is_late = self.time() >= EPOCH + 3 * SECOND
        return self.time() - (60 * MINUTE if is_late else 0)


def nothing() -> None:
    """A tick without events."""


def fail() -> None:
    """Raise an unexpected error."""
    raise RuntimeError("the driver made something up")


def times_of(source: Script, clock: FastClock) -> tuple[Coordinator, list[float]]:
    """Run a script to its end; return its snapshots' times in seconds since the start."""
    times: list[float] = []
    coordinator = Coordinator(
        source, clock, SECOND, lambda _: times.append((clock.time() - EPOCH) / SECOND)
    )
    coordinator.run(threading.Event())
    return coordinator, times


def test_ticks_every_interval_until_its_source_has_no_more() -> None:
    """The end of a recording ends the run."""
    coordinator, times = times_of(Script(*[nothing] * 4), FastClock(EPOCH))

    assert times == [0.0, 1.0, 2.0, 3.0]
    assert (coordinator.samples, coordinator.late_samples, coordinator.failed_ticks) == (4, 0, 0)


def test_is_identified_by_the_steady_clock() -> None:
    """Setting the wall clock neither stops nor speeds up the heartbeat."""
    _, times = times_of(Script(*[nothing] * 6), StepsBack(EPOCH))

    assert times == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("slow_seconds", "expected"),
    [
        (0.4, [0.0, 1.4, 2.0, 3.0]),
        (1.0, [0.0, 2.0, 2.0, 3.0]),
        (1.5, [0.0, 2.5, 3.0, 4.0]),
        (3.25, [0.0, 4.25, 5.0, 6.0]),
    ],
)
def test_ticks_that_a_slow_one_overran_are_left_out(
    slow_seconds: float, expected: list[float]
) -> None:
    """Lost ticks are not made up for, and the rhythm stays."""
    clock = FastClock(EPOCH)

    def hang() -> None:
        clock.wait_until(clock.time() + round(slow_seconds * SECOND), threading.Event())

    coordinator, times = times_of(Script(nothing, hang, nothing, nothing), clock)

    assert times == expected
    assert coordinator.late_samples == (1 if slow_seconds > 1 else 0)


def test_a_tick_that_fails_ends_nothing() -> None:
    """The next tick is on time, and the error is counted and logged."""
    with capture_logs() as logs:
        coordinator, times = times_of(Script(nothing, fail, nothing), FastClock(EPOCH))

    assert times == [0.0, 2.0]
    assert coordinator.failed_ticks == 1
    assert [entry["event"] for entry in logs] == ["tick_failed"]


def test_a_fault_that_stays_is_said_once_a_minute() -> None:
    """Ten minutes of the same fault are ten lines, not six hundred."""
    with capture_logs() as logs:
        coordinator, _ = times_of(Script(*[fail] * 600), FastClock(EPOCH))

    assert coordinator.failed_ticks == 600
    assert [entry["failed_ticks"] for entry in logs] == [1 + 60 * minute for minute in range(10)]


def test_a_snapshot_that_cannot_be_accounted_for_ends_nothing_either() -> None:
    """The consumer of snapshots may fail like the source."""
    source = Script(*[nothing] * 3)

    def refuse(_: Snapshot) -> None:
        raise ValueError("not accountable")

    with capture_logs():
        coordinator = Coordinator(source, FastClock(EPOCH), SECOND, refuse)
        coordinator.run(threading.Event())

    assert (coordinator.samples, coordinator.failed_ticks) == (3, 3)


@pytest.mark.parametrize("shortage", [MemoryError(), RuntimeError("can't allocate lock")])
def test_shortage_of_memory_while_it_waits_ends_nothing(shortage: Exception) -> None:
    """A wait needs a lock, and a lock memory; the interval is kept again right after it."""
    shortages = iter([shortage] * 2)
    waits = list[Nanoseconds]()

    class Short(FastClock):
        def wait_until(self, deadline: Nanoseconds, stop: threading.Event) -> bool:
            if (error := next(shortages, None)) is not None:
                raise error
            waits.append(deadline - self.time())
            return super().wait_until(deadline, stop)

    source = Script(*[nothing] * 5)
    Coordinator(source, Short(EPOCH), SECOND, lambda _: None).run(threading.Event())

    assert source.reads == 5
    assert waits == [SECOND] * 3


def test_it_hangs_once_no_tick_has_ended_for_two_minutes() -> None:
    """So that a probe restarts it; a failed tick has ended, and a slow one is only slow."""
    clock = FastClock(EPOCH)
    hangs = list[str | None]()

    def take(time_taken: int) -> None:
        clock.wait_until(clock.time() + time_taken, threading.Event())
        hangs.append(coordinator.hang())

    def fail() -> None:
        take(2 * MINUTE)
        raise OSError("no driver")

    source = Script(
        nothing, fail, partial(take, 2 * MINUTE), partial(take, 2 * MINUTE + 3 * SECOND)
    )
    coordinator = Coordinator(source, clock, SECOND, lambda _: None)
    with capture_logs():
        coordinator.run(threading.Event())
    assert hangs == [None, None, "hangs: no tick has ended for 2 min 4 s"]


def test_a_stop_ends_it_before_the_next_tick() -> None:
    """A signal does not wait for the source."""
    stop = threading.Event()
    source = Script(nothing, stop.set, nothing)
    coordinator = Coordinator(source, FastClock(EPOCH), SECOND, lambda _: None)

    coordinator.run(stop)

    assert source.reads == 2


def test_an_upgrade_under_the_running_agent_is_logged_once(tmp_path: Path) -> None:
    """What is loaded later is of another version; the line says to restart."""
    file = tmp_path / "__init__.py"
    file.write_text("one", "utf-8")
    package = InstalledPackage(file)
    with capture_logs() as logs:
        package.check()
        assert not logs
        (tmp_path / "new").write_text("two", "utf-8")
        (tmp_path / "new").replace(file)
        package.check()
        package.check()

    assert [entry["event"] for entry in logs] == ["package_replaced"]
    assert "restart the agent" in logs[0]["remedy"]


def test_a_package_that_was_removed_is_logged_too(tmp_path: Path) -> None:
    """An agent whose files are gone goes on, and says so."""
    file = tmp_path / "__init__.py"
    file.write_text("one", "utf-8")
    package = InstalledPackage(file)
    file.unlink()
    with capture_logs() as logs:
        package.check()

    assert [entry["event"] for entry in logs] == ["package_replaced"]
