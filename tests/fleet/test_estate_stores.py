"""The estate in real stores: they answer with the sums that it was made of."""

from collections.abc import Iterator
from functools import partial

import pytest

from estate.kube import kube_runs
from estate.layout import SMALL
from estate.life import Life, live
from estate.own import own_runs
from estate.series import Counters
from estate.stores import filled_prometheus, filled_victoria
from prometheus_server import Prometheus
from rightsizer.simulator.source import DEFAULT_START

pytestmark = pytest.mark.prometheus

DAYS = 2
STATES = "rightsizer_state_seconds_total"


@pytest.fixture(scope="module")
def life() -> Life:
    """Two days of the small estate."""
    return live(SMALL, DAYS, DEFAULT_START // 10**9, tick_seconds=300, variants=1)


@pytest.fixture(scope="module", params=["Prometheus", "VictoriaMetrics"])
def store(life: Life, request: pytest.FixtureRequest) -> Iterator[Prometheus]:
    """Each of them, filled with the same."""
    filled = filled_prometheus if request.param == "Prometheus" else filled_victoria
    own, kube = partial(own_runs, life, Counters()), partial(kube_runs, life)
    with filled(life, own, kube) as server:
        yield server


def at_end(store: Prometheus, life: Life, promql: str) -> dict[str, float]:
    """The answer at the end of the estate's life, by its only label."""
    data = store.get("query", query=promql, time=str(life.end))
    return {
        next(iter(series["metric"].values()), ""): float(series["value"][1])
        for series in data["result"]
    }


def test_all_devices_are_there(store: Prometheus, life: Life) -> None:
    """With their boards and nodes."""
    found = at_end(store, life, "count by (instance) (rightsizer_device_info)")
    assert found == {f"{each.name}:19400": len(each.gpus) for each in SMALL.machines}


def test_a_day_of_states_is_a_day(store: Prometheus, life: Life) -> None:
    """Of every device that was there all the time, to the second."""
    states = f'{STATES}{{instance!~"burst.*"}}'
    found = at_end(store, life, f"sum by (uuid) (increase({states}[1d]))")
    assert len(found) == sum(gpu.parts[0].first == 0 for gpu in life.gpus)
    assert found == pytest.approx(dict.fromkeys(found, 86400.0), rel=0.01)


def test_planted_time_is_there(store: Prometheus, life: Life) -> None:
    """The job of four GPUs hangs for fourteen hours a day."""
    stalled = f'increase({STATES}{{state="hidden_stall"}}[1d])'
    share = "rightsizer_workload_share_ratio"
    found = at_end(store, life, f"sum by (workload) ({share} * on (uuid) group_left () {stalled})")
    assert found["slurm:stall"] == pytest.approx(4 * 14 * 3600, rel=0.01)
    assert found["slurm:skew"] == pytest.approx(2 * 14 * 3600, rel=0.01)
    assert not found.get("slurm:pretrain", 0.0)


def test_owners_can_be_followed(store: Prometheus, life: Life) -> None:
    """From pods over their replica sets to deployments."""
    sets = 'count by (owner_name) (kube_replicaset_owner{owner_kind="Deployment"})'
    assert at_end(store, life, sets)["chat-api"] == 1
    pods = 'count by (owner_kind) (kube_pod_owner{pod=~"chat-api-.*"})'
    assert at_end(store, life, pods) == {"ReplicaSet": 9}
