"""Contents of an annotation, and Grafana's limits."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advice_events import NOW, SECOND, event
from rightsizer.model.advice import AdviceEventKind, AdviceState
from rightsizer.notify.grafana.annotation import body_of, roll_up


def test_opening_is_a_region_without_an_end() -> None:
    """It starts when the recommendation opened; its end is its start until it is known."""
    note = body_of(event(AdviceEventKind.OPENED, opened=NOW - 9 * SECOND))
    assert (note.start, note.end) == (NOW - 9 * SECOND, NOW - 9 * SECOND)
    assert not note.closes_region


def test_closing_ends_the_same_region() -> None:
    """A closing note has the opening's start and key tags, and the end."""
    opening = body_of(event(AdviceEventKind.OPENED, opened=NOW - 9 * SECOND))
    closing = body_of(event(AdviceEventKind.CLOSED, opened=NOW - 9 * SECOND))
    assert (closing.start, closing.end) == (opening.start, NOW)
    assert closing.key_tags == opening.key_tags == ("advice:a1b2c3", "event:opened")


def test_turns_are_points() -> None:
    """A worsening, a verification and a regression are points of their own."""
    for kind in (AdviceEventKind.SEVERITY_UP, AdviceEventKind.VERIFIED, AdviceEventKind.REGRESSED):
        note = body_of(event(kind, opened=NOW - 9 * SECOND))
        assert (note.start, note.end) == (NOW, NOW)
        assert note.key_tags == ("advice:a1b2c3", f"event:{kind}")


def test_tags_say_what_and_where() -> None:
    """Tags are for queries: product, recommendation, event, finding and place."""
    assert body_of(event(AdviceEventKind.OPENED)).tags == (
        "rightsizer",
        "advice:a1b2c3",
        "event:opened",
        "finding:idle",
        "reason:IdleHeld",
        "severity:low",
        "workload:team-a/notebook",
        "uuid:GPU-0",
    )


def test_text_reads_like_a_sentence_and_its_grounds() -> None:
    """The summary precedes action, confidence, place and evidence."""
    note = body_of(event(AdviceEventKind.CLOSED, state=AdviceState.SUCCEEDED))
    assert note.text.splitlines() == [
        "Closed (succeeded). GPU-0 has been held idle for 6 h.",
        "Action: scale to zero",
        "Confidence: 87%, risk: Low",
        "Where: team-a/notebook on GPU-0",
        "Evidence: idle_held_ratio 0.933; window 24h",
        "Advice: a1b2c3",
    ]


def test_text_is_never_empty() -> None:
    """A finding without a summary has its kind and reasons."""
    assert body_of(event(AdviceEventKind.OPENED, summary=" ")).text.startswith("idle: IdleHeld\n")


def test_colons_do_not_split_a_value() -> None:
    """A device identified by its index gives a tag with one colon."""
    note = body_of(event(AdviceEventKind.OPENED, devices=("index:3",)))
    assert note.tags[-1] == "uuid:index-3"


@given(
    st.lists(st.text(max_size=120), min_size=1, max_size=80, unique=True),
    st.text(max_size=4000),
    st.sampled_from(AdviceEventKind),
)
def test_every_note_fits(devices: list[str], summary: str, kind: AdviceEventKind) -> None:
    """For any finding, Grafana's limits are kept and the annotation can be found."""
    note = body_of(event(kind, devices=tuple(devices), summary=summary))
    assert len(json.dumps(note.tags)) <= 500
    assert all(len(tag) <= 100 for tag in note.tags)
    assert note.tags[0] == "rightsizer"
    assert note.key_tags[0] == "advice:a1b2c3"
    assert 0 < len(note.text) <= 2000
    assert note.start <= note.end


def test_roll_up_names_the_first_and_counts_the_rest() -> None:
    """A summary of many notes is readable, and stable for the same notes."""
    notes = [body_of(event(AdviceEventKind.OPENED, id=f"x{index}")) for index in range(12)]
    sum_ = roll_up(notes)
    assert sum_ == roll_up(notes)
    assert sum_ != roll_up(notes[:-1])
    lines = sum_.text.splitlines()
    assert lines[0] == "12 more changes of advice:"
    assert lines[1] == "- GPU-0 has been held idle for 6 h."
    assert lines[-1] == "- and 2 others"
    assert sum_.key_tags[1] == "event:rollup"


@pytest.mark.parametrize("state", [AdviceState.CLAIMED, AdviceState.SNOOZED, AdviceState.ACTIVE])
def test_a_decision_changes_the_region_and_leaves_it_open(state: AdviceState) -> None:
    """User, expiry and reason are on a line each, with data for programs."""
    decided = event(AdviceEventKind.DECIDED, opened=NOW - 9 * SECOND, state=state)
    advice = replace(decided.advice, actor="ana", why="after\nthe fair", expires=NOW + SECOND)
    note = body_of(replace(decided, advice=advice))
    opening = body_of(event(AdviceEventKind.OPENED, opened=NOW - 9 * SECOND))
    assert (note.start, note.end, note.tags) == (opening.start, opening.end, opening.tags)
    assert (note.changes_region, note.closes_region) == (True, False)
    lines = note.text.splitlines()
    assert lines[0] == f"{state.capitalize()}. GPU-0 has been held idle for 6 h."
    assert lines[4:6] == ["By: ana, until 2026-09-21 14:13 UTC", "Why: after the fair"]
    assert note.data == {
        "state": state,
        "decided": NOW // 10**6,
        "expires": NOW // 10**6 + 1000,
        "actor": "ana",
        "why": "after\nthe fair",
        "rule": "held_idle",
    }


def test_points_and_openings_have_no_data() -> None:
    """The recommendation itself has all of it."""
    kinds = set(AdviceEventKind) - {AdviceEventKind.CLOSED, AdviceEventKind.DECIDED}
    assert {body_of(event(kind)).data for kind in kinds} == {None}


def test_duration_beyond_the_calendar_is_shown() -> None:
    """A dismissal may last ten thousand years."""
    dismissed = event(AdviceEventKind.CLOSED, state=AdviceState.DISMISSED)
    note = body_of(replace(dismissed, advice=replace(dismissed.advice, expires=NOW + 10**21)))
    assert "By: until 2255-03-14 16:00 UTC" in note.text.splitlines()
    assert note.data is not None
    assert note.data["expires"] == 9 * 10**12
