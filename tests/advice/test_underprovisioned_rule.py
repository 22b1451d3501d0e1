"""The rule for GPUs too small for their queued work."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import case, window
from readings import HOUR, workload
from rightsizer.advice.rules.underprovisioned import RULE
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.model.state import Resource, State
from rightsizer.model.window import Window
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind

SERVICE = Workload(
    "kubernetes:web/chat", WorkloadKind.KUBERNETES, "chat", WorkloadClass.SERVING, namespace="web"
)
COMPUTE = Resource.COMPUTE


def short(hours: float, resource: Resource = COMPUTE, unknown: float = 0.0) -> Window:
    """Ten hours of work, part of them with waiting for a resource."""
    demands = {COMPUTE: {0.95: 10.0}, Resource.MEMORY: {0.3: 10.0}}
    states = {State.PRODUCTIVE: 10.0, State.UNKNOWN: unknown}
    return window(states, demands, pressed={resource: round(hours * HOUR)})


def test_service_that_waits_is_too_small() -> None:
    """With the command for more replicas."""
    found = RULE.judge(case([short(3)], SERVICE))
    assert found.kind is FindingKind.UNDERPROVISIONED
    assert found.reasons == (Reason.GPU_UNDERPROVISIONED, Reason.COMPUTE_SATURATED)
    assert found.action is Action.AUTOSCALE
    assert found.summary == (
        "GPU 0 of chat: short of compute 30% of the last 10 h, while requests waited."
    )
    assert found.options[0].target == "2"
    assert found.instructions[0].text == "kubectl -n web scale deployment/chat --replicas=2"
    assert found.savings.gpus_high is None


def test_short_of_bandwidth_is_no_matter_of_compute() -> None:
    """A single short resource is named by its own rule."""
    found = RULE.judge(case([short(3, Resource.PCIE)], SERVICE))
    assert found.reasons == (Reason.GPU_UNDERPROVISIONED,)


@pytest.mark.parametrize(("hours", "is_actionable"), [(0.5, True), (0.49, False)])
def test_a_twentieth_of_the_time_is_too_often(
    hours: float,
    is_actionable: bool,  # noqa: FBT001 - a case.
) -> None:
    """As with memory."""
    found = RULE.judge(case([short(hours)], SERVICE))
    assert found.is_actionable == is_actionable
    assert found.abstained is None


def test_culprits_are_the_gpus_that_are_short() -> None:
    """The others have room."""
    found = RULE.judge(case([short(0), short(5)], SERVICE))
    assert found.culprits == ("GPU-1",)
    assert found.options[0].target == "3"


def test_job_at_its_limit_is_well_used() -> None:
    """Only its owner waits for it."""
    assert RULE.judge(case([short(5)], workload())).kind is FindingKind.OPTIMIZED


def test_unknown_class_is_reported_but_not_what_to_buy() -> None:
    """Waiting is reported; the remedy depends on the class."""
    found = RULE.judge(case([short(5)], replace(SERVICE, workload_class=WorkloadClass.UNKNOWN)))
    assert found.is_actionable
    assert found.options == ()
    assert found.action is Action.NONE


def test_without_the_application_nobody_knows_who_waited() -> None:
    """A GPU at its limit is no finding by itself; memory has its own rule."""
    full = window({State.PRODUCTIVE: 10.0}, {COMPUTE: {1.0: 10.0}}, saturated={COMPUTE: 10 * HOUR})
    assert RULE.judge(case([full], SERVICE)).reasons == (Reason.UNSUPPORTED_TELEMETRY,)
    assert RULE.judge(case([short(5, Resource.MEMORY)], SERVICE)).abstained is not None


@given(st.floats(0.0, 10.0), st.floats(0.1, 100.0))
def test_unknown_time_never_creates_advice(hours: float, unknown: float) -> None:
    """It raises no confidence."""
    before = RULE.judge(case([short(hours)], SERVICE))
    after = RULE.judge(case([short(hours, unknown=unknown)], SERVICE))
    assert after.is_actionable <= before.is_actionable
    assert not after.is_actionable or after.confidence <= before.confidence


@given(st.floats(0.0, 10.0), st.floats(0.0, 10.0))
def test_more_pressure_is_never_less_of_a_complaint(one: float, other: float) -> None:
    """Monotone in the time spent waiting."""
    low, high = sorted((one, other))
    found = [RULE.judge(case([short(each)], SERVICE)).is_actionable for each in (low, high)]
    assert found[0] <= found[1]
