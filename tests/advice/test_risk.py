"""The probability that an action does harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.advice.risk import risk_of, worst
from rightsizer.model.finding import Risk

DAY = 288.0
"""Five-minute blocks of a day."""
ORDER = (Risk.VERY_LOW, Risk.LOW, Risk.MEDIUM, Risk.HIGH)


@pytest.mark.parametrize(
    ("share", "known", "expected"),
    [
        (0.0, 7 * DAY, Risk.VERY_LOW),
        (0.0, DAY, Risk.VERY_LOW),
        (0.0, 0.5 * DAY, Risk.LOW),
        (0.03, 7 * DAY, Risk.LOW),
        (0.1, 7 * DAY, Risk.MEDIUM),
        (0.2, 7 * DAY, Risk.HIGH),
        (1.0, 7 * DAY, Risk.HIGH),
        (0.0, 20.0, Risk.MEDIUM),
        (0.0, 19.9, Risk.UNKNOWN),
        (1.0, 0.0, Risk.UNKNOWN),
    ],
)
def test_risk_is_the_bound_of_what_would_have_hurt(
    share: float, known: float, expected: Risk
) -> None:
    """1, 5 and 15% of the five-minute blocks; fewer than 20 of them are unknown."""
    assert risk_of(share, known) is expected


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(20.0, 14 * DAY))
def test_more_harm_is_never_less_risk(one: float, other: float, known: float) -> None:
    """Monotone in the share that was harmed."""
    low = risk_of(min(one, other), known)
    high = risk_of(max(one, other), known)
    assert ORDER.index(low) <= ORDER.index(high)


@given(st.floats(20.0, 14 * DAY), st.floats(1.0, 10.0))
def test_longer_harmless_history_is_never_more_risk(known: float, times: float) -> None:
    """Every quiet day lowers the bound."""
    assert ORDER.index(risk_of(0.0, known * times)) <= ORDER.index(risk_of(0.0, known))


def test_unknown_ranks_as_high() -> None:
    """The unknown is not taken for safe."""
    assert Risk.UNKNOWN.rank == Risk.HIGH.rank > Risk.MEDIUM.rank
    assert worst([Risk.LOW, Risk.UNKNOWN, Risk.MEDIUM]) is Risk.UNKNOWN
    assert worst([Risk.VERY_LOW, Risk.LOW]) is Risk.LOW
    assert worst([]) is Risk.UNKNOWN
