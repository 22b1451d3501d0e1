"""The generated fleet in real stores: queries return the generated sums."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest
from msgspec.structs import replace

from estate.command import Answer, ask_fleet
from estate.layout import SMALL
from estate.life import Life, live
from estate.truth import Metrics, score
from evaluation.fleet.estate import START, STORES, same_verdicts, sources_of
from prometheus_server import Prometheus

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(240)]

DAYS: Final = 2
STATES: Final = "rightsizer_state_seconds_total"
OF_A_DAY: Final = {
    "a forgotten notebook",
    "a job over more nodes than it needs",
    "a loader at its CPU quota",
    "a node that the others wait for",
    "a notebook on an expensive board",
    "a training job over two nodes that hangs",
    "free GPUs on too many nodes",
}
"""Planted waste that needs no week to show."""


@pytest.fixture(scope="module")
def life() -> Life:
    """Two days of the small fleet."""
    # The present is as fine as in production; a whole such day would be most of the work.
    return replace(live(SMALL, DAYS, START, tick_seconds=300, variants=1), fine_hours=1)


@pytest.fixture(scope="module")
def stores(life: Life) -> Iterator[dict[str, Prometheus]]:
    """Both stores, filled with the same data."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(filled(life, *sources_of(life, Metrics.OWN)))
            for name, filled in STORES.items()
        }


@pytest.fixture(params=STORES)
def store(stores: dict[str, Prometheus], request: pytest.FixtureRequest) -> Prometheus:
    """Each store in turn."""
    return stores[request.param]


def at_end(store: Prometheus, life: Life, promql: str) -> dict[str, float]:
    """Values at the end of the fleet's data, by their only label."""
    data = store.get("query", query=promql, time=str(life.end))
    return {
        next(iter(series["metric"].values()), ""): float(series["value"][1])
        for series in data["result"]
    }


def test_all_devices_are_there(store: Prometheus, life: Life) -> None:
    """Devices have their boards and nodes."""
    found = at_end(store, life, "count by (instance) (rightsizer_device_info)")
    assert found == {f"{machine.name}:19400": len(machine.gpus) for machine in SMALL.machines}


def test_a_day_of_states_is_a_day(store: Prometheus, life: Life) -> None:
    """States of every device that was present all day sum to the day, to the second."""
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
    """Pods resolve through replica sets to deployments."""
    sets = 'count by (owner_name) (kube_replicaset_owner{owner_kind="Deployment"})'
    assert at_end(store, life, sets)["chat-api"] == 1
    pods = 'count by (owner_kind) (kube_pod_owner{pod=~"chat-api-.*"})'
    assert at_end(store, life, pods) == {"ReplicaSet": 9}


@pytest.fixture(scope="module")
def answers(stores: dict[str, Prometheus], life: Life) -> tuple[Answer, ...]:
    """Answers from each store; one is read by two processes, the other by one."""
    return tuple(
        ask_fleet(store.url, life.end, settings={"lookback": f"{DAYS - 1}d", "workers": workers})
        for store, workers in zip(stores.values(), (2, 1), strict=True)
    )


def test_both_stores_give_the_same_advice(answers: tuple[Answer, ...]) -> None:
    """IDs contain the finding and the rounded target.

    Reasons, actions and the queue are compared too.
    """
    first, second = answers
    both, one = same_verdicts(first.findings, second.findings)
    assert one == frozenset()
    assert len(both) == len(first.findings) > 0
    assert first.document["waiting"] == second.document["waiting"]
    assert first.document["waiting_work"] == second.document["waiting_work"]


def test_planted_waste_that_shows_in_a_day_is_found(answers: tuple[Answer, ...]) -> None:
    """Nothing else is; the whole is found in a fortnight, by `make soak`."""
    result = score(SMALL, Metrics.OWN, answers[0].findings)

    assert result.wrong == ()
    assert {planted.what for planted in result.found} >= OF_A_DAY
