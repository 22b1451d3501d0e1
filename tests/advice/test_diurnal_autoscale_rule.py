"""The rule for services with diurnal load."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from block_cases import BLOCKS_A_DAY, Course, at_hours, busy, case_of, past_of, steady, summed
from cases import window
from readings import HOUR, gpu
from rightsizer.advice.rules import gpu_count
from rightsizer.advice.rules.diurnal_autoscale import RULE
from rightsizer.model.block import Measure
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.model.state import Resource, State
from rightsizer.model.units import percent_text
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind

SERVICE = Workload(
    "kubernetes:web/chat", WorkloadKind.KUBERNETES, "chat", WorkloadClass.SERVING, namespace="web"
)


def replica(number: int, hours: tuple[int, int] = (8, 20)) -> Course:
    """A replica of a group: busy by day at moments of its own."""

    def course(block: int) -> dict[object, float]:
        hour = block % BLOCKS_A_DAY // 12
        is_day = hours[0] <= hour < hours[1]
        return busy(0.3 if is_day and (block + number) % 4 else 0.0)

    return course


def test_service_that_sleeps_at_night_is_scaled_by_the_hour() -> None:
    """A single replica: none at night, one by day, with the manifest for it."""
    found = RULE.judge(case_of([at_hours(8, 20, 0.4)], 8, SERVICE))
    assert found.kind is FindingKind.OVERPROVISIONED
    assert found.reasons == (Reason.DIURNAL_AUTOSCALE,)
    assert found.action is Action.AUTOSCALE
    assert found.summary == (
        "GPU 0 of chat: diurnal load; 0 to 1 replicas by hour of day instead of 1 would have "
        "used 45% fewer GPU-hours, short of capacity for 0.0% of the time."
    )
    assert found.evidence["schedule"] == [
        {"from_hour": 21, "to_hour": 8, "replicas": 0},
        {"from_hour": 8, "to_hour": 21, "replicas": 1},
    ]
    assert found.confidence > 0.7


def test_manifest_has_the_hours_and_the_names() -> None:
    """It can be applied without changes."""
    found = RULE.judge(case_of([at_hours(8, 20, 0.4)], 8, SERVICE))
    (manifest,) = found.instructions
    assert manifest.language == "yaml"
    assert manifest.text == (
        "# Nothing answers outside these hours: add a trigger on requests to wake it.\n"
        "# Counts are of the replicas on this node; hours are UTC.\n"
        "apiVersion: keda.sh/v1alpha1\n"
        "kind: ScaledObject\n"
        "metadata:\n"
        "  name: chat\n"
        "  namespace: web\n"
        "spec:\n"
        "  scaleTargetRef:\n"
        "    kind: Deployment\n"
        "    name: chat\n"
        "  minReplicaCount: 0\n"
        "  maxReplicaCount: 1\n"
        "  triggers:\n"
        "    - type: cron\n"
        "      metadata:\n"
        "        timezone: Etc/UTC\n"
        '        start: "55 7 * * *"\n'
        '        end: "0 21 * * *"\n'
        '        desiredReplicas: "1"\n'
    )


def test_other_owners_get_a_table() -> None:
    """No one scales a container with a KEDA manifest."""
    holder = replace(SERVICE, kind=WorkloadKind.CONTAINER)
    (table,) = RULE.judge(case_of([at_hours(8, 20, 0.4)], 8, holder)).instructions
    assert table.text == ("Replicas on this node:\n21:00-08:00 UTC: 0\n08:00-21:00 UTC: 1")


def test_group_of_replicas_follows_its_load() -> None:
    """Each GPU is a replica; a permanent reduction is not recommended."""
    group = case_of([replica(number) for number in range(8)], 8, SERVICE)
    found = RULE.judge(group)
    assert found.action is Action.AUTOSCALE
    assert found.evidence["replicas"] == 8
    assert found.evidence["gpus_per_replica"] == 1
    assert not gpu_count.RULE.judge(group).is_actionable


def test_parts_of_one_model_are_one_replica() -> None:
    """They are busy together; half of them would be no service."""
    found = RULE.judge(case_of([at_hours(8, 20, 0.4)] * 4, 8, SERVICE))
    assert found.is_actionable
    assert found.evidence["replicas"] == 1
    assert found.evidence["gpus_per_replica"] == 4


def test_one_day_with_a_long_night_is_believed_less() -> None:
    """A single night is no habit; no savings are claimed."""
    day = RULE.judge(case_of([replica(number) for number in range(8)], 1, SERVICE))
    week = RULE.judge(case_of([replica(number) for number in range(8)], 8, SERVICE))
    assert day.is_actionable
    assert day.evidence["cycle_seen_again"] is False
    assert day.confidence < 0.2 < week.confidence
    assert day.savings.gpus_high is None


@pytest.mark.parametrize("days", [1, 8])
def test_steady_load_has_no_hours(days: int) -> None:
    """However low it is."""
    found = RULE.judge(case_of([steady(0.05)], days, SERVICE))
    assert found.kind is FindingKind.OPTIMIZED
    assert found.summary == "GPU 0: following the load would save at most 2%."


def test_rests_at_irregular_hours_are_no_cycle() -> None:
    """A third of the time is free, each day at other hours."""

    def course(number: int) -> dict[Measure, float]:
        return busy(0.0 if (number // 36) ** 2 % 7 in {1, 4} else 0.5)

    found = RULE.judge(case_of([course], 8, SERVICE))
    assert found.kind is FindingKind.OPTIMIZED
    assert found.summary == "GPU 0: no cycle by the hour of the day."


def test_half_a_day_is_no_verdict() -> None:
    """The other half was not observed."""
    found = RULE.judge(case_of([at_hours(8, 20, 0.4)], 0.5, SERVICE))
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)


def test_unknown_class_is_no_verdict_and_a_job_has_no_hours() -> None:
    """No one scales a batch job by the hour; the class of others must be configured first."""
    unknown = replace(SERVICE, workload_class=WorkloadClass.UNKNOWN)
    job = replace(SERVICE, workload_class=WorkloadClass.BATCH)
    night = [at_hours(8, 20, 0.4)]
    assert RULE.judge(case_of(night, 8, unknown)).abstained is not None
    assert RULE.judge(case_of(night, 8, job)).kind is FindingKind.OPTIMIZED


def test_never_while_under_pressure() -> None:
    """A service short by day does not get a night schedule first."""
    pressed = window(
        {State.PRODUCTIVE: 192.0},
        {Resource.COMPUTE: {0.9: 192.0}, Resource.MEMORY: {0.2: 192.0}},
        pressed={Resource.COMPUTE: 20 * HOUR},
    )
    found = RULE.judge(case_of([at_hours(8, 20, 0.4)], 8, SERVICE, windows=[pressed]))
    assert found.summary == "Under pressure, so not too large."


@given(st.permutations(range(4)))
@settings(max_examples=6)
def test_permuted_devices_get_the_same_schedule(order: list[int]) -> None:
    """The driver's order of devices does not matter."""
    devices = [gpu(index) for index in order]
    courses = [replica(index) for index in order]
    found = RULE.judge(case_of(courses, 3, SERVICE, devices=devices))
    usual = RULE.judge(case_of([replica(index) for index in range(4)], 3, SERVICE))
    assert found.evidence["schedule"] == usual.evidence["schedule"]
    assert found.id == usual.id
    assert set(found.devices) == set(usual.devices)


