"""The simulator's noise: pure, smooth, bounded, and different for every seed and channel."""

from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.simulator.transients import channel, jitter, smooth, uniform

KEYS = st.integers(0, 2**64 - 1)
TIMES = st.integers(0, 10**19)
PERIOD = 45 * NANOSECONDS_PER_SECOND


@given(KEYS, st.integers(0, 10**12))
def test_uniform_noise_stays_within_its_range(key: int, step: int) -> None:
    """A uniform number is between 0 and 1 for every key and step."""
    assert 0.0 <= uniform(key, step) <= 1.0


@given(KEYS, TIMES)
def test_smooth_noise_stays_within_its_range(key: int, time: int) -> None:
    """A smooth number is always between -1 and 1."""
    assert -1.0 <= smooth(key, time, PERIOD) <= 1.0


@given(KEYS, TIMES)
def test_smooth_noise_has_no_jumps(key: int, time: int) -> None:
    """Within a thousandth of a period, smooth noise moves by less than a hundredth."""
    later = time + PERIOD // 1000
    assert abs(smooth(key, later, PERIOD) - smooth(key, time, PERIOD)) < 0.01


@given(KEYS, st.integers(0, 10**12))
def test_sensor_errors_stay_within_their_range(key: int, step: int) -> None:
    """The errors of four sensors are each between -1 and 1."""
    assert all(-1.0 <= error <= 1.0 for error in jitter(key, step))


@given(KEYS, st.lists(TIMES, min_size=2, max_size=20))
def test_noise_does_not_remember_what_it_was_asked(key: int, times: list[int]) -> None:
    """Evaluation in reverse gives the same numbers."""
    forward = [smooth(key, time, PERIOD) for time in times]
    backward = [smooth(key, time, PERIOD) for time in reversed(times)]
    assert forward == backward[::-1]


def test_uniform_noise_fills_its_range_evenly() -> None:
    """Of ten thousand steps, each tenth of the range gets about a thousand."""
    key = channel(1, "evenness")
    counts = [0] * 10
    for step in range(10_000):
        counts[min(9, int(10 * uniform(key, step)))] += 1
    assert all(850 < count < 1150 for count in counts)


def test_the_four_sensors_err_independently() -> None:
    """The mean product of two sensors' errors is near 0."""
    rows = [jitter(channel(1, "sensors"), step) for step in range(5_000)]
    for one in range(4):
        for other in range(one):
            assert abs(sum(row[one] * row[other] for row in rows)) / len(rows) < 0.02


def test_channels_are_independent_of_each_other() -> None:
    """Another seed, another name, and names joined differently give other streams."""
    keys = {
        channel(1, "load"),
        channel(2, "load"),
        channel(1, "drift"),
        channel(1, "lo", "ad"),
        channel(1, "load", 0),
    }
    assert len(keys) == 5


def test_a_channel_is_the_same_in_every_run() -> None:
    """Keys come from a fixed digest, not from Python's salted hash."""
    assert channel(7, "load", 0) == 4501795336403569257
