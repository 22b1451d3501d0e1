"""Due recommendations follow from the true states by a rule's definition."""

from typing import Final

from msgspec.structs import replace

from evaluation.advice.claims import CLAIMS, Claim
from evaluation.advice.labels import EVERYWHERE, Label, Labels
from evaluation.advice.truth import BORDERLINE, FALSE, TRUE, Timeline
from evaluation.options import SCENARIOS
from evaluation.simulated_day import Truth
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.idle import RULE
from rightsizer.model.finding import Reason
from rightsizer.model.state import Condition, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind
from rightsizer.simulator.packaged import packaged_scenarios

MINUTE: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND
BUSY: Final[Truth] = (State.COMPUTE_BOUND, frozenset())
IDLE_TRUTH: Final[Truth] = (State.IDLE_HELD, frozenset())
LOST: Final[Truth] = (State.UNKNOWN, frozenset())
IDLE: Final = RULE.with_settings(replace(RULE.settings, on_ratio=0.9))
JOB: Final = Workload("job", WorkloadKind.SLURM, "job", WorkloadClass.BATCH)


def claim_of(rule: str) -> Claim:
    """Claim of a rule."""
    return next(claim for claim in CLAIMS if claim.rule == rule)


def timeline_of(
    *stretches: tuple[int, tuple[Truth, ...]], holder: Workload | None = JOB
) -> Timeline:
    """A timeline of minutes with a true state for each device."""
    timeline = Timeline()
    now = 0
    for minutes, truths in stretches:
        for _ in range(minutes):
            named = {f"GPU-{at}": truth for at, truth in enumerate(truths)}
            timeline.add(now * MINUTE, named, dict.fromkeys(named, holder) if holder else {})
            now += 1
    return timeline


def verdict(timeline: Timeline, rule: str = "idle") -> str:
    """Verdict on the only subject."""
    (subject,) = timeline.subjects()
    return timeline.verdict(claim_of(rule), IDLE, subject, 0)


def test_advice_is_due_once_the_span_is_idle() -> None:
    """A batch job may be idle for half an hour; nine tenths of that must be known."""
    assert verdict(timeline_of((40, (IDLE_TRUTH,)))) == TRUE
    assert verdict(timeline_of((20, (IDLE_TRUTH,)))) == BORDERLINE
    assert verdict(timeline_of((40, (BUSY,)))) == FALSE


def test_all_devices_must_be_idle() -> None:
    """One active device makes the whole workload active."""
    assert verdict(timeline_of((40, (IDLE_TRUTH, IDLE_TRUTH)))) == TRUE
    assert verdict(timeline_of((40, (IDLE_TRUTH, BUSY)))) == FALSE


def test_near_the_threshold_nobody_is_blamed() -> None:
    """The border is nine tenths, plus or minus a hundredth."""
    mixed = timeline_of((60, (IDLE_TRUTH,)), (3, (BUSY,)), (57, (IDLE_TRUTH,)), (3, (BUSY,)))
    assert verdict(mixed) == BORDERLINE


def test_finding_that_is_over_is_not_due() -> None:
    """The short span decides as well."""
    (subject,) = (timeline := timeline_of((50, (IDLE_TRUTH,)), (15, (BUSY,)))).subjects()
    assert timeline.verdict(claim_of("idle"), IDLE, subject, 0) == FALSE


def test_unknown_time_makes_nothing_due() -> None:
    """A lost GPU is not idle."""
    assert verdict(timeline_of((10, (IDLE_TRUTH,)), (60, (LOST,)))) != TRUE


def test_a_new_holder_starts_again() -> None:
    """Idle time before the job is not the job's."""
    timeline = timeline_of((60, (IDLE_TRUTH,)), holder=None)
    timeline.add(60 * MINUTE, {"GPU-0": BUSY}, {"GPU-0": JOB})
    assert verdict(timeline) == FALSE
    assert [subject.name for subject in timeline.subjects()] == ["job"]


def test_a_short_absence_is_no_end() -> None:
    """Ten minutes without a process are allowed by docs/definitions.md."""
    timeline = timeline_of((60, (IDLE_TRUTH,)))
    for minute in range(60, 68):
        timeline.add(minute * MINUTE, {"GPU-0": IDLE_TRUTH}, {})
    assert [subject.key for subject in timeline.subjects()] == ["job"]
    for minute in range(68, 75):
        timeline.add(minute * MINUTE, {"GPU-0": IDLE_TRUTH}, {})
    assert [subject.key for subject in timeline.subjects()] == ["GPU-0"]


def test_limits_are_shares_of_the_active_time() -> None:
    """Half an hour of storage waits in an hour of work counts, despite a day of rest."""
    stored: Truth = (State.STORAGE_BOUND, frozenset())
    timeline = timeline_of((100, (IDLE_TRUTH,)), (30, (stored,)), (30, (BUSY,)))
    (subject,) = timeline.subjects()
    share = timeline.share(claim_of("storage_bound"), subject, 6 * 3600.0, 0)
    assert share.ratio == 0.5
    assert 0.18 < share.of_all_ratio < 0.2


def test_a_standby_is_never_due() -> None:
    """It is meant to be idle."""
    standby = replace(JOB, workload_class=WorkloadClass.STANDBY)
    assert verdict(timeline_of((300, (IDLE_TRUTH,)), holder=standby)) == FALSE


def test_each_claim_is_of_one_rule_and_of_reasons_of_its_own() -> None:
    """Otherwise an opening would have two expected results."""
    reasons = [reason for claim in CLAIMS for reason in claim.reasons]
    assert len(reasons) == len(set(reasons))
    assert all(not claim.reasons & claim.instead for claim in CLAIMS)
    assert {claim.rule for claim in CLAIMS} >= {"idle", "hidden_stall", "near_out_of_memory"}
    assert any(
        claim.holds(State.PRODUCTIVE, frozenset({Condition.NUMA_MISPLACED})) for claim in CLAIMS
    )
    assert {rule.name for rule in RULES} & {claim.rule for claim in CLAIMS}


def test_labels_name_scenarios_that_exist() -> None:
    """A label that is never read would have no effect."""
    known = {path.stem for path in SCENARIOS.glob("*.yaml")} | set(packaged_scenarios())
    named = {scenario for scenario, _ in Labels.load().of}
    assert named <= known | {EVERYWHERE}


def test_labels_add_up() -> None:
    """Labels of all workloads also apply to each."""
    here = Label(frozenset({Reason.GPU_OVERPROVISIONED}))
    there = Label(tolerated=frozenset({Reason.SHARING_CANDIDATE_MPS}))
    labels = Labels({("node", "api"): here, (EVERYWHERE, EVERYWHERE): there})
    assert labels.label("node", "api") == Label(here.expected, there.tolerated)
    assert labels.label("node", "other") == there
