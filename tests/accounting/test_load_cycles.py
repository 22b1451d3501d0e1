"""Load cycles of steady pace."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.accounting.device_state import LoadCycleDetector
from rightsizer.model.window import LoadCycle

SECOND = 1_000_000_000


def cycles(values: Iterable[float | None], step: int = SECOND) -> list[LoadCycle]:
    """All cycles found in evenly spaced samples."""
    detector = LoadCycleDetector()
    return [found for value in values if (found := detector.update(step, value)) is not None]


@given(
    on=st.integers(1, 20),
    off=st.integers(1, 20),
    high=st.floats(0.5, 1.0),
    step=st.sampled_from([SECOND // 10, SECOND, 2 * SECOND]),
)
def test_work_and_pause_at_a_steady_pace_are_reported(
    on: int, off: int, high: float, step: int
) -> None:
    """Nearly every cycle is found, with its length and busy part."""
    found = cycles([high if at % (on + off) < on else 0.0 for at in range(40 * (on + off))], step)

    assert len(found) >= 28
    length = (on + off) * step / SECOND
    assert all(cycle.length_seconds == pytest.approx(length) for cycle in found)
    assert found[-1].busy_seconds == pytest.approx(high * on * step / SECOND)


@given(level=st.floats(0, 1), noise=st.floats(0, 0.14), seed=st.integers(0, 1 << 32))
def test_steady_work_has_no_cycles(level: float, noise: float, seed: int) -> None:
    """Noise around one level has no cycles."""
    chance = random.Random(seed)
    values = [min(1.0, max(0.0, level + chance.uniform(-noise, noise))) for _ in range(2000)]

    assert cycles(values) == []


@given(st.integers(0, 1 << 32), st.floats(0.05, 0.5))
def test_requests_by_chance_have_no_pace(seed: int, rate: float) -> None:
    """Most of their time is in no cycle."""
    chance = random.Random(seed)
    found = cycles([float(chance.random() < rate) for _ in range(4000)])

    assert sum(cycle.length_seconds for cycle in found) < 0.4 * 4000


def test_a_gap_begins_again() -> None:
    """Unread time is part of no cycle."""
    steady = [float(at % 4 == 0) for at in range(36)]

    assert cycles([*steady, None]) != []
    assert cycles([*steady[:28], None, *steady[:28]]) == []
