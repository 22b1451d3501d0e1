"""Schedules of replicas by the hour, and their simulated effect."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import NOW
from readings import SECOND
from rightsizer.advice.autoscale_schedule import (
    ReplicaSchedule,
    ScalingOutcome,
    ScalingSettings,
    replayed,
    replicas_for,
    schedule,
    schedule_instructions,
    spans_of,
)
from rightsizer.advice.replica_load import ReplicaLoad
from rightsizer.io.yaml import load_yaml
from rightsizer.model.block import BLOCK_SPAN
from rightsizer.model.units import HOUR
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
    outcome = schedule(replicas, SETTINGS, is_weekly=is_weekly).outcome
    assert outcome.saved_ratio <= replicas.saved_at_most(outcome.short_ratio) + 1e-9


def test_night_holds_what_the_night_needs() -> None:
    """Four of 57 at night are nine with margin and spare ones, whatever the day needs."""
    found = schedule(load(day(4, 52) * 2, 57), SETTINGS)
    assert min(found.replicas) == replicas_for(4, 57, SETTINGS) == 9


def test_what_an_hour_needs_is_paid_for_from_its_start_on() -> None:
    """Five minutes of eight replicas before eight o'clock, each day."""
    found = schedule(load(day(0, 8) * 2, 8), SETTINGS)
    assert (found.ready_at(NOW + 8 * HOUR - BLOCK_SPAN), found.ready_at(NOW + 8 * HOUR)) == (1, 8)
    assert found.kept_at(NOW + 8 * HOUR - BLOCK_SPAN) == 8
    night_hours = 15
    assert found.outcome.saved_mean * 24 == pytest.approx(7 * (night_hours - 1 / 12))


def replay_of(manifest: str, load: ReplicaLoad, lead_minutes: int) -> ScalingOutcome:
    """What KEDA does by a ScaledObject of cron triggers; replicas serve after the lead."""
    document: Any = load_yaml(manifest, "manifest").data
    least = document["spec"]["minReplicaCount"]
    triggers = [trigger["metadata"] for trigger in document["spec"].get("triggers") or []]

    def kept(minute: int) -> int:
        wanted = [
            int(trigger["desiredReplicas"])
            for trigger in triggers
            if is_within(minute, trigger["start"], trigger["end"])
        ]
        return max([least, *wanted])

    minutes = [start // (60 * SECOND) for start in load.starts]
    return replayed(
        load.held,
        load.needed,
        map(kept, minutes),
        (min(kept(minute - lead_minutes), kept(minute)) for minute in minutes),
        300.0,
    )


def is_within(minute: int, start: str, end: str) -> bool:
    """Whether a cron's last occurrence is later for the start than for the end."""
    return since(minute, start) < since(minute, end)


def since(minute: int, cron: str) -> int:
    """Minutes since a cron of minute, hour and perhaps day of the week."""
    minutes, hours, _, _, day = cron.split()
    at = int(hours) * 60 + int(minutes)
    if day == "*":
        return (minute - at) % (24 * 60)
    # The epoch began on a Thursday, cron's day 4.
    return (minute + 4 * 24 * 60 - at - int(day) * 24 * 60) % (7 * 24 * 60)


@given(
    st.lists(st.integers(0, 30), min_size=24, max_size=24),
    st.integers(1, 8),
    st.integers(0, 287),
    st.booleans(),
)
def test_manifest_sentence_and_schedule_are_one_rule(
    hours: list[int],
    days: int,
    left_out: int,
    is_weekly: bool,  # noqa: FBT001 - drawn.
) -> None:
    """What KEDA does by the manifest is what the schedule says at each moment, paid and ready."""
    needed = [hours[at // 12 % 24] for at in range(days * DAY)][: days * DAY - left_out]
    replicas = load(needed, 30)
    planned = schedule(replicas, SETTINGS, is_weekly=is_weekly)
    manifest = schedule_instructions(CHAT, planned)[0].text
    by_manifest = replay_of(manifest, replicas, lead_minutes=5)
    assert by_manifest == replay_of_schedule(planned, replicas)
    if planned.periods == 1:
        assert planned.outcome == by_manifest
        assert "only day" in planned.basis


def replay_of_schedule(planned: ReplicaSchedule, load: ReplicaLoad) -> ScalingOutcome:
    """The same history by the schedule."""
    return replayed(
        load.held,
        load.needed,
        map(planned.kept_at, load.starts),
        map(planned.ready_at, load.starts),
        300.0,
    )
