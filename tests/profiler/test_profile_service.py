"""Profile service on real accounts and a real database: storage, evaluation, recommendations."""

from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from advice_node import AdviceNode
from profile_node import JOB, Node, advice_node, node, waits, works
from profiles_built import device, kernel, profile, time_use
from readings import MINUTE, TRAINING, workload
from rightsizer.advice.policy import PolicySet
from rightsizer.advice.rules import RULES
from rightsizer.agent.offline_advice import run_offline
from rightsizer.agent.settings import Settings
from rightsizer.config.loader import load
from rightsizer.model.advice import AdviceState
from rightsizer.model.signal import Signal
from rightsizer.profiler.settings import ProfileSettings
from rightsizer.report.block_text import text_of
from rightsizer.report.explanation import explain_advice
from rightsizer.report.explanation_blocks import explanation_blocks

__all__ = ["advice_node", "node"]

LAUNCHING: Final = {**TRAINING, Signal.SM_ACTIVE: 0.1, Signal.TENSOR_ACTIVE: 0.05}
"""Telemetry shows kernels that are too short as busy at low activity."""


def test_a_profile_opens_advice_on_who_held_the_gpu_then(node: Node) -> None:
    """The log line has the result."""
    with capture_logs() as logs:
        (taken,) = node.profiles.take([waits(node)])

    assert (taken.key, taken.outcome) == (JOB.key, "complaint")
    assert [log["event"] for log in logs] == ["profile_taken"]
    assert logs[0]["complaints"] == "HostBound"
    assert node.open() == [("profile_host_bound", JOB.key)]
    (advice,) = (each for each in node.advice_service.advice if "profile" in each.finding.rule)
    assert advice.finding.devices == ("GPU-0",)
    assert advice.finding.evidence["contradictions"] == list(taken.contradictions)
    assert "waits for the host 80.0% of 1 s" in taken.contradictions[1]


def test_a_newer_profile_ends_the_advice(node: Node) -> None:
    """It does so at once."""
    node.profiles.take([waits(node)])
    assert node.open()
    node.profiles.take([works(node)])

    assert node.open() == []


def test_a_profile_that_is_too_old_no_longer_holds_advice_open(node: Node) -> None:
    """It ends like one whose workload has left: its state is unknown."""
    settings = ProfileSettings(valid_for=3600.0)
    node.restart(settings)
    node.profiles.take([waits(node)])
    assert node.open()
    node.work(200)
    node.restart(settings)

    assert node.open() == []
    (advice,) = (each for each in node.advice_service.advice if "profile" in each.finding.rule)
    assert advice.state is AdviceState.EXPIRED


def test_another_workload_is_not_blamed(node: Node) -> None:
    """The GPU's present holder is unrelated; the recommendation goes with the workload."""
    node.profiles.take([waits(node)])
    assert node.open()
    node.history_service.flush()
    node.work(100, holder=workload("other"))

    assert node.open() == []
    late = node.profiles.take([waits(node, 110.0)])
    assert late[0].key == JOB.key
    assert node.open() == []


def test_the_past_is_known_from_the_history(node: Node) -> None:
    """It has the holder before the GPU changed hands."""
    node.history_service.flush()
    node.work(30, holder=workload("other"))
    (taken,) = node.profiles.take([waits(node, 40.0)])

    assert taken.key == JOB.key


def test_telemetry_and_profile_make_one_advice(advice_node: AdviceNode) -> None:
    """Reason and ID are the same; the profile is in the evidence."""
    node = Node(advice_node)
    node.work(180, LAUNCHING)
    times = time_use(kernel=0.2, host=0.8, dispatch_wait_seconds=0.8)
    tiny = kernel("tiny", count=40_000, seconds=0.2)
    start = node.now - 5 * MINUTE
    node.profiles.take([profile(device(time=times, kernels=(tiny,), start=0), start=start)])

    assert node.open() == [("launch_bound", JOB.key)]
    (advice,) = (each for each in node.advice_service.advice if each.finding.rule == "launch_bound")
    evidence: Any = advice.finding.evidence["profile"]
    assert evidence["kernels"] == ["tiny"]
    judged = [judgement.finding.rule for judgement in node.recommender.judgements]
    assert "profile_launch_bound" in judged


def test_dismissed_advice_stays_dismissed(node: Node) -> None:
    """A later profile does not reopen it."""
    node.profiles.take([waits(node)])
    node.advice_service.recommend()
    (advice,) = (each for each in node.advice_service.advice if "profile" in each.finding.rule)
    node.advice_service.act(advice.id, AdviceState.DISMISSED, "ana", "known")

    assert node.open() == []


def test_a_policy_silences_profiles_as_it_does_rules(node: Node) -> None:
    """Reasons are the same for both."""
    text = "policies: [{match: {owner: llama}, ignore: [{reasons: [HostBound], why: known}]}]"
    settings = load(Settings, text, "test.yaml")
    node.recommender.change_rules(RULES, PolicySet(settings.policies_here))
    node.profiles.take([waits(node)])

    assert node.open() == []
    assert any(
        "excluded" in judgement.finding.evidence for judgement in node.recommender.judgements
    )


def test_the_reasoning_behind_it_has_its_thresholds(node: Node) -> None:
    """Thresholds have their configuration names, in JSON and in the terminal."""
    node.profiles.take([waits(node)])
    node.advice_service.recommend()
    (advice,) = (each for each in node.advice_service.advice if "profile" in each.finding.rule)
    document = explain_advice(advice, Settings().rule_trees)

    names = [threshold.setting for threshold in document.thresholds]
    assert "profiles.rules.profile_host_bound.on_ratio" in names
    assert "The profile says that GPU 0 waits" in " ".join(
        text_of(explanation_blocks(document)).split()
    )


def test_settings_of_an_operator_judge(node: Node) -> None:
    """They apply from the next profile on, without a restart."""
    text = "profiles: {rules: {profile_host_bound: {on_ratio: 0.9}}}"
    node.profiles.change_settings(load(Settings, text, "test.yaml").profiles)
    (taken,) = node.profiles.take([waits(node)])

    assert taken.outcome == "fine"


def test_a_fault_in_a_profile_keeps_no_rule_from_being_heard(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted and logged like a rule's error."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(node.profiles, "combined_with", broken)
    with capture_logs() as logs:
        node.advice_service.recommend()

    assert "rule_failed" in [log["event"] for log in logs]
    assert node.recommender.judgements


def test_advice_of_a_profile_is_there_without_an_agent(node: Node) -> None:
    """`rightsizer advise` shows what an agent would."""
    node.work(60)
    node.profiles.take([waits(node)])
    node.history_service.flush()
    node.base.storage.close()
    findings, advice, _ = run_offline(node.base.path, Settings())

    assert "profile_host_bound" in [each.finding.rule for each in advice]
    assert "profile_host_bound" in [finding.rule for finding in findings]
