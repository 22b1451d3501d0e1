"""Nodes of GPUs, by what exporters and scrapes report as their host."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pytest

from dcgm_estate import BUSY, NOW, EstatePast, Phase, gpu, stored
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.source import MetricStore, SampledSeries, StoreUse
from rightsizer.fleet.sources.dcgm_exporter.holdings import pods_of_exporters
from rightsizer.fleet.sources.dcgm_exporter.inventory import node_of, shared_hosts
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.model.errors import StoreLimitError
from rightsizer.model.units import Nanoseconds

BOARD: Final = {"modelName": "NVIDIA H100 80GB HBM3"}


def test_a_node_is_the_host_not_the_exporter_s_pod() -> None:
    """Exporters without the host's network report their pod's name as the host."""
    labels = {"Hostname": "dcgm-exporter-sn5rp", "instance": "10.0.0.7:9400"}
    assert node_of(labels, {"dcgm-exporter-sn5rp": "node-a"}) == "node-a"
    assert node_of(labels, {}) == "10.0.0.7"
    assert node_of({**labels, "kubernetes_node": "node-b"}, {}) == "node-b"


@pytest.mark.parametrize("label", ["pod", "exported_pod", "pod_name"])
def test_a_host_named_like_the_pod_is_no_node(label: str) -> None:
    """A cloud reports each GPU's pod as its host, and exporters' pods may have any name."""
    labels = {"Hostname": "llm-0", label: "llm-0", "instance": "10.0.0.7:9400"}
    assert node_of(labels, {"llm-0": "node-a"}) == "node-a"
    assert node_of(labels, {}) == "10.0.0.7"
    assert node_of({**labels, "NodeName": "node-b"}, {"llm-0": "node-a"}) == "node-b"
    assert node_of({**labels, label: "llm-1"}, {}) == "llm-0"


def test_host_of_a_pod_is_no_container() -> None:
    """Machines may be named by their hardware address."""
    labels = {"Hostname": "3cecef4a90de", "instance": "10.0.0.7:9400", "pod": "llm-0"}
    assert node_of(labels, {}) == "3cecef4a90de"


@pytest.mark.parametrize(
    ("host", "instance", "node"),
    [
        ("3f2a9c81d0be", "gpu-07.example.org:9400", "gpu-07.example.org"),
        ("3f2a9c81d0be", "localhost:9400", "3f2a9c81d0be"),
        ("3f2a9c81d0be", "dcgm-exporter:9400", "3f2a9c81d0be"),
        ("10.0.0.5", "monitor:9401", "10.0.0.5"),
        ("gpu-07", "10.0.0.5:9400", "gpu-07"),
    ],
)
def test_host_of_a_container_is_its_machine(host: str, instance: str, node: str) -> None:
    """Docker's name of a container changes at each start; an exporter may be on another machine."""
    assert node_of({"Hostname": host, "instance": instance}, {}) == node


def test_host_is_shared_by_different_gpus_of_one_index() -> None:
    """Two exporters of a machine report the same GPUs, or others."""
    labels = [
        {"Hostname": host, "instance": f"{instance}:9400", "UUID": gpu(number), "gpu": index}
        for host, instance, number, index in (
            ("localhost", "a", 0, "0"),
            ("localhost", "b", 1, "0"),
            ("twice", "c", 2, "0"),
            ("twice", "d", 2, "0"),
            ("divided", "e", 3, "0"),
            ("divided", "f", 4, "1"),
            ("exchanged", "g", 5, "0"),
            ("exchanged", "g", 6, "0"),
        )
    ]
    assert shared_hosts(labels) == {"localhost"}


