"""Annotations read back equal those written, by this or an earlier version."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advice_events import NOW, SECOND, event
from rightsizer.model.advice import AdviceEventKind, AdviceState
from rightsizer.model.finding import Action, FindingKind, Reason, Risk, Severity
from rightsizer.notify.grafana.annotation import body_of, milliseconds, region_of

OPENED = AdviceEventKind.OPENED
CLOSED = AdviceEventKind.CLOSED
DECIDED = AdviceEventKind.DECIDED
DAY = 86400 * SECOND


def annotation(
    kind: AdviceEventKind, state: AdviceState, *, knows_data: bool = True, **facts: Any
) -> dict[str, Any]:
    """An annotation as Grafana returns it."""
    source_event = event(kind, opened=NOW - DAY, state=state)
    note = body_of(replace(source_event, advice=replace(source_event.advice, **facts)))
    return {
        "id": 7,
        "time": milliseconds(note.start),
        "timeEnd": milliseconds(note.end),
        "tags": list(note.tags),
        "text": note.text,
        "data": dict(note.data) if note.data is not None and knows_data else {},
    }


@pytest.mark.parametrize(
    ("kind", "state", "expires"),
    [
        (DECIDED, AdviceState.CLAIMED, None),
        (DECIDED, AdviceState.SNOOZED, NOW + DAY),
        (DECIDED, AdviceState.ACTIVE, None),
        (CLOSED, AdviceState.DISMISSED, NOW + DAY),
        (CLOSED, AdviceState.FAILED, NOW + DAY),
    ],
)
def test_a_decision_is_read_back(
    kind: AdviceEventKind, state: AdviceState, expires: int | None
) -> None:
    """It has user, reason, time and expiry."""
    found = region_of(annotation(kind, state, actor="ana", why="a\nb: c", expires=expires))
    assert found is not None
    assert (found.advice.state, found.decided, found.advice.expires) == (state, NOW, expires)
    assert (found.advice.actor, found.advice.why, found.advice.finding.rule) == (
        "ana",
        "a\nb: c",
        "held_idle",
    )
    assert (found.advice.opened, found.advice.is_open) == (NOW - DAY, kind is DECIDED)


def test_the_finding_is_read_back_as_far_as_it_is_reported() -> None:
    """It comes from tags, text and author."""
    region = region_of(annotation(CLOSED, AdviceState.DISMISSED, knows_data=False))
    assert region is not None
    found = region.advice.finding
    assert (found.id, found.workload, found.devices) == ("a1b2c3", "team-a/notebook", ("GPU-0",))
    assert (found.kind, found.reasons) == (FindingKind.IDLE, (Reason.IDLE_HELD,))
    assert (found.action, found.severity) == (Action.SCALE_TO_ZERO, Severity.LOW)
    assert (found.confidence, found.risk) == (0.87, Risk.LOW)
    assert found.summary == "GPU-0 has been held idle for 6 h."


def test_a_former_program_told_the_state_and_the_end() -> None:
    """Its texts are recognized; for open ones it had none."""
    closed = region_of(annotation(CLOSED, AdviceState.DISMISSED, knows_data=False))
    opened = region_of(annotation(OPENED, AdviceState.ACTIVE))
    assert closed is not None
    assert opened is not None
    assert (closed.advice.state, closed.end, closed.decided) == (AdviceState.DISMISSED, NOW, None)
    assert (opened.advice.state, opened.decided, opened.advice.opened) == (
        AdviceState.ACTIVE,
        None,
        NOW - DAY,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"time": 0},
        {"time": True},
        {"timeEnd": 10**30},
        {"timeEnd": "soon"},
        {"tags": None},
        {"tags": ["rightsizer", "event:opened"]},
        {"tags": ["rightsizer", "advice:x", "event:opened", "finding:unheard"]},
        {"text": None, "tags": [1]},
        {"data": {"state": "unheard"}},
        {"data": {"state": "claimed"}},
        {"data": {"state": "snoozed", "decided": 1.5}},
        {"data": {"state": "snoozed", "decided": 1, "expires": "soon"}},
        {"data": "text"},
    ],
)
def test_foreign_annotation_is_skipped(change: dict[str, Any]) -> None:
    """Any user with access may write annotations."""
    assert region_of(annotation(DECIDED, AdviceState.CLAIMED) | change) is None


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_nonsense_is_no_region(item: Any) -> None:
    """No error is raised either."""
    assert region_of(item) is None
    region_of(annotation(DECIDED, AdviceState.CLAIMED) | {"data": item})
    region_of(annotation(DECIDED, AdviceState.CLAIMED) | {"tags": item})
