"""Schedules of replicas by the hour, and their simulated effect."""

from hypothesis import given
from hypothesis import strategies as st

from cases import NOW
from rightsizer.advice.autoscale_schedule import (
    ScalingSettings,
    followed,
    replicas_for,
    schedule,
    schedule_instructions,
    spans_of,
)
from rightsizer.advice.replica_load import ReplicaLoad
from rightsizer.model.block import BLOCK_SPAN
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind

SETTINGS = ScalingSettings()
DAY = 288
CHAT = Workload("kubernetes:web/chat", WorkloadKind.KUBERNETES, "chat", WorkloadClass.SERVING)


def load(needed: list[int], size: int) -> ReplicaLoad:
    """The need in five-minute blocks, up to midnight."""
    starts = tuple(NOW - (len(needed) - at) * BLOCK_SPAN for at in range(len(needed)))
    return ReplicaLoad(starts, (size,) * len(needed), tuple(needed), size, 1)


def day(quiet: int, most: int) -> list[int]:
    """Eight hours of work."""
    return [most if 8 * 12 <= at < 16 * 12 else quiet for at in range(DAY)]


def test_margin_and_spare_grow_with_the_group() -> None:
    """A single replica has no margin; a group of a hundred has five."""
    assert [replicas_for(needed, 1, SETTINGS) for needed in (0, 1)] == [0, 1]
    assert replicas_for(0, 8, SETTINGS) == 1
    assert replicas_for(4, 8, SETTINGS) == 7
    assert replicas_for(20, 100, SETTINGS) == 32
    assert replicas_for(90, 100, SETTINGS) == 100


def test_follower_is_short_where_the_load_rises() -> None:
    """It looks back half an hour and needs five minutes to start."""
    outcome = followed(load(day(0, 8) * 2, 8), SETTINGS)
    assert outcome.short_seconds == 2 * 300.0
    assert 0.5 < outcome.saved_ratio < 0.6


def test_schedule_is_judged_by_days_that_it_was_not_made_of() -> None:
    """An unusual day is short; identical days never are."""
    alike = schedule(load(day(0, 8) * 3, 8), SETTINGS)
    assert (alike.outcome.short_seconds, alike.periods) == (0.0, 3)
    assert alike.replicas[3] == 1
    assert alike.replicas[12] == 8
    odd = schedule(load([*day(0, 8), *day(0, 8), *([8] * DAY)], 8), SETTINGS)
    assert odd.outcome.short_seconds > 10 * 3600
    assert odd.replicas == (8,) * 24


def test_hours_that_were_never_seen_keep_every_replica() -> None:
    """Their need is unknown."""
    found = schedule(load([0] * 24, 8), SETTINGS)
    assert found.replicas[10] == 8
    assert found.replicas[23] == 1


def test_week_has_days() -> None:
    """NOW is a Saturday's first moment, so the last two weeks end with five working days."""
    week = [*([0] * 2 * DAY), *(day(0, 8) * 5)]
    found = schedule(load(week * 2, 8), SETTINGS, is_weekly=True)
    assert found.is_weekly
    assert found.outcome.short_seconds == 0.0
    working = [span for span in spans_of(found) if span[2] == 8]
    assert len(working) == 5
    (manifest,) = schedule_instructions(CHAT, found)
    assert manifest.text.count("type: cron") == 5
    assert "* * 1" in manifest.text
    table = schedule_instructions(
        Workload("container:chat", WorkloadKind.CONTAINER, "chat"), found
    )[0].text
    assert "Mon 08:00-Mon 17:00 UTC: 8" in table


def test_night_over_midnight_is_one_span() -> None:
    """It needs one trigger."""
    spans = spans_of(schedule(load(day(0, 8) * 2, 8), SETTINGS))
    assert spans == ((17, 8, 1), (8, 17, 8))


@given(st.lists(st.integers(0, 8), min_size=DAY, max_size=DAY), st.integers(0, 4))
def test_more_load_never_means_fewer_replicas(needed: list[int], more: int) -> None:
    """At any hour."""
    less = schedule(load(needed, 8), SETTINGS).replicas
    greater = schedule(load([min(8, each + more) for each in needed], 8), SETTINGS).replicas
    assert all(one <= other for one, other in zip(less, greater, strict=True))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4 * DAY), st.booleans())
def test_no_scaling_saves_more_than_at_most(needed: list[int], is_weekly: bool) -> None:  # noqa: FBT001 - drawn.
    """What the rule skips because little can be saved would not have been a problem."""
    replicas = load(needed, 6)
    for outcome in (
        followed(replicas, SETTINGS),
        schedule(replicas, SETTINGS, is_weekly=is_weekly).outcome,
    ):
        assert outcome.saved_ratio <= replicas.saved_at_most(outcome.short_ratio) + 1e-9
