"""Operators' policies on workloads, applied to snapshots and findings."""

import pytest
from msgspec.structs import replace

from cases import case, judgement, window
from readings import DAY, EPOCH, TRAINING, gpu, snapshot, workload
from rightsizer.advice.engine import judge_all
from rightsizer.advice.policy import (
    Policy,
    PolicyMatch,
    PolicySet,
    apply_policies,
    policies_of_pool,
)
from rightsizer.advice.rules.hidden_stall import RULE
from rightsizer.agent.settings import Settings
from rightsizer.config.loader import load
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.finding import Reason
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import State
from rightsizer.model.workload import Allocator, Holding, Workload, WorkloadClass

SERVING = Policy(class_=WorkloadClass.SERVING)
BUSY = window({State.PRODUCTIVE: 1})


def held_by(holder: Workload, uuid: str = "GPU-0") -> Snapshot:
    """A GPU held by a training job."""
    device = gpu(uuid=uuid)
    return snapshot(1.0, [device], {device: TRAINING}, holders={device: holder})


def with_policies(holder: Workload, *policies: Policy, uuid: str = "GPU-0") -> Workload:
    """The holder after the policies."""
    return apply_policies(held_by(holder, uuid), policies).holdings[uuid][0].workload


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        (PolicyMatch(), True),
        (PolicyMatch(owner="llama"), True),
        (PolicyMatch(owner="ll*"), True),
        (PolicyMatch(owner="LL*"), False),
        (PolicyMatch(owner="llama", namespace="prod"), True),
        (PolicyMatch(owner="llama", namespace="dev"), False),
        (PolicyMatch(namespace="pr??"), True),
        (PolicyMatch(gpu="GPU-*"), True),
        (PolicyMatch(gpu="GPU-1"), False),
    ],
)
def test_every_pattern_that_is_given_must_fit(match: PolicyMatch, fits: bool) -> None:  # noqa: FBT001
    """Patterns are shell patterns, and case matters."""
    holder = replace(workload("llama"), namespace="prod")
    found = with_policies(holder, replace(SERVING, match=match))

    assert (found.workload_class is WorkloadClass.SERVING) is fits


def test_the_first_policy_that_fits_is_the_one() -> None:
    """A general policy can follow a special one."""
    special = Policy(PolicyMatch(owner="llama"), class_=WorkloadClass.STANDBY)

    assert (
        with_policies(workload("llama"), special, SERVING).workload_class is WorkloadClass.STANDBY
    )
    assert (
        with_policies(workload("other"), special, SERVING).workload_class is WorkloadClass.SERVING
    )


def test_setting_without_a_policy_keeps_its_value() -> None:
    """A policy on the allocator does not change the class."""
    holder = workload("llama", WorkloadClass.BATCH, Allocator.GROWING)
    found = with_policies(holder, Policy(allocator=Allocator.PREALLOCATING))

    assert found == replace(holder, allocator=Allocator.PREALLOCATING)


def test_a_policy_can_be_about_one_gpu() -> None:
    """The pattern is matched against the uuid of the GPU that is held."""
    only_second = Policy(PolicyMatch(gpu="GPU-1"), class_=WorkloadClass.SERVING)

    assert with_policies(workload(), only_second).workload_class is WorkloadClass.BATCH
    assert (
        with_policies(workload(), only_second, uuid="GPU-1").workload_class is WorkloadClass.SERVING
    )


def test_shares_stay_and_the_rest_of_the_snapshot_too() -> None:
    """Only the holders' facts change."""
    before = held_by(workload())
    halves = replace(before, holdings={"GPU-0": (Holding(workload(), 0.5),)})
    after = apply_policies(halves, [SERVING])

    assert after.holdings["GPU-0"][0].share_ratio == 0.5
    assert replace(after, holdings=halves.holdings) == halves


def test_without_policies_the_snapshot_is_the_same_object() -> None:
    """Without policies the per-second cost is zero."""
    before = held_by(workload())

    assert apply_policies(before, ()) is before


def test_a_scheduler_s_grant_without_a_process_stays_one() -> None:
    """A policy changes only what it names."""
    held = Holding(workload(), 0.5, has_process=False)
    before = replace(held_by(workload()), holdings={"GPU-0": (held,)})
    (found,) = apply_policies(before, [SERVING]).holdings["GPU-0"]

    assert found.workload.workload_class is WorkloadClass.SERVING
    assert found == replace(held, workload=found.workload)


