"""Two clusters of one store with equal names of nodes, pods and workloads are never mixed."""

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from estate.layout import EAST, WEST
from estate.life import live
from estate.series import Pairs, Run
from estate.stores import Source, filled_victoria
from estate.truth import Metrics
from evaluation.fleet.estate import START, sources_of
from fleet_command import asked_in_process, configured
from prometheus_server import Prometheus
from rightsizer.config.loader import load_file
from rightsizer.fleet.answers import merged
from rightsizer.fleet.clusters import clusters_in
from rightsizer.fleet.encoder import fleet_gauges
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.model import Cluster
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.settings import FleetConfig, StoreSettings
from rightsizer.fleet.source import SampledSeries
from rightsizer.io.clock import FastClock

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(240)]

DAYS: Final = 2
END: Final = START + DAYS * 86400
ONE_STYLE: Final[dict[str, str]] = {"matchers": 'style="cluster"', "lookback": f"{DAYS - 1}d"}
CHAT: Final = "kubernetes:production/chat-api"
STYLES: Final = {
    "cluster": Metrics.OWN,
    "k8s_cluster": Metrics.DCGM,
    # External labels that a Thanos or a Prometheus adds to its series.
    "region": Metrics.OWN,
}


def in_cluster(source: Source, cluster: str, labels: Pairs) -> Source:
    """The same samples of other GPUs, with labels that an agent's scraper or a store adds."""

    def runs(first: int, last: int) -> Iterator[Run]:
        return _marked(source(first, last), cluster, labels)

    return runs


def _marked(runs: Iterable[Run], cluster: str, labels: Pairs) -> Iterator[Run]:
    for run in runs:
        own = (
            (name, value.replace("GPU-", f"GPU-{cluster}-") if name.lower() == "uuid" else value)
            for name, value in run.labels
        )
        yield replace(run, labels=(*own, *labels))


@pytest.fixture(scope="module")
def server() -> Iterator[Prometheus]:
    """Both clusters in each style; a label of the test distinguishes the styles."""
    sources = []
    lives = []
    for layout in (EAST, WEST):
        life = replace(live(layout, DAYS, START, tick_seconds=300, variants=1), fine_hours=1)
        lives.append(life)
        for style, metrics in STYLES.items():
            labels = ((style, layout.name), ("style", style))
            sources += [
                in_cluster(source, f"{style[0]}{layout.name}", labels)
                for source in sources_of(life, metrics)
            ]
    with filled_victoria(lives[0], *sources) as found:
        yield found


@pytest.fixture(scope="module", params=STYLES)
def document(
    server: Prometheus, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, Any]:
    """The command's answer, with every verdict."""
    style = request.param
    own = {"cluster_label": style} if style == "region" else {}
    settings = {"matchers": f'style="{style}"', "lookback": f"{DAYS - 1}d", **own}
    config = configured(tmp_path_factory.mktemp(style), server.url, **settings)
    return asked_in_process(config, "--json", "--all", "--at", str(END)).document


@pytest.fixture
def config(server: Prometheus, tmp_path: Path) -> Path:
    """A configuration of the clusters of one style, with files of the test's own."""
    return configured(tmp_path, server.url, **ONE_STYLE)


def test_each_cluster_has_its_own_sums(document: dict[str, Any]) -> None:
    """GPUs, pools and workloads by cluster sum to the totals."""
    clusters = {each["name"]: each for each in document["clusters"]}
    assert {name: each["gpus"] for name, each in clusters.items()} == {"east": 6, "west": 3}
    assert {name: each["workloads"] for name, each in clusters.items()} == {"east": 2, "west": 2}
    assert sum(each["gpus"] for each in clusters.values()) == document["gpus"]
    assert {(each["cluster"], each["name"]) for each in document["pools"]} == {
        ("east", "east/serve"),
        ("east", "east/spare"),
        ("west", "west/serve"),
    }
    for name, cluster in clusters.items():
        own = [pool for pool in document["pools"] if pool["cluster"] == name]
        for key in ("gpus", "nodes", "free_now"):
            assert cluster[key] == sum(pool[key] for pool in own)


