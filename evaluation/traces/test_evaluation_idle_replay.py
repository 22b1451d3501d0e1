"""Idle windows and the published probability of resuming, over made-up rows."""

from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from evaluation.traces.fleet_group import Group, group_of
from evaluation.traces.fleet_trace import BUSY_RATIO, closed_windows
from evaluation.traces.idle_calibration import IdleWindows
from evaluation.traces.idle_replay import RULES_OF_OTHERS, evaluate, tallies
from evaluation.traces.reclaim import MINUTE, Kind, Tally, WatchedIdleness, quiet_times
from evaluation.traces.resume_replay import Spell, calibration, forecasts, spells_of
from evaluation.traces.sample_trace import START, pod, wave, write_trace
from rightsizer.model.block import BLOCK_SPAN, Block
from rightsizer.model.workload import WorkloadClass

GAP: Final = 3 * MINUTE
HALF_HOUR: Final = partial(quiet_times, below=BUSY_RATIO, window=30 * MINUTE, gap=GAP)


def minutes(*parts: tuple[int, float]) -> list[float]:
    """Percentages by minute."""
    return list(chain.from_iterable([percent] * length for length, percent in parts))


def blocks(*parts: tuple[int, float], start: int = START * 10**9) -> list[Block]:
    """Five-minute blocks with the given number for each mean."""
    means = minutes(*parts)
    return [
        Block(start + place * BLOCK_SPAN, 300.0, mean, mean) for place, mean in enumerate(means)
    ]


