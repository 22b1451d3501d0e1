"""Clusters by the labels that foreign collectors give their series."""

from array import array
from collections.abc import Sequence
from typing import Final

import pytest

from rightsizer.fleet.clusters import clusters_in, joined, unclear_clusters
from rightsizer.fleet.model import Cluster, FleetDevice, FleetInventory
from rightsizer.fleet.source import SampledSeries
from rightsizer.model.device import Device

HOUR: Final = 3600 * 10**9
NOW: Final = 500_000 * HOUR
Labels = dict[str, str]


class LabeledStore:
    """Series of devices until some hours ago, and of schedulers now."""

    def __init__(
        self, devices: Sequence[tuple[Labels, int]], schedulers: Sequence[Labels] = ()
    ) -> None:
        self._devices = devices
        self._schedulers = schedulers

    def range(self, *_: object) -> list[SampledSeries]:
        """The devices."""
        return [
            SampledSeries(labels, (NOW - hours * HOUR,), array("d", [1.0]))
            for labels, hours in self._devices
        ]

    def instant(self, *_: object) -> list[SampledSeries]:
        """The schedulers."""
        return [SampledSeries(labels, (NOW,), array("d", [1.0])) for labels in self._schedulers]

    def clusters(self, label: str = "") -> tuple[tuple[Cluster, ...], tuple[str, ...]]:
        """What is found in it."""
        return clusters_in(self, label, NOW, 24 * HOUR)


def prod(location: str, project: str = "acme") -> Labels:
    """Labels of Google's managed collection, which adds the cluster's name as the last."""
    return {"project_id": project, "location": location, "cluster": "prod"}


def test_clusters_of_one_name_in_two_locations_are_two() -> None:
    """Google's names are unique in a location alone; what is the same in all is not shown."""
    clusters, _ = LabeledStore([(prod("us-central1"), 0), (prod("europe-west4"), 0)]).clusters()
    assert [(cluster.name, cluster.matchers) for cluster in clusters] == [
        (
            f"{location}/prod",
            f'project_id="acme",location="{location}",cluster="prod"',
        )
        for location in ("europe-west4", "us-central1")
    ]


@pytest.mark.parametrize("labels", [prod("us-central1"), {"cluster": "prod"}])
def test_one_cluster_has_its_own_name(labels: Labels) -> None:
    """Without project and location."""
    assert LabeledStore([(labels, 0)]).clusters()[0] == (Cluster("prod"),)


def test_location_alone_divides_no_cluster() -> None:
    """In other stores it may be a rack."""
    racks = [({"location": f"rack-{n}", "cluster": "prod"}, 0) for n in (1, 2)]
    clusters, _ = LabeledStore([*racks, ({"location": "rack-1", "cluster": "dev"}, 0)]).clusters()
    assert [cluster.name for cluster in clusters] == ["dev", "prod"]
    assert not any("location" in cluster.matchers for cluster in clusters)


@pytest.mark.parametrize("labels", [{}, {"location": "rack-1"}])
def test_project_alone_divides_no_cluster(labels: dict[str, str]) -> None:
    """It may be a label of the pod on the GPU, and change with it."""
    seen = [({"project_id": each, **labels} if each else labels, 0) for each in ("a", "b", "")]
    clusters, _ = LabeledStore(seen).clusters()
    assert [(cluster.name, cluster.matchers) for cluster in clusters] == [("", "")]


def east(region: str) -> Labels:
    """External labels of a Prometheus, on all that it scrapes."""
    return {"cluster": "prod", "region": region}


def test_clusters_of_one_name_in_two_regions_are_two() -> None:
    """Each has schedulers of its own; jobs and pods of one name are different ones."""
    regions = [east("eu"), east("us")]
    clusters, _ = LabeledStore([(region, 0) for region in regions], regions).clusters()
    assert [(cluster.name, cluster.matchers) for cluster in clusters] == [
        ("eu/prod", 'region="eu",cluster="prod"'),
        ("us/prod", 'region="us",cluster="prod"'),
    ]


@pytest.mark.parametrize("schedulers", [[], [{"cluster": "prod"}], [east("eu")]])
def test_a_region_that_schedulers_do_not_tell_divides_no_cluster(schedulers: list[Labels]) -> None:
    """A cluster may stretch over several, by a label of its nodes."""
    store = LabeledStore([(east("eu"), 0), (east("us"), 0)], schedulers)
    assert store.clusters()[0] == (Cluster("prod"),)


def test_several_labels_may_be_set() -> None:
    """The last is the cluster's name within the others."""
    store = LabeledStore([({"team_dc": each, "name": "prod"}, 0) for each in ("a", "b")])
    assert [each.name for each in store.clusters("team_dc, name")[0]] == ["a/prod", "b/prod"]


def test_label_that_is_set_counts_alone() -> None:
    """Whatever else series have."""
    store = LabeledStore([(prod("us-central1"), 0), (prod("europe-west4"), 0)])
    matchers = [each.matchers for each in store.clusters("location")[0]]
    assert matchers == ['location="europe-west4"', 'location="us-central1"']
    assert [each.name for each in store.clusters("location")[0]] == ["europe-west4", "us-central1"]


def test_scheduler_may_spell_the_only_cluster_by_another_label() -> None:
    """OpenTelemetry's label on GPUs, an external label on kube-state-metrics."""
    of_gpus = {"k8s_cluster_name": "prod"}
    other = {"cluster": "prod"}
    assert LabeledStore([(of_gpus, 0)], [other]).clusters() == ((Cluster("prod"),), ())


def test_series_by_another_label_are_left_out_aloud() -> None:
    """Of several clusters, they cannot be selected together."""
    devices = [({"k8s_cluster_name": name}, 0) for name in ("prod", "dev")]
    clusters, (warning,) = LabeledStore(devices, [{"cluster": "prod"}]).clusters()
    assert [cluster.name for cluster in clusters] == ["dev", "prod"]
    assert warning.startswith("Series of schedulers name a cluster (prod) by another label")


@pytest.mark.parametrize("names", [("old", "young"), ("young", "old")])
def test_device_belongs_to_the_cluster_where_it_is_now(names: tuple[str, str]) -> None:
    """After a change of the label, whatever the order of the names."""
    former, present = ({"cluster": name} for name in names)
    clusters, _ = LabeledStore([(former, 12), (present, 0)]).clusters()
    assert [cluster.name for cluster in clusters] == [names[1], names[0]]


def inventory(cluster: Cluster, *uuids: str) -> tuple[Cluster, FleetInventory]:
    """The devices of a cluster."""
    devices = {
        uuid: FleetDevice(Device(uuid=uuid, index=0, name="NVIDIA L4"), "n", "p", cluster.name)
        for uuid in uuids
    }
    return cluster, FleetInventory(devices=devices)


def test_clusters_without_devices_and_devices_of_several_are_reported() -> None:
    """A label was changed, or series are scraped twice; each device counts once."""
    found = [inventory(Cluster("a"), "GPU-0"), inventory(Cluster("b"), "GPU-0", "GPU-1")]
    former, twice = unclear_clusters([inventory(Cluster("former")), *found])
    assert former.startswith("Cluster former has had GPUs within fleet.lookback, but has none now")
    assert twice.startswith("1 GPUs or instances of cluster a are in b, too")
    whole = joined(each for _, each in found)
    assert {uuid: device.cluster for uuid, device in whole.devices.items()} == {
        "GPU-0": "a",
        "GPU-1": "b",
    }
