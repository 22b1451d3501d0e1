"""The rule for GPUs that wait for the host's CPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import case, window
from readings import gpu, reading, workload
from rightsizer.advice.rules.host_bound import RULE
from rightsizer.model.finding import Action, Case, FindingKind, Node, Reason, Severity
from rightsizer.model.signal import Signal
from rightsizer.model.state import Cause, State
from rightsizer.model.topology import Placement, Topology
from rightsizer.model.workload import WorkloadClass, WorkloadKind

JOB = workload()
HOST = State.HOST_BOUND
BUSY = State.COMPUTE_BOUND
IDLE = State.IDLE_HELD
CPUS = (*range(28), *range(56, 84))


def on_node(found: Case, signals: dict[Signal, float]) -> Case:
    """The same on a node of two sockets, each with four GPUs and 56 CPUs."""
    placements = {
        f"GPU-{index}": Placement(f"GPU-{index}", cpus=CPUS if index < 4 else (90, 91))
        for index in range(8)
    }
    readings = {device.uuid: reading(device, 1.0, signals) for device in found.devices}
    return replace(found, node=Node(readings=readings, topology=Topology(placements)))


def test_waiting_for_the_host_is_inefficient() -> None:
    """With the share of its work, the cost and the cause."""
    found = RULE.judge(case([window({HOST: 6, BUSY: 2}, waste_seconds={Cause.HOST: 14400})], JOB))
    assert found.kind is FindingKind.INEFFICIENT
    assert found.reasons == (Reason.HOST_BOUND,)
    assert found.action is Action.FIX_INPUT_PIPELINE
    assert found.summary == (
        "GPU 0 of llama: held up by the host's CPUs for 75% of 8 h of activity, "
        "at their quota or under pressure."
    )
    assert found.evidence["hypotheses"] == {"host_bound": 1.0}
    assert found.evidence["lost_ratio"] == {"GPU-0": 0.5}
    assert found.savings.gpus_low == 0.0
    assert found.savings.gpus_high == 0.5
    assert found.severity is Severity.MEDIUM


def test_shares_are_of_the_active_time() -> None:
    """A job that is active a third of the time is judged by that third."""
    found = RULE.judge(case([window({HOST: 2, IDLE: 4})], JOB))
    assert found.is_actionable
    assert found.savings.gpus_high == pytest.approx(1 / 3, abs=1e-4)


@pytest.mark.parametrize(
    "hours",
    [
        {HOST: 0.3, BUSY: 5.7},
        {HOST: 3.9, BUSY: 4.1},
        {HOST: 0.5, IDLE: 5.5},
    ],
    ids=["start-up", "less than half", "hardly ever at work"],
)
def test_minor_host_wait_is_no_finding(hours: dict[State, float]) -> None:
    """A start-up, a minority of the work, or a twelfth of all time."""
    found = RULE.judge(case([window(hours)], JOB))
    assert not found.is_actionable
    assert found.abstained is None


def test_two_minutes_of_work_say_nothing() -> None:
    """Neither host bound nor not."""
    found = RULE.judge(case([window({HOST: 2 / 60, IDLE: 6})], JOB))
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)
    assert found.abstained == "only 2 min of activity"


def test_the_stronger_cause_is_reported_by_its_own_rule() -> None:
    """Three spinning ranks lose more than the rank that they wait for."""
    spinning = window({State.HIDDEN_STALL: 6})
    found = RULE.judge(case([spinning, spinning, spinning, window({HOST: 6})], JOB))
    assert not found.is_actionable
    assert found.evidence["hypotheses"] == {"hidden_stall": 0.75, "host_bound": 0.25}
    assert found.summary.endswith("; more is lost to hidden stall.")


def test_causes_that_are_alike_stay_unattributed() -> None:
    """The largest of three is no better than the others together."""
    found = RULE.judge(
        case(
            [
                window({HOST: 4, BUSY: 2}),
                window({State.STORAGE_BOUND: 3, BUSY: 3}),
                window({State.PCIE_BOUND: 2, BUSY: 4}),
            ],
            JOB,
        )
    )
    assert found.is_actionable
    assert found.evidence["hypotheses"] == {
        "unattributed": 0.556,
        "host_bound": 0.444,
        "storage_bound": 0.333,
    }


def test_workers_are_as_many_as_the_cpus_near_the_gpu() -> None:
    """56 CPUs for four GPUs: 14 each, one of which launches kernels."""
    found = RULE.judge(on_node(case([window({HOST: 6})], JOB), {Signal.CPU: 0.99}))
    quota, loader = found.instructions[2:]
    assert quota.title == "Give it the CPUs that are near its GPU: 0-27,56-83"
    assert quota.text == "#SBATCH --cpus-per-gpu=14"
    assert "num_workers=13, pin_memory=True" in loader.text


def test_a_pod_gets_its_cpus_in_its_manifest() -> None:
    """For all its GPUs together."""
    pod = replace(JOB, kind=WorkloadKind.KUBERNETES)
    found = RULE.judge(on_node(case([window({HOST: 6})] * 2, pod), {Signal.CPU: 0.99}))
    quota = found.instructions[2]
    assert quota.language == "yaml"
    assert quota.text == (
        "# Of the container, in the pod's template.\n"
        'resources:\n  requests: {cpu: "28"}\n  limits: {cpu: "28"}'
    )


def test_a_quota_is_looked_for() -> None:
    """In the control group of each of the GPU's own processes."""
    found = RULE.judge(case([window({HOST: 6}), window({BUSY: 6})], JOB))
    assert found.instructions[1].text == (
        "nvidia-smi --id=GPU-0 --query-compute-apps=pid --format=csv,noheader | while read -r pid; "
        'do grep thr "/sys/fs/cgroup$(grep ^0:: /proc/$pid/cgroup | cut -d: -f3)/cpu.stat"; done'
    )


