"""Reports of workloads: counters over all their devices."""

from readings import EPOCH, SECOND, TRAINING, gpu, snapshot, workload
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.model.report import AgentReport
from rightsizer.model.state import State

GPU = gpu(0)
PEER = gpu(1)
JOB = workload("job")


def test_report_reports_workloads_once_a_minute() -> None:
    """Both devices' seconds are under one name; waste and use sum to them."""
    service = AccountingService(AccountingSettings())
    agent = AgentReport("1", "test", EPOCH, 10.0)
    for at in range(0, 301, 10):
        report = service.post(
            snapshot(
                at,
                [GPU, PEER],
                {GPU: TRAINING, PEER: TRAINING},
                interval_seconds=10.0,
                holders={GPU: JOB, PEER: JOB},
            ),
            (),
            lambda: agent,
        )
    (found,) = report.workloads
    assert (found.workload, found.devices) == (JOB, (GPU.uuid, PEER.uuid))
    assert found.last_seen == EPOCH + 300 * SECOND
    totals = found.totals
    assert totals.state_seconds == {State.COMPUTE_BOUND: 600.0}
    assert totals.used_seconds + sum(totals.waste_seconds.values()) == 600.0