def test_no_verdict_is_about_two_clusters(document: dict[str, Any]) -> None:
    """Devices of a verdict belong to the cluster in its key."""
    found = [each for each in document["findings"] if each["devices"]]
    assert {each["key"].partition("/")[0] for each in found} >= {"east", "west"}
    for each in found:
        places = {uuid.split("-")[1][1:] for uuid in each["devices"]}
        assert len(places) == 1
        if "/" in each["key"]:
            assert places == {re.sub("^(pool|nodes?)/", "", each["key"]).partition("/")[0]}


def test_a_service_is_judged_by_its_own_cluster(document: dict[str, Any]) -> None:
    """It idles in one cluster and works in the other."""
    idle = {each["key"]: each for each in document["findings"] if each["rule"] == "idle"}
    assert idle[f"west/{CHAT}"]["reasons"] == ["IdleHeld"]
    assert len(idle[f"west/{CHAT}"]["devices"]) == 2
    assert idle[f"east/{CHAT}"]["reasons"] == []


def test_work_is_offered_no_node_of_another_cluster(document: dict[str, Any]) -> None:
    """Work waiting in one cluster stays there, though the other has free GPUs of its board."""
    (each,) = (each for each in document["waiting_work"] if each["key"].endswith("/summarize"))
    assert (each["cluster"], each["key"]) == ("west", "west/kubernetes:production/summarize")
    assert {offer["pool"] for offer in each["offers"]} <= {"west/serve"}
    assert sum(offer["gpus"] for offer in each["offers"] if offer["is_now"]) == 0
    waits = {each["name"]: each["waiting_gpus"] for each in document["clusters"]}
    assert waits["west"] == waits["east"] + 1


def test_teams_are_those_of_a_cluster(document: dict[str, Any]) -> None:
    """The same team has a row for each cluster."""
    rows = {(each["cluster"], each["team"]): each["held_gpu_hours"] for each in document["teams"]}
    assert rows["east", "chat"] == pytest.approx(rows["west", "chat"], rel=0.01)
    assert ("east", "search") in rows


def test_sources_are_reported_by_cluster(document: dict[str, Any]) -> None:
    """Each cluster's devices are counted, none twice."""
    devices = {}
    for each in document["sources"]:
        devices[each["cluster"]] = devices.get(each["cluster"], 0) + each["devices"]
    assert devices == {"east": 6, "west": 3}


@pytest.mark.parametrize("document", ["cluster"], indirect=True)
def test_shards_that_are_merged_answer_as_a_single_look(
    config: Path, tmp_path: Path, document: dict[str, Any]
) -> None:
    """Rows are equal for any assignment of clusters; each shard has its own cache and ledger."""
    parts = [
        asked_in_process(
            config, "--json", "--all", "--at", str(END), "--shard", f"{shard}/3"
        ).document
        for shard in range(3)
    ]
    names = [[row["name"] for row in part["clusters"]] for part in parts]
    assert names == [[], ["east"], ["west"]]
    assert {each.name for each in tmp_path.glob("*.db")} == {f"fleet-{n}-of-3.db" for n in (1, 2)}
    whole = merged(parts, ["0", "1", "2"], 3600.0)
    assert whole.keys() == document.keys()
    for name in whole.keys() - {"use", "notes", "evidence"}:
        if isinstance(whole[name], list):
            assert sorted(whole[name], key=str) == sorted(document[name], key=str), name
        else:
            assert whole[name] == _nearly(document[name]), name


@pytest.mark.parametrize("document", ["cluster"], indirect=True)
def test_shards_of_the_nodes_of_all_clusters_answer_as_a_single_look(
    config: Path, tmp_path: Path, document: dict[str, Any]
) -> None:
    """A node is of its cluster: both have one of the same name."""
    for shard in range(2):
        asked_in_process(config, "--at", str(END), "--shard", f"node:{shard}/2")
    caches = sorted(map(str, tmp_path.glob("fleet-*-of-2.db")))
    assert len(caches) == 2
    found = asked_in_process(config, "merge", *caches, "--json", "--all", "--at", str(END))
    assert found.document | {"use": 0} == document | {"use": 0}


