"""Pending GPU jobs in each Slurm exporter's format, and jobs that only seem to wait."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from dcgm_estate import BUSY, NOW, EstatePast, Phase, gpu, stored
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.model import WaitingWork
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.fleet.sources.slurm import SlurmState

pytestmark = pytest.mark.prometheus

LATE: Final = 23
"""First hour at which the exporter is scraped."""


def slurmctld(past: EstatePast) -> None:
    """Slurm's own page: src/plugins/metrics/openmetrics/openmetrics.c of SchedMD/slurm.

    Held jobs count among pending ones: `_statistics_part_aggregate_job` of
    src/slurmctld/statistics.c. GPUs are exported since 26.05.
    """
    for partition, pending, held, gpus in (("gpu", 9, 4, 8), ("cpu", 50, 0, 0)):
        labels = {"partition": partition}
        past.series("slurm_partition_jobs_pending", labels, pending, LATE)
        past.series("slurm_partition_jobs_hold", labels, held, LATE)
        past.series("slurm_partition_gpus", labels, gpus, LATE)


def sckyzo(past: EstatePast) -> None:
    """docs/metric-surface.md of SckyzO/slurm_exporter 1.9: by user and reason of squeue."""
    for user, partition, reason, count in (
        ("ada", "gpu", "Resources", 3),
        ("eve", "gpu", "Priority", 2),
        ("eve", "gpu", "Dependency", 7),
        ("eve", "gpu", "DependencyNeverSatisfied", 1),
        ("ada", "gpu", "JobHeldUser", 11),
        ("ada", "gpu", "BeginTime", 13),
        ("ada", "cpu", "Resources", 40),
    ):
        labels = {"user": user, "partition": partition, "reason": reason}
        past.series("slurm_queue_pending", labels, count, LATE)
    for partition, count in (("gpu", 1), ("cpu", 0)):
        for state in ("idle", "allocated"):
            name = f"slurm_partition_gpus_{state}"
            past.series(name, {"partition": partition}, count, LATE)


def former_sckyzo(past: EstatePast) -> None:
    """Before 1.9: squeue's list of partitions, sinfo's star, and no GPUs of partitions.

    internal/collector/node_default_partition_test.go documents the star, docs/metrics.md the list.
    """
    for partition, count in (("gpu", 2), ("cpu,gpu", 3), ("cpu", 40)):
        labels = {"user": "ada", "partition": partition, "reason": "Resources"}
        past.series("slurm_queue_pending", labels, count, LATE)
    for node, partition in (("gpu-1", "gpu*"), ("cpu-1", "cpu"), ("cpu-2", "cpu")):
        labels = {"node": node, "partition": partition, "status": "mixed"}
        past.series("slurm_node_cpu_total", labels, 96, LATE)


def rivosinc(past: EstatePast) -> None:
    """exporter/jobs.go of rivosinc/prometheus-slurm-exporter: by partition and state."""
    for state, count in (("PENDING", 5), ("RUNNING", 70)):
        labels = {"partition": "gpu", "state": state}
        past.series("slurm_partition_job_state_total", labels, count, LATE)


def soperator(past: EstatePast) -> None:
    """docs/slurm-exporter.md of nebius/soperator: a series for each job, in any state."""
    past.series("slurm_node_partition", {"node_name": "gpu-1", "partition": "gpu"}, 1, LATE)
    for number, (state, reason) in enumerate(
        [("PENDING", "Resources")] * 5
        + [("PENDING", "JobHeldAdmin"), ("PENDING", "Dependency"), ("RUNNING", "None")]
    ):
        labels = {
            "job_id": str(number),
            "job_state": state,
            "job_state_reason": reason,
            "slurm_partition": "gpu",
            "user_name": "ada",
        }
        past.series("slurm_job_info", labels, 1, LATE)


EXPORTERS: Final = (slurmctld, sckyzo, former_sckyzo, rivosinc, soperator)


@contextmanager
def store_with(*by: Callable[[EstatePast], None]) -> Iterator[PrometheusStore]:
    """A node with a GPU, and an exporter's metrics."""
    past = EstatePast(interval_seconds=120)
    past.device(
        [Phase(LATE, 24, BUSY)], UUID=gpu(0), Hostname="gpu-1", modelName="NVIDIA H100 80GB HBM3"
    )
    for each in by:
        each(past)
    with stored(past) as store:
        yield store


