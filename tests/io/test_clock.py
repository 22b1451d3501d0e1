"""Clocks: the machine's own, and one that runs as fast as the work allows."""

import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from readings import EPOCH, MINUTE, SECOND
from rightsizer.io.clock import FastClock, SystemClock

GO_ON = threading.Event()


class _NoSleeping(threading.Event):
    """An event that fails when waited for."""

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once for a timeout of 0, else fail."""
        assert timeout == 0.0
        return self.is_set()


@given(st.lists(st.integers(-5 * MINUTE, 10 * MINUTE), max_size=30))
def test_fast_clock_goes_to_each_deadline_and_nowhere_else(steps: list[int]) -> None:
    """No tick is skipped or repeated, and it never goes back."""
    clock = FastClock(EPOCH)
    expected = EPOCH
    for step in steps:
        expected = max(expected, expected + step)
        assert clock.wait_until(clock.time() + step, GO_ON) is False
        assert clock.time() == clock.wall_time() == expected


def test_fast_clock_stands_still_while_work_is_done() -> None:
    """However long a tick takes, the next one is one interval later."""
    clock = FastClock(EPOCH, speed=1e6)
    clock.wait_until(EPOCH + SECOND, GO_ON)
    time.sleep(0.01)  # Ten thousand seconds at this speed.
    assert clock.time() == EPOCH + SECOND
    clock.wait_until(EPOCH + 2 * SECOND, GO_ON)
    assert clock.time() == EPOCH + 2 * SECOND


def test_infinitely_fast_clock_never_sleeps() -> None:
    """A simulated month takes as long as its work."""
    clock = FastClock(EPOCH)
    for tick in range(1, 100):
        clock.wait_until(EPOCH + tick * MINUTE, _NoSleeping())
    assert clock.time() == EPOCH + 99 * MINUTE


def test_clock_of_a_given_speed_waits_that_much_less() -> None:
    """At speed 1000 a simulated minute waits 60 ms."""
    asked: list[float] = []

    class Noted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            asked.append(timeout or 0.0)
            return False

    clock = FastClock(EPOCH, speed=1000.0)
    clock.wait_until(EPOCH + MINUTE, Noted())
    clock.wait_until(EPOCH + 2 * MINUTE, Noted())
    assert all(0.0 <= each <= 0.12 for each in asked)
    assert sum(asked) > 0.06


def test_wait_tells_that_it_was_stopped() -> None:
    """Both clocks return whether to stop."""
    stop = threading.Event()
    stop.set()
    system = SystemClock()
    assert FastClock(EPOCH, speed=1.0).wait_until(EPOCH + MINUTE, stop) is True
    assert system.wait_until(system.time() + 10 * MINUTE, stop) is True


def test_system_clock_is_steady_and_knows_the_date() -> None:
    """Durations come from a monotonic clock, dates from the wall clock."""
    clock = SystemClock()
    before = clock.time()
    assert clock.wait_until(before - SECOND, GO_ON) is False
    assert clock.wait_until(before + 1_000_000, GO_ON) is False
    assert clock.time() >= before + 1_000_000
    assert clock.wall_time() > EPOCH
    assert clock.speed == 1.0