def test_policies_of_another_pool_are_none_here() -> None:
    """Each machine states its pool; a machine without one is in the empty pool."""
    training = replace(SERVING, match=PolicyMatch(pool="train-*"))

    assert with_policies(workload(), training).workload_class is WorkloadClass.BATCH
    assert policies_of_pool([training, SERVING], "other") == (SERVING,)
    (here,) = policies_of_pool([training], "train-a100")
    assert with_policies(workload(), here).workload_class is WorkloadClass.SERVING


CONFIGURED = """
policies:
  - match: {owner: lla*}
    thresholds: {hidden_stall: {on_ratio: 0.6, conduct: {long: 2h}}}
    ignore:
      - {reasons: [IdleHeld], until: "2026-02-01", why: launch, actor: ada}
  - thresholds: {hidden_stall: {on_ratio: 0.9}}
"""


def configured() -> PolicySet:
    """Policies as in a configuration file."""
    return PolicySet(load(Settings, CONFIGURED, "rightsizer.yaml").policies)


def test_thresholds_hold_for_the_workloads_that_match() -> None:
    """The first matching policy decides; the rule's defaults fill in the rest."""
    mine = configured().with_thresholds(RULE, case([BUSY], workload("llama")))
    others = configured().with_thresholds(RULE, case([BUSY], workload("other")))
    nobodys = configured().with_thresholds(RULE, case([BUSY]))

    assert (mine.settings.on_ratio, mine.settings.conduct.long_seconds) == (0.6, 7200.0)
    assert mine.settings.conduct.short_seconds == RULE.settings.conduct.short_seconds
    assert others.settings.on_ratio == nobodys.settings.on_ratio == 0.9
    assert PolicySet().with_thresholds(RULE, case([BUSY])) is RULE


def test_thresholds_decide_what_is_a_finding() -> None:
    """A stall of 70% of the time is a finding for one workload and not for the other."""
    stalled = window({State.HIDDEN_STALL: 0.7, State.PRODUCTIVE: 0.3})
    cases = [case([stalled], workload("llama")), case([stalled], workload("other"))]
    judged = judge_all(lambda _: cases, (RULE,), tuned=configured().with_thresholds)

    assert [each.finding.is_actionable for each in judged] == [True, False]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("{hidden_stall: {on_ratio: 3}}", r"thresholds.hidden_stall.on_ratio: must be"),
        ("{hiden_stall: {}}", "unknown key; did you mean 'hidden_stall'"),
        ("{hidden_stall: {conduct: {long: soon}}}", "'soon' is not a duration"),
    ],
)
def test_faults_of_thresholds_are_found_at_the_start(broken: str, message: str) -> None:
    """With their place and the valid values."""
    text = f"policies:\n  - thresholds: {broken}\n"
    with pytest.raises(ConfigurationError, match=message) as error:
        load(Settings, text, "rightsizer.yaml")
    assert str(error.value).startswith("rightsizer.yaml:2:")


def test_ignored_finding_names_its_reason() -> None:
    """For the policy's workload, until its end date, and for its reasons."""
    mine = replace(judgement(), workload=workload("llama"))
    others = replace(judgement(), workload=workload("other"))
    stall = replace(judgement(reasons=(Reason.HIDDEN_STALL,)), workload=workload("llama"))
    found = configured().suppressed([mine, others, stall], EPOCH + 30 * DAY)
    later = configured().suppressed([mine], EPOCH + 32 * DAY)

    assert [each.may_open for each in found] == [False, True, True]
    assert found[0].finding.is_actionable
    assert found[0].finding.evidence["excluded"] == "ignored until 2026-02-01: launch (ada)"
    assert later[0].may_open
    assert later[0].finding == mine.finding


def test_level_of_a_policy_is_that_of_what_its_workloads_serve() -> None:
    """Model and times, as of a plan."""
    stated = Policy(model="llama-3.1-8b", ttft="p95=1s", tpot="50ms")
    found = with_policies(workload("llama"), stated)
    assert (found.model, found.ttft, found.tpot) == ("llama-3.1-8b", "p95=1s", "50ms")


@pytest.mark.parametrize("time", ["soon", "p95=", "50", "-1s", "p95 1s"])
def test_level_that_is_no_time_is_refused(time: str) -> None:
    """With its place and what to write."""
    with pytest.raises(ConfigurationError, match=r"policies.*ttft.*is no time.*p95=1s"):
        load(Settings, f"policies: [{{ttft: '{time}'}}]\n", "rightsizer.yaml")
