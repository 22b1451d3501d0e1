"""The rule for processes far from their GPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import case, window
from readings import HOUR, gpu, workload
from rightsizer.advice.rules.numa_misplaced import RULE
from rightsizer.model.finding import Action, Case, FindingKind, Reason
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition, State
from rightsizer.model.topology import Placement, Topology, cpu_list
from rightsizer.model.workload import Workload, WorkloadKind
from standing_cases import around

JOB = workload()
CPUS = (28, 29, 30, 31, 84, 85)
TOPOLOGY = Topology(
    {"GPU-0": Placement("GPU-0", numa_node=1, memory_numa_node=9, cpus=CPUS)},
    numa_nodes={0: tuple(range(28)), 1: CPUS, 9: ()},
)
FAR = {"GPU-0": {Signal.HOST_MEMORY_LOCAL: 0.1, Signal.CPU_AFFINITY_LOCAL: 0.0}}


def fed_from_afar(hours: float, holder: Workload = JOB) -> Case:
    """Ten hours, part of them fed from another node."""
    conditions = {Condition.NUMA_MISPLACED: round(hours * HOUR)}
    return case([window({State.PRODUCTIVE: 10}, conditions=conditions)], holder)


def judged(hours: float = 5, kind: WorkloadKind = WorkloadKind.SLURM) -> Case:
    """The verdict with its node and two processes."""
    holder = Workload("a/llama", kind, "llama")
    return around(fed_from_afar(hours, holder), FAR, pids={"GPU-0": (7, 5)}, topology=TOPOLOGY)


def test_numa_finding_names_the_cpus_of_the_gpus_node() -> None:
    """With the CPUs of the GPU's node."""
    found = RULE.judge(judged())
    assert found.kind is FindingKind.MISPLACED
    assert found.reasons == (Reason.NUMA_MISPLACED,)
    assert found.action is Action.REBIND_NUMA
    assert found.summary == (
        "GPU 0 of llama: fed from another NUMA node for 50% of the last 10 h; GPU 0 belongs "
        "to NUMA "
        "node 1 (CPUs 28-31,84-85)."
    )
    assert found.instructions[0].text == (
        "taskset -apc 28-31,84-85 5\nmigratepages 5 all 1\n"
        "taskset -apc 28-31,84-85 7\nmigratepages 7 all 1"
    )
    assert found.instructions[-1].text == (
        "CUDA_VISIBLE_DEVICES=GPU-0 numactl --cpunodebind=1 --membind=1 COMMAND"
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (WorkloadKind.KUBERNETES, "topologyManagerPolicy: single-numa-node"),
        (WorkloadKind.SLURM, "--gpu-bind=closest"),
        (WorkloadKind.SYSTEMD, "CPUAffinity=28-31,84-85\nNUMAPolicy=bind\nNUMAMask=1"),
        (WorkloadKind.CONTAINER, "--cpuset-cpus=28-31,84-85 --cpuset-mems=1"),
    ],
)
def test_each_owner_is_reported_in_its_own_way(kind: WorkloadKind, expected: str) -> None:
    """So that the next start is right too."""
    found = RULE.judge(judged(kind=kind))
    assert any(expected in instruction.text for instruction in found.instructions)


@pytest.mark.parametrize(("hours", "is_actionable"), [(3.0, True), (2.99, False)])
def test_three_tenths_of_the_time_make_a_finding(
    hours: float,
    is_actionable: bool,  # noqa: FBT001 - a case.
) -> None:
    """Traffic comes in bursts."""
    assert RULE.judge(judged(hours)).is_actionable == is_actionable


def test_processes_that_are_near_are_no_finding() -> None:
    """It was measured, and is healthy."""
    near = {"GPU-0": {Signal.HOST_MEMORY_LOCAL: 1.0}}
    found = RULE.judge(around(fed_from_afar(0), near, topology=TOPOLOGY))
    assert not found.is_actionable
    assert found.abstained is None


def test_numa_rule_abstains_without_signals_or_node() -> None:
    """A history; no signals; no NUMA node."""
    for unknown in (fed_from_afar(5), around(fed_from_afar(0)), around(fed_from_afar(5), FAR)):
        assert RULE.judge(unknown).reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_none_near_is_a_measurement() -> None:
    """0 is a value; it is harmless because no data flows."""
    kept_away = {"GPU-0": {Signal.CPU_AFFINITY_LOCAL: 0.0}}
    found = RULE.judge(around(fed_from_afar(0), kept_away, topology=TOPOLOGY))
    assert found.abstained is None
    assert not found.is_actionable


def test_a_machine_of_one_node_has_nothing_far() -> None:
    """No measurement is needed."""
    one = Topology(numa_nodes={0: (0, 1)})
    assert RULE.judge(around(fed_from_afar(0), topology=one)).abstained is None


def test_without_topology_the_device_knows_its_node() -> None:
    """The number is enough to bind by."""
    one = case([fed_from_afar(5).windows[0]], JOB, [gpu(0, numa_node=1)])
    found = RULE.judge(around(one, FAR))
    assert found.is_actionable
    assert "numactl --cpunodebind=1 --membind=1" in found.instructions[-1].text


@given(st.sets(st.integers(0, 300)))
def test_a_list_of_cpus_says_the_same_as_its_numbers(cpus: set[int]) -> None:
    """No CPU is lost or added."""
    found: set[int] = set()
    for part in filter(None, cpu_list(cpus).split(",")):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    assert found == cpus
