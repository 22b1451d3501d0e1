"""Requests to the telemetry, from any thread, temporary or until revoked."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvml_driver import tick
from rightsizer.io.clock import FastClock
from rightsizer.model.units import nanoseconds
from rightsizer.telemetry.source import ReleasableResource, ReleaseController, ReleaseRequest


def test_nothing_is_released_at_first() -> None:
    """Neither GPUs nor counters are released, and nothing can be resumed."""
    controls = ReleaseController(FastClock(0))
    assert [controls.released(held) for held in ReleasableResource] == [None, None]
    assert [controls.resume(held) for held in ReleasableResource] == [False, False]


@pytest.mark.parametrize("held", ReleasableResource)
def test_release_stands_until_it_is_taken_back(held: ReleasableResource) -> None:
    """Without a duration it lasts for days, and it covers one resource only."""
    clock = FastClock(5)
    controls = ReleaseController(clock)
    release = controls.release(held)
    assert release == ReleaseRequest(held, 5, None)
    tick(clock, 1e6)
    assert controls.released(held) is release
    assert [controls.released(other) for other in ReleasableResource if other is not held] == [None]
    assert controls.resume(held)
    assert controls.released(held) is None
    assert not controls.resume(held)


@given(st.floats(0.001, 1e6), st.floats(0, 2e6))
def test_release_for_a_time_ends_by_itself(for_seconds: float, later_seconds: float) -> None:
    """It ends to the nanosecond, by the monotonic clock."""
    clock = FastClock(0)
    controls = ReleaseController(clock)
    release = controls.release(ReleasableResource.COUNTERS, for_seconds)
    assert release.until == nanoseconds(for_seconds)
    tick(clock, later_seconds)
    is_over = nanoseconds(later_seconds) >= nanoseconds(for_seconds)
    assert (controls.released(ReleasableResource.COUNTERS) is None) is is_over
    assert controls.resume(ReleasableResource.COUNTERS) is not is_over


def test_a_second_release_replaces_the_first() -> None:
    """The duration starts again."""
    clock = FastClock(0)
    controls = ReleaseController(clock)
    controls.release(ReleasableResource.GPUS, 10.0)
    tick(clock, 9)
    again = controls.release(ReleasableResource.GPUS, 10.0)
    tick(clock, 9)
    assert controls.released(ReleasableResource.GPUS) is again
    controls.release(ReleasableResource.GPUS)
    tick(clock, 1000)
    assert controls.released(ReleasableResource.GPUS) is not None


def test_any_thread_may_ask() -> None:
    """Concurrent releases and resumes leave one of the two states, and raise nothing."""
    controls = ReleaseController(FastClock(0))
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(200):
                controls.release(ReleasableResource.GPUS, 1e-9)
                controls.released(ReleasableResource.GPUS)
                controls.resume(ReleasableResource.GPUS)
        except Exception as error:  # noqa: BLE001 - the test is that there is none.
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert controls.released(ReleasableResource.GPUS) is None


def test_each_askers_release_stands_by_itself() -> None:
    """The longest one applies; only an operator can end those of others."""
    clock = FastClock(0)
    controls = ReleaseController(clock)
    mine = controls.release(ReleasableResource.COUNTERS, 10.0)
    theirs = controls.release(ReleasableResource.COUNTERS, 60.0, asker="capture")
    assert controls.released(ReleasableResource.COUNTERS) is theirs
    assert controls.resume(ReleasableResource.COUNTERS, asker="capture")
    assert not controls.resume(ReleasableResource.COUNTERS, asker="capture")
    assert controls.released(ReleasableResource.COUNTERS) is mine
    for_good = controls.release(ReleasableResource.COUNTERS)
    controls.release(ReleasableResource.COUNTERS, 60.0, asker="capture")
    assert controls.released(ReleasableResource.COUNTERS) is for_good
    assert controls.resume(ReleasableResource.COUNTERS)
    assert controls.released(ReleasableResource.COUNTERS) is None