def test_a_window_is_quiet_once_it_was_quiet_for_long_enough() -> None:
    """It lasts from the row that completes it until work or a gap in the rows."""
    quiet = pod(minutes((35, 0.5), (1, 5.0), (31, 0.0)))
    times = [(time - quiet.times[0]) // MINUTE for time in HALF_HOUR(quiet)]

    assert times == [30, 31, 32, 33, 34, 66]


def test_a_hole_in_the_rows_is_no_quiet_time() -> None:
    """Activity in a gap is unknown."""
    rows = pod(minutes((10, 0.0)), step=600)

    assert list(HALF_HOUR(rows)) == []


@pytest.mark.parametrize(
    ("rest", "right", "wrong"), [(29, 0, 1), (40, 1, 0)], ids=["resumes soon", "stays idle"]
)
def test_an_action_is_judged_by_the_next_half_hour(rest: int, right: int, wrong: int) -> None:
    """The pod is reclaimed until it resumes."""
    rows = pod(minutes((5, 50.0), (30 + rest, 0.0), (10, 50.0)))
    tally = Tally()
    acted = tally.add(rows, HALF_HOUR(rows), armed=30 * MINUTE)

    assert [(time - rows.times[0]) // MINUTE for time in acted] == [35]
    assert (tally.right, tally.wrong) == (right, wrong)
    assert tally.reclaimed == rest * MINUTE
    assert tally.precision == float(right)


def test_time_after_the_trace_is_not_judged() -> None:
    """The trace ends ten minutes after the action; these minutes count as reclaimed."""
    rows = pod(minutes((5, 50.0), (41, 0.0)))
    tally = Tally()
    tally.add(rows, HALF_HOUR(rows), armed=30 * MINUTE)

    assert (tally.actions, tally.right, tally.wrong, tally.precision) == (1, 0, 0, None)
    assert tally.reclaimed == 10 * MINUTE


def test_a_pod_that_resumed_is_new_to_the_rule() -> None:
    """The next action waits until it is as old as the rule requires."""
    rows = pod(minutes((40, 0.0), (1, 50.0), (29, 0.0), (1, 50.0), (60, 0.0)))
    tally = Tally()
    acted = tally.add(rows, HALF_HOUR(rows), armed=30 * MINUTE)

    assert [(time - rows.times[0]) // MINUTE for time in acted] == [30, 101]


def test_actions_beside_working_pods_are_counted() -> None:
    """One of two pods sleeps; idle time is counted over both."""
    fleet = [pod(minutes((120, 0.0)), "asleep"), pod(minutes((120, 50.0)), "awake")]
    rules = {"30 min": (HALF_HOUR, 30 * MINUTE)}
    found, idle, there = tallies(fleet, group_of(fleet), rules)

    assert found["30 min"].actions == found["30 min"].elsewhere_busy == 1
    assert found["30 min"].right == 1
    assert (idle / MINUTE, there / MINUTE) == (119, 238)


def test_others_act_on_what_they_call_idle() -> None:
    """gpu-pruner requires no activity at all, dstack allows a little."""
    little = pod(minutes((180, 5.0)))
    acting = {
        name: any(quiet_times(little, rule.below_ratio, rule.window, GAP))
        for name, rule in RULES_OF_OTHERS.items()
    }

    assert list(acting.values()) == [False, True]


def test_our_rule_speaks_once_its_class_was_patient(tmp_path: Path) -> None:
    """It is the product's own, over closed accounting windows: a service waits for two hours."""
    trace = write_trace(tmp_path, {"a": minutes((60, 50.0), (240, 0.0))})
    kinds = [Kind(WorkloadClass.SERVING, 1.0), Kind(WorkloadClass.BATCH, 1.0)]
    watched = WatchedIdleness(kinds)
    for window in chain.from_iterable(closed_windows(trace)):
        watched.add(window)
    first = [min(watched.times[kind, "a"]) // 10**9 - START for kind in kinds]

    assert first == [(60 + 120) * 60, (60 + 30) * 60]
    assert [kind.patience // MINUTE for kind in kinds] == [120, 30]
    assert watched.sure[kinds[0]] > 0, "what is wholly idle is surely idle for nine tenths"


def test_our_rule_is_silent_while_there_is_work(tmp_path: Path) -> None:
    """The least work suffices."""
    watched = WatchedIdleness([Kind(WorkloadClass.BATCH)])
    for window in chain.from_iterable(
        closed_windows(write_trace(tmp_path, {"a": minutes((180, 2.0))}))
    ):
        watched.add(window)

    assert watched.times == {}


def test_idle_times_end_with_work_or_are_cut_off() -> None:
    """They are cut off at the end of the trace, or at a missing block."""
    first = blocks((2, 0.5), (3, 0.0), (1, 0.5), (2, 0.0))
    later = blocks((1, 0.0), (1, 0.5), start=first[-1].start + 3 * BLOCK_SPAN)
    found = spells_of([*first, *later])

    assert [((each.end - each.start) // BLOCK_SPAN, each.has_ended) for each in found] == [
        (3, True),
        (2, False),
        (1, True),
    ]


@pytest.mark.parametrize(
    ("length", "has_ended", "expected"),
    [(50, True, True), (60, True, True), (61, True, False), (70, False, False), (50, False, None)],
)
def test_outcome_of_a_forecast(length: int, has_ended: bool, expected: bool | None) -> None:  # noqa: FBT001
    """After half an hour of idleness; an unseen end is unknown."""
    assert Spell(0, length * MINUTE, has_ended).outcome(30 * MINUTE) is expected


def test_repeated_idle_times_improve_the_forecast() -> None:
    """Five idle times of 40 minutes each make the next one's end more likely."""
    regular = blocks(*[(2, 0.5), (8, 0.0)] * 5, (1, 0.5))
    found = list(forecasts({"a": regular}, by_others=False, by_own=True))
    said = [each.probability_ratio for each in found]

    assert len(said) == 5
    assert said == sorted(set(said))
    assert all(each.has_resumed for each in found)


def test_a_pod_without_a_past_is_forecast_by_others() -> None:
    """Its own fold is never used."""
    quick = blocks(*[(2, 0.5), (7, 0.0)] * 30, (1, 0.5))
    new = blocks((1, 0.5), (8, 0.0), (1, 0.5))
    (alone,) = forecasts({"new": new}, by_others=True, by_own=True)
    *_, beside = forecasts({"a": quick, "new": new}, by_others=True, by_own=True)

    assert beside.probability_ratio > alone.probability_ratio


def test_calibration_names_what_is_said_and_what_happens() -> None:
    """Five forecasts came true."""
    text = "\n".join(calibration({"a": blocks(*[(2, 0.5), (8, 0.0)] * 5, (1, 0.5))}))

    own = next(line for line in text.splitlines() if line.startswith("| its own past, on other"))
    cells = [cell.strip() for cell in own.split("|")[1:-1]]
    assert (cells[1], cells[3]) == ("5", "1.00")


def test_the_whole_evaluation_compares_rules(tmp_path: Path) -> None:
    """A pod sleeps through half a day: all rules are right, patient ones later."""
    trace = write_trace(tmp_path, {"a": wave([(4, 30.0), (8, 0.0)])})
    text = "\n".join(evaluate(trace))

    rows = {line.split("|")[1].strip(): line for line in text.splitlines() if "|" in line}
    for name in ("idle for 30 min", "idle for 120 min", "gpu-pruner: 0 for 30 min"):
        assert [cell.strip() for cell in rows[name].split("|")[2:4]] == ["1", "1.00"]
    assert "Rightsizer, serving: 99% of 120 min idle" in rows


def test_a_group_counts_busy_pods_at_any_time() -> None:
    """Before its beginning there are none."""
    found = Group(100, 10, [1, 1], [0, 1])

    assert [found.busy_at(time) for time in (99, 105, 119, 500)] == [0, 0, 1, 1]


def test_idle_times_are_counted_with_what_followed_them(tmp_path: Path) -> None:
    """Of a pod that rests for two hours, those of its last half hour are followed by work."""
    calibrated = IdleWindows()
    write_trace(tmp_path, {"a": minutes((60, 80.0), (120, 0.0), (60, 80.0))})
    for closed in closed_windows(tmp_path):
        for window in closed:
            calibrated.add(window)
    ((windows, resumed),) = {each for each in calibrated.counts(30 * MINUTE, 1.0) if each[0]}
    assert windows > resumed > 0
    assert resumed <= 6