@pytest.mark.parametrize("form", ["{}/3", "node:{}/3"])
def test_metrics_of_shards_sum_to_those_of_a_single_look(
    server: Prometheus, tmp_path: Path, form: str
) -> None:
    """Shares of time excepted, which are no sums; shards of the nodes export by their merge."""

    def exported(name: str, shard: str = "", parts: Sequence[Path] = ()) -> Counter[str]:
        (tmp_path / name).mkdir()
        file = configured(tmp_path / name, server.url, shard=shard, **ONE_STYLE)
        config = load_file(FleetConfig, file)
        with FleetJudge(config, FastClock(END * 10**9), parts=parts) as judge:
            if config.fleet.part.is_by_node:
                judge.read()
                return Counter()
            judge.run()
            gauges = fleet_gauges(judge.answer, config.fleet.exported_maximum)
            return Counter({key: value for key, value in gauges.items() if "_ratio" not in key})

    single = exported("single")
    shards = [exported(str(n), form.format(n)) for n in range(3)]
    merged = exported("merged", parts=sorted(tmp_path.glob("?/*.db"))) if "node" in form else None
    assert single['rightsizer_fleet_source_devices{source="rightsizer"}'] == 9
    found = +(merged or sum(shards, Counter()))
    assert found == pytest.approx(+single)


def _nearly(value: Any) -> Any:
    """Equal numbers, up to the order of summation."""
    if isinstance(value, dict):
        return {key: _nearly(each) for key, each in value.items()}
    if isinstance(value, list):
        return list(map(_nearly, value))
    return pytest.approx(value) if isinstance(value, float) else value


def test_the_text_has_a_row_for_each_cluster(config: Path, tmp_path: Path) -> None:
    """There are also rows of the pools, whose names begin with the cluster."""
    said = asked_in_process(config, "--at", str(END), "--html", str(tmp_path / "page.html")).out
    lines = [line.split() for line in said.splitlines()]
    assert ["east", "2", "2", "6"] in [line[:4] for line in lines]
    assert ["west", "1", "1", "3"] in [line[:4] for line in lines]
    assert any(line[:1] == ["east/chat"] for line in lines)
    assert "west/serve" in (tmp_path / "page.html").read_text()


def test_a_fleet_of_one_cluster_keeps_plain_names(server: Prometheus) -> None:
    """The only cluster of a store needs no selector."""
    with_one = PrometheusStore(StoreSettings(url=server.url), 'style="cluster",cluster="east"')
    clusters, warnings = clusters_in(with_one, "", END * 10**9, 86400 * 10**9)
    assert clusters == (Cluster("east"),)
    assert warnings == ()


def test_series_of_no_cluster_are_one_of_their_own(server: Prometheus) -> None:
    """Matchers are mutually exclusive, whatever other labels series have."""
    store = PrometheusStore(StoreSettings(url=server.url), 'style=~"cluster|region"')
    clusters, _ = clusters_in(store, "", END * 10**9, 86400 * 10**9)
    assert clusters == (
        Cluster("", "", 'cluster=""'),
        Cluster("east", "east", 'cluster="east"'),
        Cluster("west", "west", 'cluster="west"'),
    )


class Federated:
    """A Mimir that is queried for two tenants, each with a cluster of the same name."""

    def range(self, *_: object) -> list[SampledSeries]:
        """Its devices."""
        return [
            SampledSeries({"__tenant_id__": tenant, "cluster": "prod"}, (1,), array("d", [1.0]))
            for tenant in ("a", "b")
        ]

    def instant(self, *_: object) -> list[SampledSeries]:
        """A scheduler without a cluster label."""
        return [SampledSeries({"__tenant_id__": "a"}, (1,), array("d", [1.0]))]


def test_tenants_have_clusters_of_their_own() -> None:
    """Names contain both; what cannot be attributed is left out and reported."""
    clusters, warnings = clusters_in(Federated(), "", END * 10**9, 86400 * 10**9)
    assert [(cluster.name, cluster.matchers) for cluster in clusters] == [
        ("a/prod", '__tenant_id__="a",cluster="prod"'),
        ("b/prod", '__tenant_id__="b",cluster="prod"'),
    ]
    (warning,) = warnings
    assert "no label that tells their cluster" in warning
