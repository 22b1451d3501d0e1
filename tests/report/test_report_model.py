"""The report's numbers: they sum up, and unknown values are shown."""

from collections.abc import Mapping
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import finding
from readings import DAY, EPOCH, HOUR, gpu
from report_samples import RATE, device_facts, report_facts
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import Savings
from rightsizer.model.state import Cause, State, UnknownReason
from rightsizer.model.units import number_text
from rightsizer.report.builder import report_model
from rightsizer.report.figures import dollars, percent, span_text
from rightsizer.report.labels import StateGroup, confidence_label, reason_label
from rightsizer.report.model import UsageAmount, summed
from rightsizer.report.summary import saved_text, summary_of

HOURS = st.dictionaries(st.sampled_from(list(State)), st.integers(0, 2), max_size=11)


@given(st.lists(HOURS, max_size=3), st.lists(HOURS, max_size=3))
def test_groups_and_days_sum_to_all_of_the_time(
    one: list[Mapping[State, float]], other: list[Mapping[State, float]]
) -> None:
    """This holds by device, for all, and by day, and includes unknown time."""
    devices = (device_facts(gpu(0), one), device_facts(gpu(1), other))
    model = report_model(report_facts(devices=devices, workloads=()))
    summary = model.summary

    assert summary.total.gpu_hours == pytest.approx(2 * 72)
    assert sum(summary.groups.values()) == pytest.approx(summary.total.gpu_hours)
    assert sum(sum(day.groups.values()) for day in model.days) == pytest.approx(2 * 72)
    for row in model.devices:
        assert sum(row.groups.values()) == pytest.approx(row.total.gpu_hours)
    known = sum(summary.states.values()) - summary.states.get(State.UNKNOWN, 0.0)
    assert summary.known_hours == pytest.approx(known)
    assert model.span.coverage_ratio == pytest.approx(known / 144)


def test_a_day_is_as_long_as_the_clocks_make_it() -> None:
    """In Berlin the 29th of March 2026 has 23 hours."""
    noon = EPOCH + 86 * DAY + 12 * HOUR
    facts = report_facts(
        since=noon,
        until=noon + 2 * DAY,
        devices=(device_facts(gpu(0), []),),
        timezone=ZoneInfo("Europe/Berlin"),
    )
    model = report_model(facts)

    assert [(day.date, day.groups[StateGroup.NO_DATA]) for day in model.days] == [
        ("2026-03-28", 11),
        ("2026-03-29", 23),
        ("2026-03-30", 14),
    ]


def test_causes_sum_to_what_went_unused() -> None:
    """The unit is GPU-hours, kWh or money; used and unused sum to the known."""
    model = report_model(report_facts())
    summary = model.summary
    causes = summed(row.wasted for row in model.causes if row.cause != Cause.HEADROOM)

    assert causes.gpu_hours == pytest.approx(summary.wasted.gpu_hours)
    assert causes.dollars_high == pytest.approx(summary.wasted.dollars_high)
    assert sum(row.wasted.gpu_hours for row in model.devices) == pytest.approx(causes.gpu_hours)
    parts = summed((summary.used, summary.wasted, summary.left_over))
    whole = parts.gpu_hours + summary.unattributed_hours
    assert whole == pytest.approx(summary.known_hours)


def test_a_part_of_a_gpu_counts_as_its_part() -> None:
    """A MIG instance of an eighth has an eighth of the hours and of the money."""
    row = report_model(report_facts()).devices[2]

    assert row.total.gpu_hours == pytest.approx(72 / 8)
    assert row.total.dollars_low == pytest.approx(72 / 8 * RATE.dollars_per_hour_low)
    assert row.waste_hours == {Cause.HEADROOM: pytest.approx(40 / 8)}
    assert row.wasted.gpu_hours == 0.0


def test_unmeasured_value_has_no_sum() -> None:
    """If one device has no price or no energy, the total has none."""
    facts = report_facts()
    unpriced = replace(facts.devices[1], rate=None)
    model = report_model(replace(facts, devices=(facts.devices[0], unpriced)))

    assert model.summary.wasted.dollars_low is None
    assert model.devices[0].wasted.dollars_low is not None
    assert report_model(facts).devices[2].total.kilowatt_hours is None
    assert summed([]) == UsageAmount(0.0, 0.0, 0.0, 0.0, 0.0)


def test_a_parent_of_instances_has_no_time_of_its_own() -> None:
    """It only has the time before it was partitioned."""
    parent = device_facts(gpu(0, has_mig_instances=True), [{State.PRODUCTIVE: 5}])
    row = report_model(report_facts(devices=(parent,))).devices[0]

    assert row.total.gpu_hours == pytest.approx(5)
    assert row.coverage_ratio == 1


def test_advice_is_ranked_by_what_it_saves() -> None:
    """Money comes first; an alternative to a larger saving is not counted twice."""
    cheap = Savings(0.5, 0.5, 1.0, 1.0)
    dear = Savings(1.0, 1.0, 2.0, 4.0)
    found = [
        finding(id="a", savings=cheap, exclusive_group="g"),
        finding(id="b", savings=dear, exclusive_group="g"),
        finding(id="c", savings=Savings(reason="none")),
    ]
    advice = tuple(Advice(each, AdviceState.ACTIVE, EPOCH, EPOCH) for each in found)
    model = report_model(report_facts(advice=advice))

    assert [row.id for row in model.advice] == ["b", "a", "c"]
    assert model.summary.savings.gpus_high == 1.0
    assert model.summary.savings.dollars_per_month_high == pytest.approx(4 * 730)