def test_without_a_topology_the_number_of_workers_is_described() -> None:
    """No number is invented."""
    loader = RULE.judge(case([window({HOST: 6})], JOB)).instructions[-1]
    assert "num_workers=N," in loader.text
    assert "with N the CPUs that the job has for each GPU, less one" in loader.text


def test_a_server_has_no_loader() -> None:
    """Its host tokenizes and samples."""
    server = workload(workload_class=WorkloadClass.SERVING)
    texts = [
        instruction.text
        for instruction in RULE.judge(case([window({HOST: 6})], server)).instructions
    ]
    assert any("--api-server-count" in text for text in texts)
    assert not any("DataLoader" in text for text in texts)


def test_an_unobserved_host_is_no_verdict() -> None:
    """Without the host's signals a waiting GPU merely looks unused."""
    idling = case([window({State.PRODUCTIVE: 6})], JOB)
    blind = RULE.judge(on_node(idling, {Signal.GPU_BUSY: 0.4}))
    assert blind.abstained == (
        "the host is not observed: no rightsizer_cpu_pressure_ratio or rightsizer_cpu_ratio"
    )
    assert RULE.judge(on_node(idling, {Signal.CPU: 0.4})).abstained is None


@given(hours=st.floats(0.0, 12.0), unknown=st.floats(0.0, 24.0))
def test_unknown_time_creates_no_advice(hours: float, unknown: float) -> None:
    """It lowers the confidence and leaves the verdict."""
    times = {HOST: hours, BUSY: 6.0}
    clear = RULE.judge(case([window(times)], JOB))
    hazy = RULE.judge(case([window(times | {State.UNKNOWN: unknown})], JOB))
    assert hazy.is_actionable == clear.is_actionable
    assert hazy.confidence <= clear.confidence or not clear.is_actionable


def test_permuting_devices_permutes_the_advice() -> None:
    """The order of GPUs does not matter."""
    windows = [window({HOST: 6}), window({BUSY: 6})]
    devices = [gpu(0), gpu(1)]
    found = RULE.judge(case(windows, JOB, devices))
    turned = RULE.judge(case(windows[::-1], JOB, devices[::-1]))
    assert found.id == turned.id
    assert found.summary == turned.summary
    assert found.confidence == turned.confidence
