"""Agents and dcgm-exporters in one fleet: each device once, agents preferred."""

from collections.abc import Sequence
from typing import Any, Final

import pytest
from msgspec.structs import replace

from dcgm_estate import BUSY, NOW, EstatePast, Phase, gpu, stored
from rightsizer.catalogue.catalogue import built_in, mig_instance
from rightsizer.fleet.cache.grid import DAY, Grid
from rightsizer.fleet.context import CompositeSource
from rightsizer.fleet.fetch import PlannedSource, plan_of
from rightsizer.fleet.model import FleetDay, FleetDevice, FleetInventory
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import MetricStore, SourceReport
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.model.device import Device
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import WorkloadKind

pytestmark = pytest.mark.prometheus

H100: Final = "NVIDIA H100 80GB HBM3"
SLICE: Final = mig_instance(built_in().get("H100-SXM5-80GB"), "1g.10gb", gpu(1), 3)


class Agents:
    """A source that watches a whole GPU and a MIG instance with a UUID of its own."""

    name = "rightsizer"

    def probe(self, _store: MetricStore, _now: Nanoseconds, _lookback: Nanoseconds) -> SourceReport:
        """Two devices."""
        return SourceReport(self.name, devices=2)

    def inventory(
        self, _store: MetricStore, _report: SourceReport, _now: Nanoseconds, _lookback: Nanoseconds
    ) -> FleetInventory:
        """Both of them."""
        devices = (Device(gpu(0), 0), Device("MIG-1", 1, mig=SLICE))
        found = (FleetDevice(device, "node-a", "all", seen=(0, NOW)) for device in devices)
        return FleetInventory({each.device.uuid: each for each in found})

    def queries(self, _report: SourceReport, _grids: Sequence[Grid]) -> int:
        """None at all."""
        return 0

    def day(
        self,
        _store: MetricStore,
        _report: SourceReport,
        _devices: Sequence[FleetDevice],
        _grid: Grid,
    ) -> FleetDay:
        """Nothing at all."""
        return FleetDay({})


def past() -> EstatePast:
    """The same two devices, and one without an agent."""
    found = EstatePast()
    found.device([Phase(20, 24, BUSY)], UUID=gpu(0), modelName=H100)
    part = {"GPU_I_ID": "3", "GPU_I_PROFILE": "1g.10gb"}
    found.device([Phase(20, 24, BUSY)], UUID=gpu(1), modelName=H100, **part)
    found.device([Phase(20, 24, BUSY)], UUID=gpu(2), modelName=H100)
    return found


def test_each_device_has_one_source() -> None:
    """A MIG instance is matched by its UUID and by its place on its GPU."""
    composite = CompositeSource([Agents(), DcgmExporterSource()])
    with stored(past()) as store:
        reports = composite.probe(store, NOW, DAY)
        devices = composite.inventory(store, reports, NOW, DAY).devices
    assert {uuid: device.source for uuid, device in devices.items()} == {
        gpu(0): "rightsizer",
        "MIG-1": "rightsizer",
        gpu(2): "dcgm-exporter",
    }
    names = [source.name for source, _ in composite.readers(reports)]
    assert names == ["rightsizer", "dcgm-exporter"]


def test_only_the_wanted_sources_are_asked() -> None:
    """The operator selects the sources."""
    settings = FleetSettings(sources=("dcgm-exporter",))
    composite = CompositeSource([Agents(), DcgmExporterSource()], settings)
    with stored(past()) as store:
        reports = composite.probe(store, NOW, DAY)
        devices = composite.inventory(store, reports, NOW, DAY).devices
    assert [report.source for report in reports] == ["dcgm-exporter"]
    assert set(devices) == {gpu(0), f"{gpu(1)}/gi3", gpu(2)}


