"""Background fetches on a thread of their own: a hanging or failing one delays no caller."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from rightsizer.io.worker import FetchResult, PollingThread
from rightsizer.model.snapshot import CollectorOutcome

PATIENCE_SECONDS = 10.0


@dataclass
class Well:
    """Source of fetches, with a clock."""

    now: float = 1000.0
    fetches: int = 0
    error: Exception | None = None
    gate: threading.Event = field(default_factory=threading.Event)
    threads: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.gate.set()

    def fetch(self) -> int:
        """Return the fetch's number; block while the gate is closed."""
        self.fetches += 1
        self.threads.add(threading.current_thread().name)
        number = self.fetches
        self.gate.wait()
        if self.error is not None:
            raise self.error
        return number


@contextmanager
def fetching(well: Well, interval_seconds: float = 10.0) -> Iterator[PollingThread[int]]:
    """A background fetcher of the source; values are valid for a minute."""
    background = PollingThread(
        "well",
        well.fetch,
        interval_seconds=interval_seconds,
        hold_seconds=60.0,
        now=lambda: well.now,
    )
    try:
        yield background
    finally:
        well.gate.set()
        background.close()


def fetched(background: PollingThread[int]) -> FetchResult[int]:
    """Value after the running fetch has ended."""
    return background.latest(PATIENCE_SECONDS)


def eventually(
    background: PollingThread[int], is_so: Callable[[FetchResult[int]], bool]
) -> FetchResult[int]:
    """Value once a condition holds; a released thread needs a moment."""
    for _ in range(500):
        latest = background.latest()
        if is_so(latest):
            return latest
        time.sleep(0.005)
    pytest.fail(f"it never came to pass: {latest}")


def test_nothing_stands_before_the_first_fetch() -> None:
    """No fetch starts before the first request for the value."""
    well = Well()
    well.gate.clear()
    with fetching(well) as background:
        assert well.fetches == 0
        assert background.name == "well"
        latest = background.latest()
        assert (latest.value, latest.error) == (None, "nothing was fetched yet")
        assert not latest.outcome.success


def test_value_stands_until_the_next_is_due() -> None:
    """However often it is read, it is fetched once an interval, on its own thread."""
    well = Well()
    with fetching(well) as background:
        assert fetched(background).value == 1
        for second in range(10):
            well.now = 1000.0 + second
            assert background.latest().value == 1
        assert well.fetches == 1
        well.now = 1010.0
        assert fetched(background).value == 2
        assert well.fetches == 2
    assert well.threads == {"well"}


def test_hung_fetch_delays_no_one() -> None:
    """Meanwhile the previous value is returned; once that is too old, the reason is."""
    well = Well()
    with fetching(well) as background:
        fetched(background)
        well.gate.clear()
        well.now = 1010.0
        assert background.latest().value == 1
        well.now = 1060.0
        assert background.latest().value == 1
        well.now = 1061.0
        late = background.latest()
        assert (late.value, late.error) == (None, "it is too old")
        well.gate.set()
        assert eventually(background, lambda latest: latest.value == 2).error is None
    assert well.fetches == 2


def test_hung_fetch_is_a_failure_in_the_end() -> None:
    """A fetch longer than the interval is reported as a failure; the value keeps its validity."""
    well = Well()
    with fetching(well, interval_seconds=0.02) as background:
        fetched(background)
        well.gate.clear()
        well.now += 1.0
        hung = eventually(background, lambda latest: latest.error is not None)
        assert hung.value == 1
        assert (hung.error or "").startswith("no answer within ")
        assert not hung.outcome.success
        assert hung.outcome.duration_seconds > 0.02
        well.gate.set()
        assert eventually(background, lambda latest: latest.error is None).value != 1


def test_failure_keeps_the_former_value_until_its_time() -> None:
    """A failed attempt does not extend validity; afterward only the error is returned."""
    well = Well()
    with fetching(well) as background:
        fetched(background)
        well.error = OSError("connection refused")
        for seconds in (10, 20, 60):
            well.now = 1000.0 + seconds
            failed = fetched(background)
            assert (failed.value, failed.error) == (1, "connection refused")
        well.now = 1061.0
        assert (background.latest().value, background.latest().error) == (
            None,
            "connection refused",
        )
        well.error = None
        well.now = 1100.0
        renewed = fetched(background)
        assert (renewed.value, renewed.error) == (well.fetches, None)


def test_error_without_words_is_reported_by_its_name() -> None:
    """Some exceptions have no message."""
    well = Well(error=TimeoutError())
    with fetching(well) as background:
        assert fetched(background).error == "TimeoutError()"


def test_outcome_is_that_of_the_last_attempt() -> None:
    """Success and duration also cover failed attempts."""
    well = Well()
    with fetching(well) as background:
        succeeded = fetched(background).outcome
        well.error = OSError("no")
        well.now += 10.0
        failed = fetched(background).outcome
    assert succeeded == CollectorOutcome(True, succeeded.duration_seconds)
    assert failed == CollectorOutcome(False, failed.duration_seconds, "no")
    assert succeeded.duration_seconds > 0
    assert failed.duration_seconds > 0


def test_refresh_fetches_at_the_next_chance() -> None:
    """A caller that knows of a change need not wait for the interval."""
    well = Well()
    with fetching(well) as background:
        fetched(background)
        background.refresh()
        assert fetched(background).value == 2
        assert fetched(background).value == 2
        well.now = 1010.0
        assert fetched(background).value == 3


def test_refresh_during_a_fetch_is_a_fetch_after_it() -> None:
    """The running fetch may have started before the change."""
    well = Well()
    well.gate.clear()
    with fetching(well) as background:
        background.latest()
        background.refresh()
        well.gate.set()
        assert eventually(background, lambda latest: latest.value == 2).error is None
    assert well.fetches == 2


def test_value_is_as_old_as_its_fetch() -> None:
    """A read long after the fetch does not renew the value."""
    well = Well()
    fetched_by_now = threading.Event()

    def now() -> float:
        told = well.now
        if threading.current_thread().name == "well":
            fetched_by_now.set()
        return told

    background = PollingThread(
        "well", well.fetch, interval_seconds=10.0, hold_seconds=60.0, now=now
    )
    background.latest()
    assert fetched_by_now.wait(PATIENCE_SECONDS)
    well.now = 1061.0
    well.error = OSError("gone")
    assert fetched(background).value is None
    background.close()


def test_close_ends_the_thread() -> None:
    """An idle thread ends at once; a hanging fetch blocks nothing, and ends with its thread."""
    before = set(threading.enumerate())
    well = Well()
    with fetching(well) as background:
        fetched(background)
        well.gate.clear()
        well.now = 1010.0
        background.latest()
        background.close()
        (left,) = set(threading.enumerate()) - before
        assert left.daemon
        well.gate.set()
        left.join(PATIENCE_SECONDS)
        assert not left.is_alive()