def waiting(store: PrometheusStore) -> tuple[WaitingWork, ...]:
    """Work that waits now."""
    source = DcgmExporterSource()
    estate = source.inventory(store, source.probe(store, NOW, DAY), NOW, DAY)
    return SlurmState().enrich(store, estate, NOW, DAY).waiting


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_job_that_a_free_gpu_would_start_is_waiting(exporter: Callable[[EstatePast], None]) -> None:
    """Of five jobs, held ones, ones with a later start, and ones without GPUs do not wait."""
    with store_with(exporter) as store:
        assert waiting(store) == (WaitingWork("gpu", "gpu", 5.0),)
        assert "How many jobs wait is known by partition." in SlurmState().probe(store, NOW).can


@pytest.mark.parametrize("label", ["__replica__", "pod", "prometheus_replica"])
def test_jobs_that_are_scraped_twice_wait_once(label: str) -> None:
    """By two replicas of Prometheus, or from two of the exporter."""

    def twice(past: EstatePast) -> None:
        for value in ("a", "b"):
            labels = {"partition": "gpu", label: value}
            past.series("slurm_partition_jobs_pending", labels, 5, LATE)

    with store_with(twice) as store:
        assert waiting(store) == (WaitingWork("gpu", "gpu", 5.0),)


def test_a_queue_without_partitions_is_known_as_a_whole() -> None:
    """queue.go of vpenso/prometheus-slurm-exporter, which exports jobs with dependencies."""

    def vpenso(past: EstatePast) -> None:
        past.series("slurm_queue_pending", {}, 9, LATE)
        past.series("slurm_queue_pending_dependency", {}, 4, LATE)

    with store_with(vpenso) as store:
        assert waiting(store) == (WaitingWork("slurm", "", 5.0),)


def test_a_queue_waits_for_the_pool_that_its_nodes_are_in() -> None:
    """A node in two partitions is in the pool of the first by name."""

    def two(past: EstatePast) -> None:
        for partition in ("gpu", "debug"):
            labels = {"node": "gpu-1", "partition": partition}
            past.series("slurm_node_cpu_total", labels, 96, LATE)
        past.series("slurm_partition_jobs_pending", {"partition": "gpu"}, 5, LATE)

    with store_with(two) as store:
        assert waiting(store) == (WaitingWork("gpu", "debug", 5.0),)


def test_jobs_wait_for_gpus_that_are_drained() -> None:
    """They are neither idle nor allocated, while the node's own telemetry shows them."""

    def drained(past: EstatePast) -> None:
        for state in ("idle", "allocated"):
            past.series(f"slurm_partition_gpus_{state}", {"partition": "gpu"}, 0, LATE)
        past.series("slurm_node_cpu_total", {"node": "gpu-1", "partition": "gpu"}, 96, LATE)
        past.series("slurm_queue_pending", {"partition": "gpu", "reason": "Resources"}, 5, LATE)

    with store_with(drained) as store:
        assert waiting(store) == (WaitingWork("gpu", "gpu", 5.0),)


def test_held_jobs_of_one_queue_hide_none_of_another() -> None:
    """Two values of one scrape may contradict each other."""

    def uneven(past: EstatePast) -> None:
        for partitions, pending, held in (("gpu", 5, 0), ("gpu,large", 1, 4)):
            labels = {"partition": partitions}
            past.series("slurm_partition_jobs_pending", labels, pending, LATE)
            past.series("slurm_partition_jobs_hold", labels, held, LATE)

    with store_with(uneven) as store:
        assert waiting(store) == (WaitingWork("gpu", "gpu", 5.0),)


def test_a_queue_of_nothing_but_held_jobs_is_empty() -> None:
    """It is not looked up in less exact metrics."""

    def held(past: EstatePast) -> None:
        past.series("slurm_partition_jobs_pending", {"partition": "gpu"}, 4, LATE)
        past.series("slurm_partition_jobs_hold", {"partition": "gpu"}, 4, LATE)
        rivosinc(past)

    with store_with(held) as store:
        assert waiting(store) == ()
