"""Pool autoscaling rule: pools whose held GPUs follow a daily cycle."""

import pytest
from msgspec.structs import replace

from estate_views import MARKET, by_day, pool, restless, steady, view, work
from rightsizer.fleet.model import FleetPool, FleetView, WaitingWork
from rightsizer.fleet.rules.pool_autoscale import RULE
from rightsizer.model.finding import Action, Finding, Reason
from rightsizer.model.workload import WorkloadClass, WorkloadKind


def judged(of: FleetPool | FleetView) -> Finding:
    """The verdict on the only pool."""
    found = of if isinstance(of, FleetView) else view([of])
    (verdict,) = RULE.in_market(MARKET).judge(found)
    return verdict


def test_nodes_come_and_go_with_the_day() -> None:
    """Savings and shortfall are computed on the recorded days."""
    found = judged(pool("daily", by_day(60.0, 14.0), nodes=8))
    assert found.action is Action.AUTOSCALE
    assert found.reasons == (Reason.DIURNAL_AUTOSCALE,)
    assert found.summary == (
        "daily: diurnal load; 4 to 8 nodes instead of 8 would have used 22% fewer node-hours, "
        "short of capacity for 0.0% of the time."
    )
    assert found.evidence["schedule"] == [
        {"from_hour": 21, "to_hour": 8, "nodes": 4},
        {"from_hour": 8, "to_hour": 21, "nodes": 8},
    ]
    assert found.instructions[0].text == ("21:00-08:00 UTC: 4 nodes\n08:00-21:00 UTC: 8 nodes")
    assert "--scale-down-gpu-utilization-threshold" in found.instructions[1].text


def test_only_what_stood_empty_is_saved_for_certain() -> None:
    """Workloads spread over every node keep all nodes until they are packed."""
    packed = judged(pool("daily", by_day(60.0, 14.0), nodes=8))
    spread = {f"daily-{node}": 1 for node in range(8)}
    thin = judged(pool("daily", by_day(60.0, 14.0), nodes=8, free=spread))
    assert packed.savings.gpus_low is not None
    assert packed.savings.gpus_low > 10
    assert thin.savings.gpus_low == 0.0
    assert thin.savings.gpus_high == packed.savings.gpus_high


def test_a_weekend_is_a_cycle_of_its_own() -> None:
    """Days of the week are distinguished once two weeks are known."""

    def course(hour: int) -> float:
        return 14.0 if hour // 24 % 7 in (1, 2, 3) else 60.0  # Friday to Sunday.

    found = judged(view([pool("weekly", course, nodes=8, days=21)], days=21))
    assert found.is_actionable
    assert "Sat " in found.instructions[0].text or "Fri " in found.instructions[0].text


@pytest.mark.parametrize("held", [steady(60.0), restless(14, 60)])
def test_load_without_a_daily_cycle_gets_no_schedule(held: object) -> None:
    """Covers steady load and varying load without a cycle."""
    assert not judged(pool("flat", held, nodes=8)).is_actionable  # type: ignore[arg-type]


def test_nodes_that_were_never_needed_are_left_out_at_every_hour() -> None:
    """A pool with a diurnal load gets a schedule that also omits nodes that were never needed."""
    found = judged(pool("daily", by_day(60.0, 14.0), nodes=16))
    assert found.summary.startswith("daily: diurnal load; 4 to 10 nodes instead of 16 ")


def test_nothing_goes_while_work_waits() -> None:
    """A removed node would be added back at once."""
    waiting = [WaitingWork("ml/next", "daily", 8.0)]
    assert not judged(view([pool("daily", by_day(60.0, 14.0), nodes=8)], (), waiting)).is_actionable


def test_one_node_has_nothing_to_scale() -> None:
    """A single node is either present or the service is not."""
    assert (
        judged(pool("one", by_day(8.0, 1.0), nodes=1)).summary == "one: one node is all it needs."
    )


def test_nodes_of_several_sizes_are_not_counted() -> None:
    """Their count says little about capacity."""
    mixed = pool("mixed", by_day(60.0, 14.0), nodes=8)
    sizes = dict(mixed.size_by_node) | {"mixed-0": 4}
    found = judged(replace(mixed, size_by_node=sizes))
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_less_than_a_week_says_nothing() -> None:
    """A daily cycle may be a weekly one."""
    found = judged(view([pool("new", by_day(60.0, 14.0), nodes=8, days=4)], days=4))
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)


def test_slurm_suspends_nodes() -> None:
    """The action depends on the scheduler of the pool's workloads."""
    job = work("job", "daily", {"daily-0": 8}, WorkloadClass.BATCH, kind=WorkloadKind.SLURM)
    found = judged(view([pool("daily", by_day(60.0, 14.0), nodes=8)], [job]))
    assert "SuspendTime=" in found.instructions[1].text
