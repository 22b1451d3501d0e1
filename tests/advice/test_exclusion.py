"""Exclusions of an operator: reasons, end date and cause."""

from datetime import UTC, datetime

import pytest

from cases import finding
from rightsizer.advice.rules.rule import Exclusion
from rightsizer.model.finding import Reason
from rightsizer.model.units import Nanoseconds, nanoseconds


def at(day: int, hour: int, minute: int = 0) -> Nanoseconds:
    """A moment in January 2027."""
    return nanoseconds(datetime(2027, 1, day, hour, minute, tzinfo=UTC).timestamp())


def test_exclusion_holds_to_the_end_of_its_last_day() -> None:
    """In UTC, like all times."""
    launch = Exclusion((Reason.IDLE_HELD,), until="2027-01-30", why="launch")

    assert launch.holds(finding(), at(30, 23, 59))
    assert not launch.holds(finding(), at(31, 0))


def test_exclusion_covers_its_reasons_or_all() -> None:
    """An empty list means every reason."""
    stalls = Exclusion((Reason.HIDDEN_STALL,), why="known")

    assert not stalls.holds(finding(), 0)
    assert stalls.holds(finding(reasons=(Reason.IDLE_HELD, Reason.HIDDEN_STALL)), 0)
    assert Exclusion(why="all of it").holds(finding(), 0)


def test_exclusion_says_who_why_and_until_when() -> None:
    """Shown beside a suppressed finding."""
    assert str(Exclusion(until="2027-01-30", why="launch", actor="ada")) == (
        "ignored until 2027-01-30: launch (ada)"
    )
    assert str(Exclusion(why="launch")) == "ignored: launch"


@pytest.mark.parametrize(
    ("until", "why", "message"),
    [
        ("tomorrow", "launch", r"until: 'tomorrow' is not a date; write it like '2027-01-31'"),
        ("2027-02-30", "launch", "until: '2027-02-30' is not a date"),
        ("2027-01-30", "", "why: say in a few words why this is ignored"),
    ],
)
def test_exclusion_without_a_date_or_a_cause_is_refused(until: str, why: str, message: str) -> None:
    """Someone who reads it in a year needs both."""
    with pytest.raises(ValueError, match=message):
        Exclusion(until=until, why=why)
