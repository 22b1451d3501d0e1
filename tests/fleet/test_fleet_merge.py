"""Fleet shards: assignment of clusters, and the merged answer."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_answers import fleet_answer
from rightsizer.cli.main import main
from rightsizer.fleet.advice_groups import open_recommendations
from rightsizer.fleet.answers import merged
from rightsizer.fleet.encoder import encode_answer
from rightsizer.fleet.settings import FleetSettings, Shard
from rightsizer.fleet.tables import usage_tables
from rightsizer.model.errors import UsageError

SERVED = {"cluster": "east", "team": "", "name": "chat"}
SERVED |= {"load": {"model": "llama", "engine": "vllm", "window_seconds": 60.0}}


def answer(cluster: str) -> dict[str, Any]:
    """An answer about one cluster."""
    document = json.loads(json.dumps(encode_answer(fleet_answer())))
    for rows in ("sources", "pools", "holdings", "waiting", "waiting_work", "node_advice"):
        for row in document[rows]:
            row["cluster"] = cluster
    for row in document["usage"]["parts"]:
        row["cluster"] = cluster
    document |= usage_tables(document["usage"]["parts"])
    for row in document["clusters"]:
        row["name"] = cluster
    return dict(document)


@given(st.lists(st.text(max_size=9), unique=True), st.integers(1, 1024))
def test_each_cluster_is_in_one_shard(names: list[str], count: int) -> None:
    """Shards are numbered from 0 or from 1."""
    for first in (0, 1):
        shards = [Shard.parse(f"{index}/{count}") for index in range(first, count + first)]
        assert all(sum(shard.has_cluster(name) for shard in shards) == 1 for name in names)
        assert all(shard.has_node(name, "n") for shard in shards for name in names)


@given(st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9))), st.integers(1, 1024))
def test_each_node_is_in_one_shard_of_the_nodes(nodes: list[tuple[str, str]], count: int) -> None:
    """Of every cluster."""
    shards = [Shard.parse(f"node:{index}/{count}") for index in range(count)]
    assert all(sum(shard.has_node(*node) for shard in shards) == 1 for node in nodes)
    assert all(shard.has_cluster(cluster) for shard in shards for cluster, _ in nodes)


@pytest.mark.parametrize("text", ["3", "3/0", "4/3", "-1/3", "a/b", "1/2000", "1/2/3", "nodes:1/2"])
def test_invalid_shard_is_refused(text: str) -> None:
    """The error shows the valid form."""
    with pytest.raises(ValueError, match=r"shard: '.*' is no part of a fleet; write it as 3/16"):
        FleetSettings(shard=text)


def test_files_of_shards_are_apart(tmp_path: Path) -> None:
    """They differ from those of the whole fleet."""
    found = {Shard.parse(text).path(tmp_path / "fleet.db").name for text in ("0/2", "1/2", "2/2")}
    assert found == {"fleet-0-of-2.db", "fleet-1-of-2.db"}


def test_sums_are_those_of_all() -> None:
    """Counts, hours and money are summed; ratios are weighted by devices."""
    east = answer("east")
    west = answer("west")
    whole = merged([east, west], ["east.json", "west.json"], 3600.0)
    for name in ("devices", "gpus", "workloads"):
        assert whole[name] == 2 * east[name]
    assert whole["coverage_ratio"] == pytest.approx(east["coverage_ratio"])
    assert [row["name"] for row in whole["clusters"]] == ["east", "west"]
    total = whole["usage"]["total"]
    part = east["usage"]["total"]
    assert total["dollars"] is part["dollars"] is None
    assert total["held_gpu_hours"] == pytest.approx(2 * part["held_gpu_hours"])
    priced = [row for row in east["teams"] if row["dollars"]]
    assert priced
    for row in priced:
        same = [other for other in whole["teams"] if other["team"] == row["team"]]
        assert [other["dollars"] for other in same] == [row["dollars"]] * 2
    for name in ("pools", "clusters"):
        assert sum(row["held_gpu_hours"] for row in whole["usage"][name]) == pytest.approx(
            total["held_gpu_hours"]
        )
    for rule, row in whole["verdicts"].items():
        assert row["complaints"] == 2 * east["verdicts"][rule]["complaints"]
    assert len(whole["teams"]) == 2 * len(east["teams"])
    assert whole.keys() == east.keys()


def test_a_part_without_clusters_changes_nothing() -> None:
    """A shard may have no clusters."""
    east = answer("east")
    empty = {name: [] if isinstance(value, list) else value for name, value in east.items()}
    empty |= {"devices": 0, "gpus": 0, "workloads": 0, "coverage_ratio": 0.0, "verdicts": {}}
    empty |= usage_tables([])
    empty["use"] = dict.fromkeys(east["use"], 0)
    whole = merged([empty, east], ["0.json", "1.json"], 3600.0)
    assert whole["usage"]["total"]["kilowatt_hours"] == east["usage"]["total"]["kilowatt_hours"]
    for name in ("advice", "teams", "pools", "coverage_ratio", "verdicts", "use"):
        assert whole[name] == east[name]


def test_what_is_merged_depends_on_no_order_of_files() -> None:
    """Missing telemetry is counted, however rare it is in one of the clusters."""
    east = answer("east")
    west = answer("west")
    for document, counts in ((east, {"a": 3, "b": 1}), (west, {"c": 2, "b": 4})):
        document["verdicts"] = {
            "idle": {
                "complaints": 1,
                "well": 2,
                "abstained": {"UnsupportedTelemetry": sum(counts.values())},
                "missing": counts,
            }
        }
    whole = merged([west, east], ["west.json", "east.json"], 3600.0)
    assert whole == merged([east, west], ["east.json", "west.json"], 3600.0)
    (row,) = whole["verdicts"].values()
    assert list(row["missing"].items()) == [("b", 5), ("a", 3), ("c", 2)]
    assert (row["complaints"], row["abstained"]) == (2, {"UnsupportedTelemetry": 10})


def test_one_cluster_in_two_answers_is_refused() -> None:
    """It would be counted twice."""
    with pytest.raises(UsageError, match=r"b.json: is about cluster 'east', as a.json is"):
        merged([answer("east"), answer("east")], ["a.json", "b.json"], 3600.0)
    other = answer("west") | {"lookback_seconds": 1.0}
    with pytest.raises(UsageError, match="looks back over another span of time"):
        merged([answer("east"), other], ["a.json", "b.json"], 3600.0)


def test_an_answer_that_is_older_is_noted() -> None:
    """A shard's job may have failed; what is up to an interval older is of the same round."""
    east = answer("east")
    names = ["east.json", "west.json"]
    for age_seconds, notes in (
        (1800.0, []),
        (5400.0, ["west.json is 1 h 30 min older than east.json; its clusters are as of then."]),
    ):
        west = answer("west") | {"time": east["time"] - age_seconds}
        assert merged([east, west], names, 1800.0)["notes"] == [*east["notes"], *notes]
        assert merged([west, east], names[::-1], 1800.0)["time"] == east["time"]
    west = answer("west") | {"time": east["time"] - 86401.0}
    why = "west.json: is 1 d older than east.json; look again with its shard, or leave it out"
    with pytest.raises(UsageError, match=why):
        merged([east, west], names, 1800.0)


