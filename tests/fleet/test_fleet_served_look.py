"""Served models in a look: load, prediction, what each needs, beside the truth of their site."""

import copy
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from dcgm_estate import NOW
from rightsizer.fleet.answers import merged, selected
from rightsizer.fleet.served_blocks import served_rank
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from served_look import ServedLook, looked_at, served_store
from served_models import ServedModel, served_models

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(300)]

_SEED: Final = 1000
_RECALL: Final = 0.9


class Estate:
    """A quarter of a site's models in a store, and its look."""

    def __init__(self, config: Path, models: tuple[ServedModel, ...]) -> None:
        """Look once."""
        self.config = config
        self.look = ServedLook(models, json.loads(looked_at(config, "--json")))


@pytest.fixture(scope="module")
def estate() -> Iterator[Estate]:
    """Of each kind some, but no pair that could trade places."""
    alone = [model for model in served_models(_SEED) if model.kind != "misplaced"]
    models = tuple(alone[::4])
    with served_store(models) as config:
        yield Estate(config, models)


def test_every_served_model_is_told_with_its_load(estate: Estate) -> None:
    """Model, engine, replicas, boards and requests, with the prediction beside what is measured."""
    for model in estate.look.models:
        answer = estate.look.answers[model.load.workload]
        load = answer["load"]
        assert answer["team"] == "serving"
        assert load["model"] == (model.alias or model.load.model)
        assert (load["engine"], load["engines"]) == ("vllm", model.load.engines)
        assert load["tensor"] == model.load.tensor
        assert sorted(load["devices"]) == sorted(model.load.devices)
        assert load["board"] == model.load.board
        assert load["requests_per_second"] == pytest.approx(
            model.load.requests_per_second, rel=0.03
        )
        assert answer["requests_per_second_peak"] == pytest.approx(
            model.load.requests_per_second_peak, rel=0.03
        )
        figures = {figure["what"]: figure for figure in answer["comparisons"]}
        latency = model.load.time_per_output_token
        assert latency is not None
        assert figures["tpot_ms"]["measured"] == pytest.approx(1e3 * latency.mean_seconds, rel=0.03)
        assert figures["tpot_ms"]["predicted_low"] < figures["tpot_ms"]["predicted_high"]


def test_what_is_wrong_is_found_and_nothing_else(estate: Estate) -> None:
    """Nine in ten, and no advice that misses the level, or is about an unknown model."""
    assert estate.look.recall >= _RECALL, estate.look.missed
    assert estate.look.false == []


def test_findings_say_what_to_do(estate: Estate) -> None:
    """With interval, risk, launch command and canary."""
    options = [
        finding["options"][0]
        for model in estate.look.models
        for finding in estate.look.advised(model)
        if finding["kind"] == "too_large"
    ]
    assert options
    for option in options:
        low = option["savings_dollars_per_hour_low"]
        assert low <= option["savings_dollars_per_hour"] <= option["savings_dollars_per_hour_high"]
        assert option["risk"]
        assert option["launch"].startswith("vllm serve ")
        assert option["canary"]


def test_what_is_advised_is_a_recommendation_with_the_same_savings(estate: Estate) -> None:
    """In the ledger like all others; none of a model that needs what it has."""
    wanted = {}
    for model in estate.look.models:
        for finding in estate.look.advised(model):
            if finding["kind"] in {"too_large", "wide_format", "too_small", "by_hour"}:
                wanted.setdefault(frozenset(model.load.devices), finding["options"][0])
    judged = {
        frozenset(finding["devices"]): finding
        for finding in estate.look.document["findings"]
        if finding["rule"] == "served"
    }
    assert judged.keys() == wanted.keys()
    for devices, option in wanted.items():
        saved = judged[devices]["savings"]["dollars_per_hour_typical"]
        assert saved in {None, option["savings_dollars_per_hour"]}
    served = [advice for advice in estate.look.document["advice"] if advice["rule"] == "served"]
    assert {frozenset(advice["devices"]) for advice in served} == {*wanted}


