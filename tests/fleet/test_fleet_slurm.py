"""Slurm's exporters: jobs' names, accounts, partitions, and the queue."""

from collections.abc import Iterator

import pytest

from dcgm_estate import BUSY, NOW, EstatePast, Phase, gpu, stored
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.model import FleetInventory
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.fleet.sources.slurm import SlurmState
from rightsizer.model.workload import WorkloadKind

pytestmark = pytest.mark.prometheus


@pytest.fixture(scope="module")
def store() -> Iterator[PrometheusStore]:
    """Two jobs in two kinds of exporters, and a queue that two Prometheus scrape.

    Only dcgm-exporter names nodes with their domain.
    """
    past = EstatePast(interval_seconds=120)
    for number, job in enumerate(("4711", "4712")):
        past.device(
            [Phase(20, 24, BUSY, {"hpc_job": job})],
            UUID=gpu(number),
            Hostname="gpu-1.example.org",
            modelName="NVIDIA H100 80GB HBM3",
        )
    past.series(
        "slurm_job_utilization_gpu",
        {"slurmjobid": "4711", "user": "ada", "account": "physics", "gpu": "0"},
        90,
        20,
    )
    past.series("slurm_job_info", {"job_id": "4711", "job_name": "lattice"}, 1, 20)
    past.series("slurm_job_info", {"job_id": "4712", "user": "eve", "partition": "gpu"}, 1, 20)
    past.series("slurm_node_cpu_total", {"node": "gpu-1", "partition": "gpu"}, 96, 20)
    for replica in ("a", "b"):
        for partition, count in (("gpu", 3), ("cpu", 0)):
            labels = {"partition": partition, "replica": replica, "instance": replica}
            past.series("slurm_partition_jobs_pending", labels, count, 20)
    with stored(past) as found:
        yield found


@pytest.fixture(scope="module")
def enriched(store: PrometheusStore) -> FleetInventory:
    """The fleet enriched with Slurm's data."""
    source = DcgmExporterSource()
    report = source.probe(store, NOW, DAY)
    return SlurmState().enrich(store, source.inventory(store, report, NOW, DAY), NOW, DAY)


def test_jobs_have_names_and_teams(enriched: FleetInventory) -> None:
    """Data of several exporters on one job is merged; the team is the user where no account is."""
    assert enriched.workloads["slurm:4711"].name == "lattice"
    assert enriched.teams == {"slurm:4711": "physics", "slurm:4712": "eve"}


def test_a_partition_is_a_pool(enriched: FleetInventory) -> None:
    """It has the partition's nodes, which no other scheduler uses."""
    found = {(device.pool, device.scheduler) for device in enriched.devices.values()}
    assert found == {("gpu", WorkloadKind.SLURM)}


def test_jobs_wait_by_partition(enriched: FleetInventory) -> None:
    """Each job needs at least one GPU; a queue that is scraped twice counts once."""
    (waiting,) = enriched.waiting
    assert (waiting.key, waiting.pool, waiting.gpus) == ("gpu", "gpu", 3)


def test_the_probe_says_what_slurm_tells(store: PrometheusStore) -> None:
    """Missing metrics are reported too."""
    report = SlurmState().probe(store, NOW)
    assert len(report.can) == 2
    assert report.cannot == (
        "A waiting job counts as one GPU: no exporter tells how many it asks for.",
    )


def test_no_slurm_is_no_report(store: PrometheusStore) -> None:
    """The report has no statement on Slurm without its metrics."""
    report = SlurmState().probe(store, NOW - 3 * DAY)
    assert (report.metrics, report.can, report.cannot) == (frozenset(), (), ())