def test_the_interval_of_the_service_bounds_the_age(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default an hour."""
    for name, age_seconds in (("east", 0.0), ("west", 5400.0)):
        document = answer(name)
        document["time"] -= age_seconds
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    config = tmp_path / "fleet.yaml"
    config.write_text("fleet: {interval: 2h}")
    paths = [str(tmp_path / "east.json"), str(tmp_path / "west.json")]
    line = ["fleet", "merge", *paths, "--json"]
    assert main(line) == 0
    assert "west.json is 1 h 30 min older than" in capsys.readouterr().out
    assert main([*line, "--config.file", str(config)]) == 0
    assert "older than" not in capsys.readouterr().out


def test_the_command_merges_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not an answer is an error."""
    paths = [tmp_path / "east.json", tmp_path / "west.json"]
    for path in paths:
        path.write_text(json.dumps(answer(path.stem)))
    assert main(["fleet", "merge", *map(str, paths), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in document["clusters"]] == ["east", "west"]
    assert main(["fleet", "merge", *map(str, paths), "--top", "1"]) == 0
    assert "east" in capsys.readouterr().out
    paths[0].write_text("{}")
    number = tmp_path / "number.json"
    words = tmp_path / "words.json"
    number.write_text('{"days": 3}')
    words.write_text("words")
    part = tmp_path / "part.json"
    part.write_text(json.dumps({"days": "fleet-0-of-2.db", "device_days": 1}))
    gone = ["--store.url", "http://127.0.0.1:1", "--lookback", "1d"]
    for line, why in (
        (["merge", *map(str, paths)], "east.json: is no answer about a fleet"),
        (["merge", str(number)], "number.json: is no answer about a fleet"),
        (["merge", str(words)], "words.json: is neither an answer nor a cache of days"),
        (["merge"], "merge: name the answers"),
        (["merge", str(paths[1]), "--shard", "1/2"], "--shard does not apply to merge"),
        (["merge", str(paths[1]), "--save"], "--save does not apply to a merge of answers"),
        (["merge", str(paths[1]), str(part)], "merge each kind by itself"),
        ([*gone, "--shard", "node:0/2", "--save"], "--save does not apply to a shard of the nodes"),
        (
            [*gone, "--shard", "node:0/2", "--serve"],
            "--serve does not apply to a shard of the nodes",
        ),
        (["--store.url", "http://127.0.0.1:1", "--shard", "7/2"], "--shard: '7/2' is no part"),
    ):
        assert main(["fleet", *line]) == 2
        assert why in capsys.readouterr().err


CLUSTER = answer("east")["clusters"][0]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"served_models": None}, "is no answer of this version (Expected `array`, got `null`"),
        ({"served_models": [{}]}, "missing required field `cluster` - at `$.served_models[0]`"),
        ({"served_models": [SERVED]}, "neither `error` nor `model` - at `$.served_models[0]`"),
        ({"gpus": "many"}, "is no answer of this version (Expected `float`, got `str`"),
        ({"advice": [{}]}, "missing required field `id` - at `$.advice[0]`"),
        ({"advice": [answer("east")["advice"][0] | {"reasons": []}]}, "of length >= 1"),
        ({"verdicts": {"idle": {"well": "2"}}}, "Expected `int`, got `str`"),
        ({"coverage_ratio": math.nan}, "is neither an answer nor a cache of days (JSON is malf"),
        ({"coverage_ratio": 7.0}, "Expected `float` <= 1.0"),
        ({"devices": -5}, "Expected `int` >= 0 - at `$.devices`"),
        ({"gpus": -0.5}, "Expected `float` >= 0.0 - at `$.gpus`"),
        ({"time": -1.0}, "Expected `float` >= 0.0 - at `$.time`"),
        ({"clusters": [CLUSTER | {"workloads": -1}]}, ">= 0 - at `$.clusters[0].workloads`"),
        ({"verdicts": {"idle": {"well": -2}}}, "Expected `int` >= 0"),
    ],
)
def test_an_answer_of_other_types_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], why: str
) -> None:
    """With the place of the fault, and what to give."""
    path = tmp_path / "east.json"
    path.write_text(json.dumps(answer("east") | changes))
    assert main(["fleet", "merge", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"rightsizer: {path}: ")
    assert why in error
    assert "; give what `rightsizer fleet --shard I/N --json` printed" in error


def test_an_answer_of_another_version_is_told_by_its_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it lacks is named, what it has beyond is left out."""
    path = tmp_path / "east.json"
    document = answer("east")
    document["advice"][0]["savings"]["moons"] = 3
    path.write_text(json.dumps(document))
    assert main(["fleet", "merge", str(path)]) == 0
    del document["served_models"]
    del document["use"]
    path.write_text(json.dumps(document))
    assert main(["fleet", "merge", str(path)]) == 2
    why = "has no served_models, use: it was made by another version; give what"
    assert why in capsys.readouterr().err


def test_a_merge_of_one_answer_is_that_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reading leaves nothing out."""
    path = tmp_path / "east.json"
    document = answer("east")
    path.write_text(json.dumps(document))
    assert main(["fleet", "merge", str(path), "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    for name in ("findings", "advice", "node_advice", "waiting", "waiting_work", "holdings"):
        assert whole[name] == document[name]
    assert whole.keys() == document.keys()


def test_files_are_written_to_new_folders(tmp_path: Path) -> None:
    """A limited answer has the same recommendations in every file."""
    path = tmp_path / "east.json"
    path.write_text(json.dumps(answer("east")))
    tables = tmp_path / "new" / "tables"
    page = tmp_path / "pages" / "fleet.html"
    commands = tmp_path / "commands" / "fleet.sh"
    files = ["--csv", str(tables), "--html", str(page), "--commands", str(commands)]
    assert main(["fleet", "merge", str(path), "--top", "2", *files]) == 0
    rows = csv.DictReader((tables / "recommendations.csv").read_text().splitlines())
    first = {row["id"] for row in rows}
    assert len(first) == 2
    for piece in open_recommendations(answer("east")["advice"]):
        is_shown = piece["id"] in first
        assert (piece["summary"] in page.read_text()) is is_shown
        assert is_shown or piece["id"] not in commands.read_text()


def test_a_folder_that_cannot_be_made_is_refused_before_the_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The store is not asked: it would be for nothing."""
    file = tmp_path / "file"
    file.touch()
    store = ["--store.url", "http://127.0.0.1:1", "--lookback", "1d"]
    for flag, path in (("--csv", file), ("--html", file / "page.html")):
        assert main(["fleet", *store, flag, str(path)]) == 2
        assert f"{flag}: folder '{file}' cannot be made: file exists" in capsys.readouterr().err