def test_saved_look_keeps_what_engines_teach(
    estate: Estate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For later looks and plans of the site; a file that cannot be written costs no answer."""
    learned = tmp_path / "learned.json"
    monkeypatch.setenv("RIGHTSIZER_SIZING__LEARNED_FILE", str(learned))
    monkeypatch.setenv("RIGHTSIZER_FLEET__PATH", str(tmp_path / "ledger.db"))
    looked_at(estate.config)
    assert not learned.exists()
    looked_at(estate.config, "--save")
    residuals = json.loads(learned.read_text("utf-8"))["residuals"]
    assert {residual["subject"]["engine"] for residual in residuals} == {"vllm"}

    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("RIGHTSIZER_SIZING__LEARNED_FILE", str(blocked / "learned.json"))
    document = json.loads(looked_at(estate.config, "--save", "--json"))
    assert len(document["served_models"]) == len(estate.look.models)
    (note,) = [note for note in document["notes"] if note.startswith("Not learned: ")]
    assert "learned.json" in note


def test_open_recommendations_outlast_a_planner_that_fails(
    estate: Estate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are neither expired nor closed; a note says that nothing was planned."""
    monkeypatch.setenv("RIGHTSIZER_FLEET__PATH", str(tmp_path / "ledger.db"))

    def served(*flags: str) -> list[str]:
        document = json.loads(looked_at(estate.config, "--save", "--json", *flags))
        notes.extend(document["notes"])
        return [advice["state"] for advice in document["advice"] if advice["rule"] == "served"]

    notes: list[str] = []
    opened = served("--at", f"{NOW // NANOSECONDS_PER_SECOND - 3 * 3600}")
    assert {*opened} == {"active"}
    broken = tmp_path / "learned.json"
    broken.write_text("{", encoding="utf-8")
    monkeypatch.setenv("RIGHTSIZER_SIZING__LEARNED_FILE", str(broken))
    assert served() == opened
    assert any(note.startswith("Not planned: ") for note in notes)


def test_policies_exclude_what_engines_need_too(estate: Estate, tmp_path: Path) -> None:
    """As any other recommendation."""
    settings = yaml.safe_load(estate.config.read_text(encoding="utf-8"))
    for policy in settings["policies"]:
        policy["ignore"] = [{"why": "reviewed"}]
    config = tmp_path / "fleet.yaml"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    document = json.loads(looked_at(config, "--json"))
    assert not [advice for advice in document["advice"] if advice["rule"] == "served"]
    assert document["verdicts"]["served"]


def test_text_and_table_have_the_same(estate: Estate, tmp_path: Path) -> None:
    """What is short first, then by money."""
    text = looked_at(estate.config, "--csv", str(tmp_path))
    with (tmp_path / "served.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [answer["name"] for answer in estate.look.document["served_models"]]
    assert [row["name"] for row in rows] == names
    saved = [float(row["savings_dollars_per_day"] or 0.0) for row in rows]
    assert saved == sorted(saved, reverse=True) or min(saved) < 0.0
    section = text.partition("What engines serve:")[2]
    assert names[0] in section
    assert "to verify: " in section


def test_merge_and_selection_keep_the_models(estate: Estate) -> None:
    """Those of the clusters and teams that are shown; of all clusters what is short first."""
    document = estate.look.document
    second = copy.deepcopy(document)
    for cluster in second["clusters"]:
        cluster["name"] = "west"
    for answer in second["served_models"]:
        answer["cluster"] = "west"
    short = second["served_models"][-1]
    finding = {"kind": "too_small", "options": [{}], "abstained": None}
    short |= {"findings": [finding], "savings_dollars_per_hour": -3.0}
    both = merged([document, second], ["one", "two"], 3600.0)["served_models"]
    kept = [*document["served_models"], *second["served_models"]]
    assert len(both) == len(kept)
    assert all(answer in both for answer in kept)
    assert both == sorted(both, key=served_rank)
    assert both[0] == short
    assert len(selected(document, team="serving")["served_models"]) == len(estate.look.models)


@pytest.mark.soak
def test_forty_models_of_a_site() -> None:
    """Right, too large, too small, misplaced, aliased and unknown ones."""
    models = tuple(served_models(_SEED + 1))
    with served_store(models) as config:
        look = ServedLook(models, json.loads(looked_at(config, "--json")))
    assert len(look.answers) == len(models)
    assert look.recall >= _RECALL, look.missed
    assert look.false == []
