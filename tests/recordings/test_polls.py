"""Finding the polls of a log whose lines do not name their device."""

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from rightsizer.telemetry.recordings.nvidia_smi import poll_gap

MILLISECOND = 1_000_000
SECOND = 1000 * MILLISECOND


@given(
    devices=st.integers(2, 16),
    polls=st.integers(3, 40),
    interval=st.integers(300, 60_000),
    data=st.data(),
)
def test_devices_a_few_milliseconds_apart_are_one_poll(
    devices: int, polls: int, interval: int, data: st.DataObject
) -> None:
    """Whatever the jitter, a gap within a poll is at most the answer, one between polls is more."""
    within = st.integers(0, 12)
    between = st.integers(interval, interval + 40)
    gaps = [
        data.draw(between if number % devices == 0 else within)
        for number in range(1, devices * polls)
    ]
    times = list(accumulate((gap * MILLISECOND for gap in gaps), initial=0))
    found = poll_gap(times)
    assert [after - before > found for before, after in pairwise(times)] == [
        number % devices == 0 for number in range(1, devices * polls)
    ]


@given(st.lists(st.integers(950, 1100), min_size=1, max_size=60))
def test_one_device_is_its_own_poll(gaps: list[int]) -> None:
    """Jitter of a second's interval does not make two devices of one."""
    times = list(accumulate((gap * MILLISECOND for gap in gaps), initial=0))
    assert all(after - before > poll_gap(times) for before, after in pairwise(times))


def test_a_pause_in_the_log_is_no_poll() -> None:
    """A recorder that slept for an hour in the middle leaves two equal halves, not two polls."""
    times = [number * SECOND for number in range(30)]
    times += [time + 3600 * SECOND for time in times]
    assert poll_gap(times) < SECOND


def test_a_single_poll_is_one_poll() -> None:
    """A log of one poll has no gap between polls to learn from."""
    assert poll_gap([0, 4 * MILLISECOND, 9 * MILLISECOND]) == 5 * MILLISECOND


def test_a_single_row_has_no_gap() -> None:
    """With nothing to compare, each row is its own."""
    assert poll_gap([SECOND]) == -1