@given(st.integers(0, 3 * BLOCKS_A_DAY - 1), st.integers(1, 200))
@settings(max_examples=8)
def test_unknown_time_never_creates_advice(first: int, length: int) -> None:
    """A gap is no quiet hour: a steady load stays steady."""

    def course(number: int) -> dict[object, float] | None:
        return None if first <= number < first + length else busy(0.4)

    assert not RULE.judge(case_of([course], 3, SERVICE)).is_actionable


def test_past_of_a_group_is_its_sum() -> None:
    """The tests' helper sums like the accounts do."""
    group = case_of([steady(0.25), steady(0.5)], 1, SERVICE)
    parts = [window.blocks for window in group.windows]
    assert past_of("x", summed(parts)).blocks() == group.remembered


def test_replicas_that_replaced_one_another_are_not_counted_together() -> None:
    """Eight pods, four at a time: a schedule never asks for more than four."""

    def of_pod(number: int) -> Course:
        lives = (0, 4) if number < 4 else (4, 8)

        def course(block: int) -> dict[object, float] | None:
            return replica(number)(block) if lives[0] <= block // BLOCKS_A_DAY < lives[1] else None

        return course

    found = RULE.judge(case_of([of_pod(number) for number in range(8)], 8, SERVICE))

    assert found.summary.startswith("4 GPUs of chat: diurnal load; ")
    assert "instead of 4" in found.summary
    assert found.evidence["replicas"] == 4
    assert max(span["replicas"] for span in found.evidence["schedule"]) == 4


@given(st.integers(2, 20), st.integers(1, 4))
@settings(max_examples=8, deadline=None)
def test_sentence_evidence_and_savings_are_one_outcome(count: int, days: int) -> None:
    """In GPUs held at once on average, and in GPU-hours of the history."""
    found = RULE.judge(case_of([replica(number) for number in range(count)], days, SERVICE))
    assert found.is_actionable
    outcome: Any = found.evidence["by_schedule"]
    assert f"{percent_text(outcome['saved_ratio'])} fewer GPU-hours" in found.summary
    assert found.evidence["replicas"] == count
    if found.savings.gpus_high is not None:
        assert found.savings.gpus_low == found.savings.gpus_high
        assert found.savings.gpus_high * days * 24 == pytest.approx(
            outcome["saved_gpu_hours"], abs=0.1
        )


def test_night_of_a_large_group_holds_what_the_night_needs() -> None:
    """Sixty replicas with eight active at night: those, a third as margin, and spare ones."""

    def of_pod(number: int) -> Course:
        return at_hours(0, 24, 0.3) if number < 8 else replica(number)

    found = RULE.judge(case_of([of_pod(number) for number in range(60)], 3, SERVICE))

    assert min(span["replicas"] for span in found.evidence["schedule"]) == 14
