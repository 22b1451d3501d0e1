"""The rule for services with requests waiting for compute."""

import pytest
from msgspec.structs import replace

from cases import case, window
from readings import HOUR, gpu, reading, workload
from rightsizer.advice.rules.compute_saturated import RULE
from rightsizer.model.finding import Action, FindingKind, Node, Reason
from rightsizer.model.signal import Signal
from rightsizer.model.state import Resource, State, Tier
from rightsizer.model.window import Window
from rightsizer.model.workload import WorkloadClass, WorkloadKind

SERVER = replace(
    workload(workload_class=WorkloadClass.SERVING),
    kind=WorkloadKind.KUBERNETES,
    namespace="production",
)


def saturated(hours: float, pressed: float | None = None) -> Window:
    """Six hours, some of them at the limit, part of those with waiting requests."""
    return window(
        {State.COMPUTE_BOUND: 6},
        saturated={Resource.COMPUTE: round(hours * HOUR)},
        pressed={} if pressed is None else {Resource.COMPUTE: round(pressed * HOUR)},
    )


def test_users_who_wait_make_a_service_underprovisioned() -> None:
    """Another replica is recommended by the number of waiting requests."""
    found = RULE.judge(case([saturated(4.0, 1.5)], SERVER))
    assert found.kind is FindingKind.UNDERPROVISIONED
    assert found.reasons == (Reason.COMPUTE_SATURATED,)
    assert found.action is Action.AUTOSCALE
    assert found.summary == (
        "GPU 0 of llama: SMs at their limit while users wait for 25% of the last 6 h."
    )
    assert found.instructions[0].text == (
        "# Put the address of your Prometheus into serverAddress.\n"
        "apiVersion: keda.sh/v1alpha1\n"
        "kind: ScaledObject\n"
        "metadata:\n"
        "  name: llama\n"
        "  namespace: production\n"
        "spec:\n"
        "  scaleTargetRef:\n"
        "    kind: Deployment\n"
        "    name: llama\n"
        "  minReplicaCount: 1\n"
        "  triggers:\n"
        "    - type: prometheus\n"
        "      metadata:\n"
        "        serverAddress: http://prometheus:9090\n"
        '        query: sum(vllm:num_requests_waiting{namespace="production"})\n'
        '        threshold: "4"\n'
        '        ignoreNullValues: "false"\n'
    )


def test_a_service_without_replicas_needs_another_gpu() -> None:
    """A service of the host cannot be scaled."""
    server = replace(SERVER, kind=WorkloadKind.SYSTEMD)
    found = RULE.judge(case([saturated(4.0, 1.5)], server))
    assert found.action is Action.CHANGE_GPU_TYPE


@pytest.mark.parametrize(("hours", "is_actionable"), [(0.3, True), (0.29, False)])
def test_a_twentieth_of_the_time_makes_a_finding(
    hours: float,
    is_actionable: bool,  # noqa: FBT001 - a case.
) -> None:
    """As for every shortage."""
    assert RULE.judge(case([saturated(4.0, hours)], SERVER)).is_actionable == is_actionable


def test_a_saturated_job_is_well_used() -> None:
    """Only its owner waits for it, and would wait longer on a smaller GPU."""
    found = RULE.judge(case([saturated(6.0, 3.0)], workload()))
    assert found.kind is FindingKind.OPTIMIZED
    assert found.summary == "GPU 0: SMs at their limit 100% of the time: well used."


def test_a_saturated_service_that_nobody_asks_is_no_verdict() -> None:
    """Only its engine knows whether requests wait."""
    judged = case([saturated(6.0)], SERVER)
    assert RULE.judge(judged).reasons == (Reason.UNSUPPORTED_TELEMETRY,)
    asked = Node(readings={"GPU-0": reading(gpu(), 1.0, {Signal.REQUESTS_WAITING: 0.0})})
    assert RULE.judge(replace(judged, node=asked)).kind is FindingKind.OPTIMIZED


def test_a_service_with_room_is_well() -> None:
    """It is seldom at its limit."""
    found = RULE.judge(case([saturated(1.0)], SERVER))
    assert found.kind is FindingKind.OPTIMIZED


def test_utilization_alone_says_nothing() -> None:
    """A kernel may be resident on a single SM."""
    basic = replace(saturated(0.0), tiers={Tier.BASIC: 1})
    found = RULE.judge(case([basic], SERVER))
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)