class SomeAgents(Agents):
    """An agent that came yesterday, and one that is gone since."""

    def inventory(
        self, _store: MetricStore, _report: SourceReport, _now: Nanoseconds, _lookback: Nanoseconds
    ) -> FleetInventory:
        """When they were seen, to the day."""
        seen = {0: (NOW - DAY, NOW), 2: (NOW - 3 * DAY, NOW - DAY)}
        devices = {
            gpu(number): FleetDevice(Device(gpu(number), 0), "node-a", "all", seen=times)
            for number, times in seen.items()
        }
        return FleetInventory(devices)


def test_exporter_reads_the_days_before_an_agent_came_and_after_it_left() -> None:
    """Nodes get agents one by one, and lose no history by it."""
    composite = CompositeSource([SomeAgents(), DcgmExporterSource()])
    with stored(past()) as store:
        reports = composite.probe(store, NOW, DAY)
        devices = composite.inventory(store, reports, NOW, DAY).devices
    assert (devices[gpu(0)].source, devices[gpu(0)].former) == ("rightsizer", "dcgm-exporter")
    assert (devices[gpu(2)].source, devices[gpu(2)].former) == ("dcgm-exporter", "")

    (_, report) = composite.readers(reports)[1]
    report = replace(report, oldest=NOW - 5 * DAY)
    source = PlannedSource(report, (devices[gpu(0)],))
    settings = FleetSettings()
    plan = plan_of([source], lambda _, __: {}, NOW, settings)
    last = (NOW - 1) // DAY
    assert {shard.grid.day for shard in plan.shards} == {*range(last - 4, last - 1)}


def test_what_is_down_now_tells_what_it_told_last() -> None:
    """Pools and teams are as of then, work that waited may be done, and who is there wins."""
    past = EstatePast(interval_seconds=120)
    node = {"node": "node-a"}
    pod = {"namespace": "ml", "pod": "chat-6b7f7c9c8d-x5k2m"}
    late = {"namespace": "ml", "pod": "late-x5k2m"}
    request = {**late, "container": "main", "resource": "nvidia_com_gpu"}
    past.device([Phase(0, 24, BUSY)], UUID=gpu(0), modelName=H100, Hostname="node-a", **pod)
    past.series("kube_node_labels", {**node, "label_node_pool": "large"}, 1, 0, 20)
    past.series("kube_pod_labels", {**pod, "label_team": "talkers"}, 1, 0, 20)
    past.series("kube_pod_status_phase", {**late, "phase": "Pending"}, 1, 0, 20)
    past.series("kube_pod_container_resource_requests", request, 1, 0, 20)
    past.series("slurm_node_info", {**node, "partition": "old"}, 1, 0, 5)
    past.series("slurm_job_info", {"job_id": "7", "account": "physics"}, 1, 0, 5)
    composite = CompositeSource([DcgmExporterSource()], FleetSettings())
    with stored(past) as store:
        reports = composite.probe(store, NOW, DAY)
        found = composite.inventory(store, reports, NOW, DAY)
    (device,) = found.devices.values()
    assert (device.pool, device.scheduler) == ("large", WorkloadKind.KUBERNETES)
    assert found.teams["kubernetes:ml/chat"] == "talkers"
    assert found.waiting == ()
    (kubernetes,) = (report for report in reports if report.source == "kube-state-metrics")
    assert kubernetes.can == ()
    assert kubernetes.warnings[0].startswith("No series for 4 h: what it tells is as of then")


class Forgetful:
    """A store that counts what it lacks."""

    def __init__(self, store: MetricStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        """Answer as the store."""
        return getattr(self._store, name)

    def range(self, query: str, *span: Nanoseconds) -> Any:
        """Count whatever there is."""
        is_count = query.startswith("count(last_over_time(")
        return self._store.range("count(DCGM_FI_DEV_GPU_UTIL)" if is_count else query, *span)


def test_a_source_that_never_was_there_has_no_warning() -> None:
    """Nothing ended, and nothing is as of then."""
    composite = CompositeSource([DcgmExporterSource()], FleetSettings())
    with stored(past()) as store:
        reports = composite.probe(Forgetful(store), NOW, DAY)
    _, *others = reports
    assert not any(report.metrics or report.warnings for report in others)
