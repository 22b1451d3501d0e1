"""The rule for GPUs that wait for the network."""

import pytest
from msgspec.structs import replace

from cases import case, window
from readings import HOUR, workload
from rightsizer.advice.rules.network_bound import RULE
from rightsizer.model.finding import Action, FindingKind, Node, Reason
from rightsizer.model.state import Cause, Condition, State
from rightsizer.model.topology import Adapter, AdapterKind, LinkKind, Topology
from rightsizer.model.window import Window

JOB = workload()


def waiting(hours: float, **facts: object) -> Window:
    """Six hours of work, some of them at the rate of the ports."""
    conditions = {Condition.NETWORK_BOUND: round(hours * HOUR)}
    return window({State.PRODUCTIVE: 6}, conditions=conditions, **facts)


def test_waiting_for_the_network_is_inefficient() -> None:
    """The remedy begins with a check."""
    found = RULE.judge(case([waiting(3.0), waiting(3.0)], JOB))
    assert found.kind is FindingKind.INEFFICIENT
    assert found.reasons == (Reason.NETWORK_BOUND,)
    assert found.action is Action.NONE
    assert found.summary == (
        "GPUs 0 and 1 of llama: held up by the network for 50% of the last 6 h, with the ports "
        "nearest to the GPUs at their rate."
    )
    texts = "\n".join(instruction.text for instruction in found.instructions)
    assert "NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH" in texts
    assert "mpirun -N 2 all_reduce_perf" in texts


@pytest.mark.parametrize(("hours", "is_actionable"), [(1.8, True), (1.7, False)])
def test_three_tenths_of_the_time_make_a_finding(
    hours: float,
    is_actionable: bool,  # noqa: FBT001 - a case.
) -> None:
    """An occasional exchange is normal for collectives."""
    assert RULE.judge(case([waiting(hours)], JOB)).is_actionable == is_actionable


def test_savings_are_at_most_what_no_other_cause_took() -> None:
    """While waiting for the network a GPU still does some of its work."""
    waste = {Cause.HEADROOM: 0.2 * 6 * 3600, Cause.HOST: 0.5 * 6 * 3600}
    found = RULE.judge(case([waiting(3.0, waste_seconds=waste)], JOB))
    assert (found.savings.gpus_low, found.savings.gpus_high) == (0.0, 0.2)


def test_network_finding_names_the_adapters_near_the_gpus() -> None:
    """The nearest fabric port of each GPU; disks are left out."""
    adapters = (
        Adapter("mlx5_1", AdapterKind.INFINIBAND, "1", links={"GPU-0": LinkKind.PIX}),
        Adapter("mlx5_0", AdapterKind.INFINIBAND, "0", links={"GPU-0": LinkKind.SYSTEM}),
        Adapter("nvme0", AdapterKind.NVME, "2", links={"GPU-0": LinkKind.PIX}),
    )
    judged = replace(case([waiting(3.0)], JOB), node=Node(topology=Topology(adapters=adapters)))
    texts = [instruction.text for instruction in RULE.judge(judged).instructions]
    assert "export NCCL_IB_HCA=mlx5_1 NCCL_NET_GDR_LEVEL=PXB" in texts
