"""A run over the accounts: when a verdict may become advice, and when it still holds."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import case, findings, window
from readings import workload
from rightsizer.advice.engine import Cases, judge_all, judge_left
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.rules import RULES, hidden_stall, idle
from rightsizer.advice.rules.rule import Judgement, OpeningPolicy, Rule
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.finding import Case, Finding
from rightsizer.model.state import State, Tier
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.model.window import Window
from rightsizer.model.workload import Workload

JOB = workload()
DIRECT = (hidden_stall.RULE, idle.RULE)
STALL = State.HIDDEN_STALL
BUSY = State.PRODUCTIVE
UNKNOWN = State.UNKNOWN
HOUR_LONG = 3600 * NANOSECONDS_PER_SECOND
TEN_MINUTES = 600 * NANOSECONDS_PER_SECOND
STALLED = window({STALL: 1})
WORKING = window({BUSY: 1})


def spans(long: Window, short: Window) -> Cases:
    """Cases of one workload: the last hour, and the last ten minutes."""

    def cases(span: int | None) -> Sequence[Case]:
        assert span in (0, HOUR_LONG, TEN_MINUTES)
        return [case([long if span == HOUR_LONG else short], JOB)]

    return cases


def judge(long: Window, short: Window, *, is_open: bool = False) -> Judgement:
    """The judgement of the hidden stall rule, with its advice open or not."""
    open_now = {(JOB.key, "hidden_stall")} if is_open else set()
    (found,) = judge_all(spans(long, short), (hidden_stall.RULE,), open_now)
    return found


@pytest.mark.parametrize(
    ("long", "short", "may_open"),
    [
        (STALLED, STALLED, True),
        (STALLED, WORKING, False),
        (WORKING, STALLED, False),
        # Too little of the hour is known.
        (window({STALL: 0.8, UNKNOWN: 0.2}), STALLED, False),
        (window({STALL: 0.84, UNKNOWN: 0.16}), STALLED, True),
        # Too little confidence: less than half of the hour was covered.
        (window({STALL: 0.84, UNKNOWN: 1.0}), STALLED, False),
        (STALLED, window({UNKNOWN: 1}), False),
        (window({BUSY: 1}, tiers={Tier.BASIC: 1}), STALLED, False),
    ],
)
def test_long_and_short_spans_must_agree(
    long: Window,
    short: Window,
    may_open: bool,  # noqa: FBT001 - a case.
) -> None:
    """Long true, still true, well known and confident: then it opens."""
    assert judge(long, short).may_open == may_open


@pytest.mark.parametrize(
    ("share", "still_holds"), [(0.5, True), (0.3, True), (0.18, True), (0.179, False)]
)
def test_open_finding_holds_until_well_below_the_threshold(
    share: float,
    still_holds: bool,  # noqa: FBT001 - a case.
) -> None:
    """Opened at 0.3, closed below 0.6 of that: a load at the threshold does not flap."""
    short = window({STALL: share, BUSY: 1 - share})
    assert judge(WORKING, short, is_open=True).still_holds is still_holds
    assert judge(WORKING, short, is_open=True).may_open is False


def test_silence_neither_holds_nor_ends() -> None:
    """Ten unknown minutes neither support nor close open advice."""
    assert judge(STALLED, window({UNKNOWN: 1}), is_open=True).still_holds is None


def test_recent_time_is_looked_at_only_where_it_matters() -> None:
    """A workload without findings and advice costs one window."""
    asked: list[int | None] = []

    def cases(span: int | None) -> Sequence[Case]:
        asked.append(span)
        return [case([WORKING], JOB)]

    judge_all(cases, (hidden_stall.RULE,))
    assert asked == [0, HOUR_LONG]
    judge_all(cases, (hidden_stall.RULE,), {(JOB.key, "hidden_stall")})
    assert asked[2:] == [0, HOUR_LONG, TEN_MINUTES]


def test_every_rule_judges_every_workload_once() -> None:
    """Each span is requested once, however many rules use it."""
    asked: list[int | None] = []

    def cases(span: int | None) -> Sequence[Case]:
        asked.append(span)
        return [case([STALLED], JOB), case([STALLED], workload("other"))]

    judged = judge_all(cases)
    assert len(judged) == 2 * len(RULES)
    assert {(each.key, each.finding.rule) for each in judged} == {
        (key, rule.name) for key in (JOB.key, "slurm/other") for rule in RULES
    }
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize("missing", [HOUR_LONG, TEN_MINUTES])
def test_workload_may_leave_between_two_looks(missing: int) -> None:
    """Sampling continues during rules; a workload that just left closes and opens nothing."""
    other = workload("other")

    def cases(span: int | None) -> Sequence[Case]:
        stays = [case([STALLED], other)]
        return stays if span == missing else [*stays, case([STALLED], JOB)]

    judged = {each.key: each for each in judge_all(cases, (hidden_stall.RULE,))}
    assert judged[other.key].may_open
    assert JOB.key not in judged or not judged[JOB.key].may_open
    assert (JOB.key in judged) == (missing == TEN_MINUTES)


def test_findings_have_no_grace() -> None:
    """A minute is enough for a verdict, and every rule gives one, abstentions included."""
    short = window({STALL: 1 / 60})
    found = findings([case([short], JOB)])
    assert [each.rule for each in found] == [rule.name for rule in RULES]
    by_rule = {each.rule: each for each in found}
    assert by_rule["hidden_stall"].is_actionable
    assert by_rule["overprovisioned"].abstained is not None
    assert not judge(short, short).may_open


@pytest.mark.parametrize("tier", [Tier.PROFILING, Tier.POWER])
@pytest.mark.parametrize("minutes", [27, 30])
def test_idle_batch_job_is_reported_after_half_an_hour(tier: Tier, minutes: int) -> None:
    """Also without profiling counters, as on an A100 without DCGM."""
    idle = window({State.IDLE_HELD: minutes / 60}, tiers={tier: 1})
    judged = judge_all(lambda _: [case([idle], JOB)])
    ledger = Ledger()
    (event,) = ledger.update(judged, 0)
    assert event.advice.finding.rule == "idle"


def test_same_accounts_give_the_same_judgements() -> None:
    """Ids, confidence and summaries do not depend on chance."""
    assert judge_all(spans_of_all) == judge_all(spans_of_all)


def spans_of_all(_: int | None) -> Sequence[Case]:
    """A stalled workload and an idle one."""
    return [
        case([STALLED, WORKING], JOB),
        case([window({State.IDLE_HELD: 30})], workload("notebook")),
    ]


def test_permuting_workloads_permutes_judgements() -> None:
    """The judgement of one workload does not depend on the others."""
    forward = judge_all(spans_of_all)
    backward = judge_all(lambda span: spans_of_all(span)[::-1])
    assert sorted(forward, key=_place) == sorted(backward, key=_place)


def _place(judged: Judgement) -> tuple[str, str]:
    return judged.key, judged.finding.rule


@given(
    st.dictionaries(st.sampled_from(State), st.floats(0.0, 3.0), min_size=1),
    st.floats(0.0, 6.0),
)
def test_unknown_time_never_creates_advice(hours: dict[State, float], unknown: float) -> None:
    """A finding that may not open does not open because less is known."""
    less = {**hours, UNKNOWN: hours.get(UNKNOWN, 0.0) + unknown}
    before = judge_all(lambda _: [case([window(hours)], JOB)], DIRECT)
    after = judge_all(lambda _: [case([window(less)], JOB)], DIRECT)
    opening = {each.finding.rule for each in before if each.may_open}
    assert {each.finding.rule for each in after if each.may_open} <= opening


@given(
    st.dictionaries(st.sampled_from(State), st.floats(0.0, 30.0), min_size=1),
    st.sampled_from(Tier),
    st.sets(st.sampled_from([rule.name for rule in RULES]), max_size=3),
)
def test_what_was_not_flagged_is_counted(
    hours: dict[State, float], tier: Tier, rules: set[str]
) -> None:
    """Complaints and verdicts on open advice stay whole, and each of the others counts once."""
    cases = [case([window(hours, tiers={tier: 1})], JOB)]
    open_now = frozenset((JOB.key, rule) for rule in rules)
    counted: list[Finding] = []
    whole = judge_all(lambda _: cases, RULES, open_now)
    by_key = {each.key: each for each in cases}
    kept = judge_left(
        lambda key, _: by_key[key],
        lambda _: cases,
        RULES,
        open_now,
        count=counted.append,
        keeps_all=False,
    )
    assert kept == tuple(
        each for each in whole if each.finding.is_actionable or each.finding.rule in rules
    )
    assert list(map(_kind, counted)) == [_kind(each.finding) for each in whole]


def _kind(finding: Finding) -> tuple[object, ...]:
    return finding.rule, finding.kind, finding.reasons[:1], finding.abstained


class FlawedError(RuntimeError):
    """An error raised by a faulty rule."""


def broken(what: str) -> Rule[hidden_stall.HiddenStallSettings]:
    """The hidden stall rule with a fault for JOB alone."""

    def judge(subject: CaseSubject, settings: hidden_stall.HiddenStallSettings) -> Finding:
        if what == "judge" and subject.case.key == JOB.key:
            raise FlawedError(what)
        return replace(hidden_stall.judge(subject, settings), rule="broken")

    def conduct(
        owner: Workload | None, settings: hidden_stall.HiddenStallSettings
    ) -> OpeningPolicy:
        if what == "conduct" and owner == JOB:
            raise FlawedError(what)
        return settings.conduct

    return Rule("broken", hidden_stall.RULE.settings, judge, opening_policy_with=conduct)


@pytest.mark.parametrize("what", ["judge", "conduct"])
def test_a_rule_that_raises_costs_its_own_verdict_only(what: str) -> None:
    """The error is reported; other rules judge, and the rule's open advice stays open."""
    failures: list[tuple[str, str, str]] = []

    def failed(rule: str, key: str, error: Exception) -> None:
        failures.append((rule, key, str(error)))

    cases = [case([STALLED], JOB), case([STALLED], workload("other"))]
    rules = (broken(what), idle.RULE)
    judged = judge_all(lambda _: cases, rules, failed=failed)
    assert failures == [("broken", JOB.key, what)]
    assert [(each.key, each.finding.rule) for each in judged] == [
        (JOB.key, "broken"),
        ("slurm/other", "broken"),
        (JOB.key, "idle"),
        ("slurm/other", "idle"),
    ]
    silent, other = judged[:2]
    assert (silent.may_open, silent.still_holds) == (False, None)
    assert silent.finding.abstained is not None
    assert other.may_open


def test_accounts_that_raise_are_no_fault_of_a_rule() -> None:
    """Nothing is claimed without data."""

    def cases(span: int | None) -> Sequence[Case]:
        if span:
            raise FlawedError(str(span))
        return [case([STALLED], JOB)]

    with pytest.raises(FlawedError):
        judge_all(cases, (hidden_stall.RULE,), failed=lambda *_: None)
