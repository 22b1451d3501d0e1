"""A fleet as one group, over made-up days."""

from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from cases import finding
from evaluation.traces.autoscale_replay import (
    by_rows,
    evaluate,
    fleet_case,
    follow,
    printed_schedule,
    published,
    static_headroom,
    verdict,
)
from evaluation.traces.fleet_group import Group, group_of
from evaluation.traces.sample_trace import START, STEP_SECONDS, pod, wave, write_trace
from rightsizer.model.finding import Action, FindingKind, Option, Reason, Risk
from rightsizer.model.state import State
from rightsizer.model.units import NANOSECONDS_PER_SECOND

_MINUTE: Final = 60 * NANOSECONDS_PER_SECOND
DIURNAL: Final = finding(
    rule="diurnal_autoscale",
    kind=FindingKind.OVERPROVISIONED,
    reasons=(Reason.DIURNAL_AUTOSCALE,),
    action=Action.AUTOSCALE,
    options=(),
)


def group(busy: list[int], size: int) -> Group:
    """A fleet of constant size, minute by minute."""
    return Group(0, _MINUTE, [size] * len(busy), busy)


def test_pods_are_counted_where_they_are() -> None:
    """Covers later pods, and ones from before the first that is read."""
    later = pod([50.0, 0.0], "a", START + 2 * STEP_SECONDS)
    earlier = pod([0.0, 50.0, 50.0, 50.0, 50.0], "b", START)
    found = group_of([later, earlier])

    assert list(found.held) == [1, 1, 2, 2, 1]
    assert list(found.busy) == [0, 1, 2, 1, 1]
    assert found.start == earlier.times[0]
    assert found.busy_at(earlier.times[2] + 1) == 2
    assert found.busy_at(earlier.times[0] - 1) == 0


def test_a_fleet_without_rows_is_refused() -> None:
    """It has no interval of time to count by."""
    with pytest.raises(ValueError, match="two rows"):
        group_of([pod([1.0])])


def test_a_fleet_that_is_needed_at_its_peak_has_no_static_headroom() -> None:
    """Its low load at night does not matter."""
    assert static_headroom(group([0] * 90 + [20] * 10, 20)) < 0
    assert static_headroom(group([10] * 100, 23)) == pytest.approx(0.5)


def test_following_saves_the_night_and_is_short_when_all_come_at_once() -> None:
    """Shortage lasts the five minutes that a new replica takes, despite spare ones."""
    sudden = follow(group([1] * 60 + [20] * 60, 20), published(30, 1.2, 2))

    assert sudden.short_ratio == pytest.approx(5 / 120)
    assert 0.0 < sudden.saved_ratio < 0.5


def test_following_keeps_all_until_it_can_look_back() -> None:
    """Nothing is saved in the first 35 minutes."""
    assert follow(group([0] * 35, 20), published(30, 1.35, 5)).saved_ratio == 0.0
    assert follow(group([0] * 70, 20), published(30, 1.35, 5)).saved_ratio > 0.0


def test_a_printed_schedule_is_replayed_row_by_row() -> None:
    """From eight to eight all are kept, and for five minutes before."""
    spans = [
        {"from_hour": 20, "to_hour": 8, "replicas": 2},
        {"from_hour": 8, "to_hour": 20, "replicas": 10},
    ]
    planned = printed_schedule(replace(DIURNAL, evidence={"schedule": spans}))
    busy = [2] * (8 * 60 - 10) + [9] * 10 + [10] * (12 * 60) + [1] * (4 * 60)
    outcome = by_rows(group(busy, 10), planned)

    assert planned.replicas == (*[2] * 8, *[10] * 12, *[2] * 4)
    assert outcome.short_seconds == 10 * 60.0
    assert outcome.saved_mean * 24 == pytest.approx(8 * (12 - 1 / 12))
    assert by_rows(group(busy, 5), planned, 10).saved_ratio == pytest.approx(outcome.saved_ratio)


def test_a_fleet_is_one_case_of_the_pods_that_are_named(tmp_path: Path) -> None:
    """One service holds them; a repeated day lengthens the case."""
    trace = write_trace(
        tmp_path, {name: wave([(1, 0.0), (1, 30.0)]) for name in ("a", "b", "left out")}
    )
    once, twice = (fleet_case(trace, frozenset({"a", "b"}), days) for days in (1, 2))

    assert [device.uuid for device in once.devices] == ["a", "b"]
    assert once.workload is not None
    assert once.workload.name == "fleet"
    hours = [case.windows[0].states[State.PRODUCTIVE] / (60 * _MINUTE) for case in (once, twice)]
    assert hours == pytest.approx([1.0, 2.0], abs=0.06)


def test_the_verdict_needs_autoscaling_and_nothing_for_good() -> None:
    """This holds for every view of the fleet; an option that removes GPUs counts as a finding."""
    removing = finding(rule="gpu_count", action=Action.REDUCE_GPU_COUNT)
    hidden = finding(
        rule="sharing", options=(Option("fewer", Risk.LOW, action=Action.REDUCE_REPLICAS),)
    )

    assert "FAIL" not in verdict([[DIURNAL], [DIURNAL]])
    assert "is found: FAIL" in verdict([[DIURNAL], []])
    assert "FAIL: gpu_count" in verdict([[DIURNAL, removing]])
    assert "FAIL: sharing" in verdict([[DIURNAL, hidden]])


def test_a_fleet_that_sleeps_at_night_is_to_be_scaled(tmp_path: Path) -> None:
    """By the product's rules: five pods with a long night and a busy day, each its own hours."""
    fleet = {
        f"pod-{number}": wave([(10 + number, 0.0), (8, 40.0), (6 - number, 0.0)], 300)
        for number in range(5)
    }
    text = "\n".join(evaluate(write_trace(tmp_path, fleet, step_seconds=300)))

    assert "DiurnalAutoscale (autoscale)" in text
    assert "gpu_count" in text
    assert "what its sentence tells" in text
    assert "FAIL" not in text