@pytest.mark.prometheus
@pytest.mark.parametrize("host", ["nvidia-dcgm", "localhost", "10.0.0.{number}"])
def test_address_of_dcgm_is_no_node(host: str) -> None:
    """With `-r` the exporter reports it as its host; the exporter's pod tells the node."""
    past = EstatePast(interval_seconds=120)
    nodes = ("gpu-a", "gpu-b")
    for number, node in enumerate(nodes):
        own = {"pod": f"nvidia-dcgm-exporter-x2x4{number}", "namespace": "gpu-operator"}
        scraped = {"instance": f"10.1.0.{number}:9400", "Hostname": host.format(number=number)}
        pod = {"exported_pod": f"train-{number}", "exported_namespace": "ml"}
        past.device(
            [Phase(20, 24, BUSY, pod)], **BOARD, **own, **scraped, UUID=gpu(number), gpu="0"
        )
        past.series("kube_pod_info", {**own, "node": node}, 1, 20)
    source = DcgmExporterSource()
    with stored(past) as store:
        report = source.probe(store, NOW, DAY)
        devices = source.inventory(store, report, NOW, DAY).devices.values()

    assert [device.node for device in devices] == [*nodes]
    is_shared = "number" not in host
    assert any(warning.startswith("Nodes of one name") for warning in report.warnings) is is_shared


@pytest.mark.prometheus
def test_node_that_is_still_scraped_is_awaited() -> None:
    """One whose target is gone may have been given back, and an address may have a new node."""
    past = EstatePast(interval_seconds=120)
    for number, (node, address, last) in enumerate(
        (("here", "a", 24), ("down", "b", 12), ("returned", "c", 12), ("former", "a", 12))
    ):
        scraped = {"instance": f"{address}:9400", "job": "dcgm"}
        past.device(
            [Phase(0, last, BUSY)], **BOARD, **scraped, Hostname=node, UUID=gpu(number), gpu="0"
        )
    for address, is_up in (("a", 1), ("b", 0)):
        past.series("up", {"instance": f"{address}:9400", "job": "dcgm"}, is_up)
    past.series("up", {"instance": "c:9400", "job": "node"}, 1)
    source = DcgmExporterSource()
    with stored(past) as store:
        report = source.probe(store, NOW, DAY)
        devices = source.inventory(store, report, NOW, DAY).devices.values()

    awaited = {device.node: device.is_awaited for device in devices}
    assert awaited == {"here": False, "down": True, "returned": False, "former": False}


@dataclass
class SmallStore:
    """A store that answers queries about devices only if they have some digits of uuids."""

    store: MetricStore
    digits: int
    use: StoreUse = field(default_factory=StoreUse)

    def range(
        self, promql: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
    ) -> Sequence[SampledSeries]:
        """Refuse what is about too many devices."""
        if "DCGM_FI" in promql and self.digits > 0:
            raise StoreLimitError("it allows 5 series")
        return self.store.range(promql, start, end, step)

    def instant(self, promql: str, time: Nanoseconds) -> Sequence[SampledSeries]:
        """Answer as the whole store does."""
        return self.store.instant(promql, time)

    def within(self, matchers: str) -> "SmallStore":
        """Count the digits."""
        return SmallStore(self.store.within(matchers), self.digits - 1)


@pytest.mark.prometheus
def test_pods_of_exporters_are_found_by_parts_of_a_fleet() -> None:
    """A fleet too large for one answer has them as well; a store that refuses even parts fails."""
    past = EstatePast(interval_seconds=120)
    for number in (0, 0x10000000):
        scraped = {"instance": f"{number}:9400", "job": "dcgm"}
        past.device([Phase(0, 6, BUSY)], **scraped, UUID=gpu(number))
        past.series("up", {**scraped, "pod": f"telemetry-{number}"}, 1, 0, 6)
        past.series("up", {**scraped, "pod": "later"}, 1, 12)
        past.series("up", {**scraped, "job": "other", "pod": "llm-0"}, 1)
    past.series("up", {"instance": "b:9400", "job": "dcgm", "pod": "without-gpu"}, 1)
    asked = '__name__="DCGM_FI_DEV_FB_USED"', (NOW - DAY, NOW)
    with stored(past) as store:
        for digits in (0, 1):
            pods = pods_of_exporters(SmallStore(store, digits), *asked)
            assert pods == {"telemetry-0", "telemetry-268435456"}
        with pytest.raises(StoreLimitError):
            pods_of_exporters(SmallStore(store, 2), *asked)
