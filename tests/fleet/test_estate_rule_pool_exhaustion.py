"""Pool exhaustion rule: pools that fill up."""

import pytest

from estate_views import MARKET, growing, pool, restless, steady, view
from rightsizer.fleet.model import FleetPool, FleetView, WaitingWork
from rightsizer.fleet.rules.pool_exhaustion import RULE
from rightsizer.model.finding import Finding, FindingKind, Reason, Severity


def judged(of: FleetPool | FleetView) -> Finding:
    """The verdict on the only pool."""
    found = of if isinstance(of, FleetView) else view([of])
    (verdict,) = RULE.in_market(MARKET).judge(found)
    return verdict


def test_a_pool_that_grows_to_its_end_is_told_when() -> None:
    """The interval of days is derived from the slope's interval."""
    noise = restless(0, 4)

    def course(hour: int) -> float:
        return 20.0 + 1.0 * (hour // 24) + (noise(hour // 24) or 0.0)

    found = judged(pool("filling", course, nodes=8))
    assert found.kind is FindingKind.UNDERPROVISIONED
    assert found.reasons == (Reason.EXHAUSTION_FORECAST,)
    low = found.evidence["days_low"]
    high = found.evidence["days_high"]
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert low < (64 - 35) / 1.0 < high
    assert f"in {low:.0f} to {high:.0f} days" in found.summary
    assert found.savings.gpus_high is None


def test_an_end_within_two_weeks_is_urgent() -> None:
    """New GPUs take longer than that to procure."""
    assert judged(pool("soon", growing(40.0, 1.5), nodes=8)).severity is Severity.CRITICAL
    assert judged(pool("later", growing(20.0, 1.0), nodes=8)).severity is Severity.LOW


@pytest.mark.parametrize(
    "held",
    [steady(60.0), restless(20, 60), growing(20.0, -1.0), growing(4.0, 0.2)],
    ids=["full", "restless", "shrinking", "slow"],
)
def test_pool_not_growing_to_its_end_has_no_forecast(held: object) -> None:
    """Neither does a pool that fills up after the horizon."""
    assert not judged(pool("steady", held, nodes=8)).is_actionable  # type: ignore[arg-type]


def test_less_than_a_week_is_too_little() -> None:
    """A weekend would look like a trend."""
    found = judged(view([pool("new", growing(20.0, 3.0), nodes=8, days=5)], days=5))
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)


def test_work_that_waits_is_evidence() -> None:
    """For some workloads the pool is exhausted already."""
    waiting = [WaitingWork("ml/next", "filling", 16.0)]
    found = judged(view([pool("filling", growing(30.0, 1.5), nodes=8)], (), waiting))
    assert found.evidence["waiting_gpus"] == 16.0
