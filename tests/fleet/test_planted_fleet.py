"""Faults planted in three clusters with different labels are found, and nothing else is said."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest

from fleet_money import money_faults
from planted_fleet.look import advice_of, looked, looked_in_shards
from planted_fleet.plant import Style
from planted_fleet.plants import PLANTS
from planted_fleet.remote_write import filled_store
from planted_fleet.scoring import score
from planted_fleet.series import planted_gpus
from prometheus_server import Prometheus
from rightsizer.fleet.summary import summary_of

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(240)]

INTERVAL_SECONDS: Final = 300


@pytest.fixture(scope="module")
def store() -> Iterator[Prometheus]:
    """A real store with samples at the longest usual interval."""
    with filled_store("VictoriaMetrics", INTERVAL_SECONDS) as filled:
        yield filled


@pytest.fixture(scope="module")
def document(store: Prometheus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The command's answer."""
    return looked(store, tmp_path_factory.mktemp("single"))


def test_the_fleet_has_many_faults_and_decoys_under_equal_names() -> None:
    """Nodes and pods of one cluster are also those of another."""
    decoys = [plant for plant in PLANTS if plant.is_decoy]
    assert (len(PLANTS) - len(decoys), len(decoys)) >= (27, 12)
    fleet = planted_gpus()
    nodes = {style: {gpu.node for gpu in fleet if gpu.style is style} for style in Style}
    assert len(set.intersection(*nodes.values())) >= 10
    assert len({gpu.uuid for gpu in fleet}) == len(fleet)


def test_planted_faults_are_found_and_no_others(document: dict[str, Any]) -> None:
    """What no metric shows, rules abstain from, and name the metric."""
    found = score(document)
    assert list(map(str, found.missed)) == []
    assert found.false == ()
    assert list(map(str, found.unexplained)) == []


def test_no_more_is_to_be_regained_than_is_lost(document: dict[str, Any]) -> None:
    """By no recommendation, no group, and not by all together; all hours are accounted for."""
    assert list(money_faults(document)) == []
    summary = summary_of(document)
    assert summary.spent is not None
    assert summary.reclaimable is not None
    assert summary.wasted is not None
    assert 0.0 < summary.reclaimable.value <= summary.wasted.value + summary.left_over
    assert sum(part.ratio for part in summary.parts) == pytest.approx(1.0)
    capacity = sum(row["gpus"] for row in document["holdings"])
    assert capacity == pytest.approx(document["gpus"])


def test_shards_say_what_a_single_run_says(
    store: Prometheus, document: dict[str, Any], tmp_path: Path
) -> None:
    """Each has clusters of its own, whose names are those of others."""
    assert advice_of(looked_in_shards(store, tmp_path)) == advice_of(document)


def test_the_score_counts_what_is_missed_and_what_is_false(document: dict[str, Any]) -> None:
    """Advice that is taken away, moved to another cluster's GPUs, or given another reason."""
    whole = score(document)
    worse = deepcopy(document)
    (taken,) = (
        each for each in worse["advice"] if each["key"] == "paris/kubernetes:people/sandbox"
    )
    worse["advice"].remove(taken)
    before = set(map(str, whole.missed))
    assert [name for name in map(str, score(worse).missed) if name not in before] == [
        "a pod that holds its GPU and never works, in paris"
    ]
    well = next(gpu for gpu in planted_gpus() if gpu.plant.what == "training as it should be")
    for change in ({"devices": [well.uuid]}, {"reasons": ["HostBound"]}):
        false = deepcopy(document)
        false["advice"].append({**taken, "culprits": [], **change})
        assert len(score(false).false) == len(whole.false) + 1
