"""Shards of a fleet's nodes: each reads a part, and the merged answer equals a single look's."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from estate.layout import SMALL
from estate.life import live
from estate.stores import filled_victoria
from estate.truth import Metrics
from evaluation.fleet.estate import START, sources_of
from fleet_command import Said, asked_in_process, configured
from prometheus_server import Prometheus

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(240)]

DAYS: Final = 2
END: Final = START + DAYS * 86400
SHARDS: Final = 3


@pytest.fixture(scope="module", params=[Metrics.OWN, Metrics.DCGM], ids=["own", "dcgm"])
def server(request: pytest.FixtureRequest) -> Iterator[Prometheus]:
    """A cluster with jobs and services over several nodes."""
    life = replace(live(SMALL, DAYS, START, tick_seconds=300, variants=1), fine_hours=1)
    with filled_victoria(life, *sources_of(life, request.param)) as found:
        yield found


@pytest.fixture(scope="module")
def config(server: Prometheus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of all looks."""
    return configured(tmp_path_factory.mktemp("shards"), server.url, lookback=f"{DAYS - 1}d")


def asked(config: Path, *flags: str) -> Said:
    """One run at the end of the days."""
    return asked_in_process(config, "--at", str(END), *flags)


@pytest.fixture(scope="module")
def answers(config: Path) -> list[Path]:
    """What each shard printed; their caches lie beside."""
    found = []
    for shard in range(SHARDS):
        file = config.parent / f"{shard}.json"
        file.write_text(asked(config, "--json", "--shard", f"node:{shard}/{SHARDS}").out)
        found.append(file)
    return found


def test_each_device_is_read_by_one_shard(config: Path, answers: list[Path]) -> None:
    """Each day of each device; and every shard has some."""
    days = [json.loads(answer.read_text())["device_days"] for answer in answers]
    whole = asked(config, "--json", "--dry-run").document["device_days"]
    assert sum(days) == whole
    assert all(days)


def test_the_merged_answer_is_a_single_look_s(
    config: Path, answers: list[Path], tmp_path: Path
) -> None:
    """To the last digit, from the answers as from the caches, which are all that is read."""
    single = tmp_path / "single.yaml"
    settings = json.loads(config.read_text())
    settings["fleet"]["path"] = str(tmp_path / "single.db")
    single.write_text(json.dumps(settings))
    expected = asked(single, "--json", "--all").document
    assert expected["workloads"] > SHARDS
    caches = [config.parent / f"fleet-{shard}-of-{SHARDS}.db" for shard in range(SHARDS)]
    for files in (answers, caches[::-1]):
        plan = asked(config, "merge", *map(str, files), "--json", "--dry-run").document
        assert plan["kept_device_days"] == plan["device_days"] > 0
        found = asked(config, "merge", *map(str, files), "--json", "--all").document
        assert _without_cost(found) == _without_cost(expected)


def _without_cost(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "use"}
