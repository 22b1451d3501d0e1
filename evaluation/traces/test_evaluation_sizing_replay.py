"""Sizing by rolling replay, over traces with a known answer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from evaluation.traces.fleet_trace import closed_windows, pods
from evaluation.traces.sample_trace import START, pod, wave, write_trace
from evaluation.traces.sizing_replay import (
    BASELINES,
    OURS,
    Score,
    Sizer,
    chosen,
    evaluate,
    needs_of,
    scores_of,
)
from rightsizer.accounting.node_accounts import CURRENT_WINDOW, NodeAccounts
from rightsizer.accounting.settings import ProvisioningSettings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.state import Resource
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.recordings.source import open_recording

_HOUR: Final = 3600 * NANOSECONDS_PER_SECOND
_NOON: Final = START * NANOSECONDS_PER_SECOND + 12 * _HOUR
SAWTOOTH: Final = tuple(float(place % 50 + 1) for place in range(12 * 60))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Half a day of a pod that uses up to half a GPU, and of one that never works."""
    return write_trace(tmp_path, {"asleep": wave([(12, 0.0)]), "awake": SAWTOOTH})


def test_pods_are_read_one_by_one(trace: Path) -> None:
    """Rows are in order, as ratios."""
    first, second = pods(trace)

    assert (first.name, second.name) == ("asleep", "awake")
    assert second.duties[:3] == (0.01, 0.02, 0.03)
    assert first.are_busy[:2] == (False, False)
    assert second.times[1] - second.times[0] == 60 * NANOSECONDS_PER_SECOND


def test_our_need_is_the_one_that_the_accounts_publish(trace: Path) -> None:
    """The replay reads windows, the gauge the accounts; both agree."""
    needs = needs_of(closed_windows(trace), [Sizer(OURS)])[OURS]
    *_, last = sorted(needs)

    assert needs[last] == pytest.approx(_published(trace, last[1]))


def _published(trace: Path, until: Nanoseconds) -> float | None:
    columns = Path(__file__).parents[2] / "config" / "columns" / "alibaba-genai-2026.yaml"
    accounts = NodeAccounts()
    source = open_recording(
        [trace / "gpu_duty_cycle_pct.csv.gz"], catalogue=built_in(), columns=columns
    )
    while (snapshot := source.read()) is not None and snapshot.wall_time <= until:
        accounts.post(snapshot)
    accounts.post(snapshot) if snapshot is not None else None
    source.close()
    return accounts.provisioning("awake")[CURRENT_WINDOW].resources[Resource.COMPUTE].need


def test_nothing_is_said_within_the_warm_up_or_without_work(trace: Path) -> None:
    """The warm-up is six hours; a pod without work has no demand."""
    needs = needs_of(closed_windows(trace), [Sizer(OURS)])[OURS]

    assert {name for name, _ in needs} == {"awake"}
    assert min(hour for _, hour in needs) == _NOON - 6 * _HOUR


def test_a_larger_margin_never_violates_more(trace: Path) -> None:
    """It leaves more slack."""
    sizers = [
        Sizer(f"{margin}", provisioning=ProvisioningSettings(margin_ratio=margin))
        for margin in (0.0, 0.2)
    ]
    scores, _ = scores_of(pods(trace), needs_of(closed_windows(trace), sizers))

    assert scores["0.2"].violation_ratio <= scores["0.0"].violation_ratio
    assert scores["0.2"].slack_ratio == pytest.approx(scores["0.0"].slack_ratio + 0.1, abs=0.01)


def test_silent_hours_are_counted_and_judge_nobody(trace: Path) -> None:
    """If one estimator is silent, all are omitted."""
    scores, silent = scores_of(pods(trace), needs_of(closed_windows(trace), [Sizer(OURS)]))

    assert silent == 6
    assert {score.hours for score in scores.values()} == {6}


@pytest.mark.parametrize(
    ("name", "need"),
    [
        ("mean x 1.2", 1.2 * 0.505),
        ("KRR-like: P95 x 1.15", 1.15 * 0.96),
        ("AWS-like: P99.5 x 1.2", 1.2 * 1.0),
        ("max x 1.15", 1.15),
        ("Kruize-like, cost: P60 of 15-min max", 0.75),
        ("Kruize-like, performance: P98 of 15-min max", 1.0),
    ],
)
def test_baselines_do_as_they_say(name: str, need: float) -> None:
    """A hundred minutes rise from 1% to 100%."""
    ramp = pod(range(1, 101))
    rows = tuple(zip(ramp.times, ramp.duties, strict=True))

    assert BASELINES[name](rows) == pytest.approx(need)


def test_the_fading_baseline_forgets() -> None:
    """With a half-life of a day, the need of two days ago is still in its P90."""
    name = next(baseline for baseline in BASELINES if baseline.startswith("VPA"))
    busy_first = pod(wave([(24, 80.0), (72, 10.0)], 3600), step=3600)
    rows = tuple(zip(busy_first.times, busy_first.duties, strict=True))

    assert BASELINES[name](rows[:30]) == pytest.approx(1.15 * 0.8)
    assert BASELINES[name](rows) == pytest.approx(1.15 * 0.1)


def test_a_score_counts_rows_hours_and_slack() -> None:
    """A need of half a GPU is compared with an hour that exceeds it once in ten."""
    score = Score()
    score.add(0.5, [0.4] * 9 + [0.9])

    assert score.violation_ratio == pytest.approx(0.1)
    assert score.bad_hour_ratio == 1.0
    assert score.slack_ratio == pytest.approx(0.05)


def test_settings_are_the_tightest_of_those_that_are_safer_than_others() -> None:
    """The limit is three quarters of the AWS-like rule's violations; else the safest is chosen."""

    def scored(percents: list[tuple[int, float]], aws: int) -> dict[str, Score]:
        shares = (0.99, 0.993, 0.995, 0.998, 0.999)
        return {
            f"quick quantile {share:g}": Score(rows=100, violations=few, slack=slack)
            for share, (few, slack) in zip(shares, percents, strict=True)
        } | {"AWS-like: P99.5 x 1.2": Score(rows=100, violations=aws)}

    course = [(9, 50.0), (7, 55.0), (6, 60.0), (4, 65.0), (2, 70.0)]
    assert chosen(scored(course, aws=8)) == "quick quantile 0.995"
    assert chosen(scored(course, aws=2)) == "quick quantile 0.999"


def test_the_whole_evaluation_says_who_is_better(tmp_path: Path) -> None:
    """The verdict covers both halves, which an even load passes or fails by its own values."""
    fleet = {"asleep": wave([(12, 0.0)]), "awake": SAWTOOTH, "awake too": SAWTOOTH}
    text = "\n".join(evaluate(write_trace(tmp_path, fleet)))

    assert "12 hours of pods" in text
    assert "in 6 more we said nothing" in text
    assert "chosen on the other half" in text
    assert "margin 0.15" in text
    assert "FAIL." in text or "pass." in text


def test_a_short_trace_is_no_reason_to_fail(tmp_path: Path) -> None:
    """The report says that no pod could be sized."""
    lines: Iterator[str] = evaluate(write_trace(tmp_path, {"a": wave([(1, 20.0)])}))

    assert list(lines) == ["No pod was seen for long enough to be sized.\n"]