def test_advice_stands_at_the_end_of_the_span() -> None:
    """Later ones are not included, and those that closed later count as open."""
    late = Advice(finding(id="a"), AdviceState.ACTIVE, EPOCH + 9 * DAY, EPOCH + 9 * DAY)
    closed = Advice(
        finding(id="b"), AdviceState.EXPIRED, EPOCH, EPOCH + 9 * DAY, closed=EPOCH + 9 * DAY
    )
    facts = report_facts(advice=(late, closed), history_end=EPOCH + 10 * DAY)
    model = report_model(facts)

    assert [row.id for row in model.advice] == ["b"]
    assert model.outcomes == ()


def test_what_was_dismissed_after_the_end_of_the_history_is_not_open() -> None:
    """Nothing was recorded since, so that the report is of now: it is an outcome."""
    dismissed = Advice(
        finding(id="b"), AdviceState.DISMISSED, EPOCH, EPOCH + 9 * DAY, closed=EPOCH + 9 * DAY
    )
    model = report_model(report_facts(advice=(dismissed,)))

    assert model.advice == ()
    assert model.summary.open_advice == 0
    assert [row.id for row in model.outcomes] == ["b"]


def test_advice_that_closed_with_the_span_is_not_open() -> None:
    """It is only among the outcomes."""
    end = report_facts().until
    closed = Advice(finding(id="b"), AdviceState.EXPIRED, EPOCH, end, closed=end)
    model = report_model(report_facts(advice=(closed,)))

    assert ([row.id for row in model.advice], [row.id for row in model.outcomes]) == ([], ["b"])


def test_failed_advice_is_reported_with_the_rest() -> None:
    """The measured effect and the reason are shown; latest first."""
    model = report_model(report_facts())

    assert [(row.state, row.realized_gpu_hours) for row in model.outcomes] == [
        ("succeeded", 12.5),
        ("failed", 0.0),
    ]
    assert model.outcomes[0].realized_dollars_high == pytest.approx(12.5 * 4)
    assert any("2 paid off and 1 did not" in line for line in summary_of(model))


def test_a_strip_is_what_the_device_mostly_did() -> None:
    """It has a cell an hour while there is room, and gaps without data."""
    strip = report_model(report_facts()).devices[1].strip

    assert strip.cell_hours == 1
    assert len(strip.cells) == 72
    assert set(strip.cells[:36]) == {StateGroup.HELD}
    assert set(strip.cells[36:48]) == {StateGroup.NO_DATA}
    assert set(strip.cells[48:68]) == {StateGroup.FREE}
    many = tuple(device_facts(gpu(index), []) for index in range(64))
    cells = report_model(report_facts(devices=many, until=EPOCH + 30 * DAY)).devices[0].strip
    assert cells.cell_hours * len(cells.cells) >= 720
    assert 64 * len(cells.cells) <= 5760


def test_the_longest_gaps_come_first() -> None:
    """Ten of them are listed, with the number of others."""
    gap = report_facts().gaps[0]
    gaps = [replace(gap, start=gap.end - (place + 1) * 3600.0) for place in range(12)]
    health = report_model(report_facts(gaps=tuple(gaps))).health

    assert health.gaps[0].end - health.gaps[0].start == 12 * 3600
    assert (len(health.gaps), health.further_gaps) == (10, 2)


def test_the_story_says_why_time_is_not_known() -> None:
    """The last sentence has the reason, where one is known."""
    model = report_model(report_facts())
    health = replace(model.health, unknown_reasons={UnknownReason.NO_READING: 12.0})
    *_, last = summary_of(replace(model, health=health))

    assert "of GPU time nothing is (12 h: nothing was read), and none" in last


def test_the_story_says_when_nothing_is_to_do() -> None:
    """It also says when use is unknown."""
    busy = device_facts(gpu(0), [{State.PRODUCTIVE: 24}] * 3)
    lines = list(summary_of(report_model(report_facts(devices=(busy,), advice=(), rules=()))))

    assert "No recommendation is open, and no rule has a finding over the span." in lines
    assert any(line.startswith("How much of the GPUs was used is not known") for line in lines)
    assert lines[-1] == "All of the span is known."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (percent(0.001), "<1%"),
        (percent(0.999), ">99%"),
        (percent(None), "not known"),
        (number_text(0.01), "<0.1"),
        (number_text(0.0), "0"),
        (number_text(1234.4), "1,234"),
        (dollars(None, None), "not known"),
        (dollars(0.0, 3.5), "up to $3.50"),
        (dollars(1234.0, 56789.0), "$1,230 to $56,800"),
        (dollars(2.0, 2.0), "$2.00"),
        (span_text(0.0, 0.9), "up to 0.9"),
        (span_text(1.0, 2.0), "1 to 2"),
        (confidence_label(0.95), "almost certain"),
        (confidence_label(0.3), "uncertain"),
        (reason_label("RuleOfOnesOwn"), "RuleOfOnesOwn"),
        (reason_label("GpuMemoryUnderprovisioned"), "Short of GPU memory"),
    ],
)
def test_figures_say_no_more_than_is_known(text: str, expected: str) -> None:
    """Digits are limited to the certain ones."""
    assert text == expected


def test_savings_without_a_figure_say_why() -> None:
    """0 is never shown instead."""
    rows = report_model(report_facts()).advice

    assert saved_text(rows[0].savings) == "$2,190 ($1,460 to $2,920) a month, 1 GPU"
    assert saved_text(rows[1].savings) == "n/a (it needs a larger GPU)"


def test_waste_is_by_cause_and_device() -> None:
    """GPU 1 was idle, and has the largest part."""
    model = report_model(report_facts())

    assert model.causes[0].cause == Cause.IDLE
    assert model.workloads[0].main_cause == Cause.IDLE
