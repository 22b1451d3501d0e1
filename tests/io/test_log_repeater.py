"""A persisting error is logged once an interval."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.io.log import Repeater
from rightsizer.model.units import nanoseconds


class Time:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> int:
        """The time now."""
        return nanoseconds(self.seconds)


def say(repeater: Repeater, event: str = "read_failed", level: str = "error", **more: Any) -> Any:
    """The logged event; `None` if it was suppressed."""
    try:
        return repeater(None, level, {"event": event, "level": level, **more})
    except structlog.DropEvent:
        return None


def test_the_first_after_the_interval_tells_how_many_were_suppressed() -> None:
    """The next line has the number of suppressed ones."""
    time = Time()
    repeater = Repeater(60, time)

    answers = []
    for time.seconds in (0, 1, 59.9, 60, 61, 200):
        answers.append(say(repeater))

    suppressed = [answer and answer.get("suppressed", 0) for answer in answers]
    assert suppressed == [0, None, None, 2, None, 1]


@pytest.mark.parametrize("level", ["debug", "info"])
def test_non_error_lines_are_never_suppressed(level: str) -> None:
    """The canonical line of each run may equal the previous one."""
    repeater = Repeater(60, Time())

    assert all(say(repeater, level=level) for _ in range(3))


@pytest.mark.parametrize(
    "other",
    [
        {"event": "write_failed"},
        {"level": "warning"},
        {"uuid": "GPU-2"},
        {"exc_info": OSError("other")},
    ],
)
def test_a_fault_that_differs_in_anything_is_another_fault(other: dict[str, Any]) -> None:
    """A second failing device is new information."""
    repeater = Repeater(60, Time())
    fault = {"uuid": "GPU-1", "exc_info": OSError("away")}
    say(repeater, **fault)

    assert say(repeater, **{**fault, **other}) is not None


def test_the_same_exception_is_the_same_fault_however_it_is_handed_over() -> None:
    """Two tracebacks of one error are different objects, but the same error."""
    repeater = Repeater(60, Time())
    forms: tuple[Callable[[OSError], Any], ...] = (
        lambda _: True,
        lambda error: error,
        lambda error: (type(error), error, error.__traceback__),
    )

    logged = []
    for document in forms:
        try:
            Path("/nonexistent").read_bytes()
        except OSError as error:
            logged.append(say(repeater, exc_info=document(error)) is not None)

    assert logged == [True, False, False]


def test_the_memory_for_faults_is_bounded() -> None:
    """Errors that do not recur are forgotten, the oldest first."""
    repeater = Repeater(60, Time())
    for number in range(1000):
        say(repeater, number=number)

    assert say(repeater, number=999) is None
    assert say(repeater, number=0) is not None


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from("ab")), min_size=1))
def test_logged_and_suppressed_counts_add_up(
    faults: list[tuple[float, str]],
) -> None:
    """After a quiet interval, lines plus their `suppressed` counts equal the number of errors."""
    time = Time()
    repeater = Repeater(30, time)
    counted = 0
    for wait, event in faults:
        time.seconds += wait
        answer = say(repeater, event)
        counted += 1 + answer.get("suppressed", 0) if answer else 0
    time.seconds += 30
    for event in {event for _, event in faults}:
        counted += say(repeater, event).get("suppressed", 0)

    assert counted == len(faults)
