"""The rule for services that stream their weights all the time."""

import pytest

from cases import case, histogram, window
from readings import HOUR, workload
from rightsizer.advice.rules.memory_bandwidth_bound import RULE
from rightsizer.model.finding import Action, FindingKind, Reason, Severity
from rightsizer.model.state import Resource, State, Tier
from rightsizer.model.window import Window
from rightsizer.model.workload import WorkloadClass

SERVER = workload(workload_class=WorkloadClass.SERVING)


def decoding(hours: float, compute: float = 0.2, **facts: object) -> Window:
    """Six hours, some of them at the limit of memory bandwidth."""
    at_least = histogram({compute: 6})
    times = {State.MEMORY_BANDWIDTH_BOUND: hours, State.PRODUCTIVE: 6 - hours}
    return window(times, **{"compute_at_least": at_least, **facts})


def test_a_service_with_compute_to_spare_takes_a_larger_batch() -> None:
    """It frees nothing, so no savings are claimed; no requests wait, so it is not urgent."""
    found = RULE.judge(case([decoding(5.0)], SERVER))
    assert found.kind is FindingKind.INEFFICIENT
    assert found.reasons == (Reason.MEMORY_BANDWIDTH_BOUND,)
    assert found.action is Action.RAISE_BATCH
    assert found.severity is Severity.LOW
    assert found.savings.gpus_high is None
    assert found.summary == (
        "GPU 0 of llama: bound by memory traffic for 83% of the last 6 h: "
        "a larger batch would serve more for the same traffic."
    )
    assert "--max-num-seqs" in found.instructions[0].text


def test_users_who_wait_make_it_short_of_bandwidth() -> None:
    """From a twentieth of the time on."""
    pressed = {Resource.MEMORY_BANDWIDTH: round(0.3 * HOUR)}
    found = RULE.judge(case([decoding(5.0, pressed=pressed)], SERVER))
    assert found.kind is FindingKind.UNDERPROVISIONED
    assert "users wait, and a larger batch" in found.summary
    assert found.severity is Severity.MEDIUM


def test_a_full_cache_has_no_room_for_a_larger_batch() -> None:
    """Its engine tells that requests wait for it: narrower formats or more memory make room."""
    pressed = {Resource.MEMORY: round(0.3 * HOUR)}
    found = RULE.judge(case([decoding(5.0, pressed=pressed)], SERVER))
    assert found.kind is FindingKind.UNDERPROVISIONED
    assert found.action is Action.CHANGE_GPU_TYPE
    assert found.summary.endswith("users wait for its full cache, so a larger batch has no room.")
    assert "--kv-cache-dtype fp8" in found.instructions[0].text
    assert found.evidence["cache_full_ratio"] == 0.05


@pytest.mark.parametrize(
    ("workload_class", "why"),
    [
        (WorkloadClass.BATCH, "a job at a limit of its GPU is well used"),
        (WorkloadClass.UNKNOWN, "no service is known"),
    ],
)
def test_others_at_their_limit_are_no_complaint(workload_class: WorkloadClass, why: str) -> None:
    """Much of scientific computing is bound by memory bandwidth."""
    found = RULE.judge(case([decoding(6.0)], workload(workload_class=workload_class)))
    assert found.kind is FindingKind.OPTIMIZED
    assert found.summary.endswith(f"{why}.")


def test_a_batch_that_fills_the_compute_is_large_enough() -> None:
    """More requests would only wait for the pipes."""
    assert not RULE.judge(case([decoding(6.0, compute=0.7)], SERVER)).is_actionable


def test_idle_time_counts() -> None:
    """A replica that decodes two hours a day has no further requests to batch."""
    quiet = window({State.MEMORY_BANDWIDTH_BOUND: 2, State.IDLE_HELD: 22})
    assert not RULE.judge(case([quiet], SERVER)).is_actionable


@pytest.mark.parametrize("tier", [Tier.POWER, Tier.BASIC])
def test_the_memory_controller_alone_gives_less_confidence(tier: Tier) -> None:
    """The sentence names the tier."""
    measured = RULE.judge(case([decoding(6.0)], SERVER))
    suspected = {State.MEMORY_BANDWIDTH_BOUND: 6 * HOUR}
    found = RULE.judge(case([decoding(0.0, second_causes=suspected, tiers={tier: 1})], SERVER))
    assert found.action is Action.RAISE_BATCH
    assert found.confidence < 0.9 < measured.confidence
    assert found.summary == (
        "GPU 0 of llama: probably bound by memory traffic for 100% of the last 6 h by the memory "
        f"controller's utilization alone ({tier} tier): a larger batch would serve more for the "
        "same traffic."
    )


def test_without_profiling_its_absence_cannot_be_told() -> None:
    """A memory controller at rest is no measure of traffic."""
    found = RULE.judge(case([decoding(0.0, tiers={Tier.POWER: 1})], SERVER))
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)
