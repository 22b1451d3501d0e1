"""Fleet answers in JSON: every key is documented, and nothing is NaN."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from api_schema import faults, json_schema_of
from cases import judgement
from estate_views import hours, pool, steady, view
from fleet_answers import fleet_answer, sources
from rightsizer.fleet.cases.evaluation import VerdictKind
from rightsizer.fleet.encoder import encode_answer, fetch_document
from rightsizer.fleet.fetch import FetchPlan
from rightsizer.io.codec import plain
from rightsizer.model.finding import FindingKind, Reason

PAGE: Final = Path(__file__).parents[2] / "docs" / "fleet.md"
MEASURES: Final = {"time", "lookback_seconds", "coverage_ratio", "devices", "gpus", "workloads"}
"""What an answer is of, beside its parts."""


def test_the_form_is_plain_and_as_described() -> None:
    """The JSON is strict: no key is missing, and none lacks a description in the API."""
    document = json.loads(json.dumps(encode_answer(fleet_answer()), allow_nan=False))
    assert list(faults(document, json_schema_of("GET", "/api/v1/fleet"))) == []


def test_every_key_is_explained() -> None:
    """The page names each part of an answer; the API's schema describes what is in them."""
    section = PAGE.read_text("utf-8").partition("### JSON\n")[2].partition("\n## ")[0]
    documented = set(re.findall(r"`([a-z_]+)(?:\[\])?`", section))
    assert set(encode_answer(fleet_answer())) - MEASURES <= documented
    plan = plain(fetch_document(sources(), FetchPlan((), (1,), (), 0, 0, 0), 0, 0))
    assert set(plan) - MEASURES <= documented


def test_a_verdict_names_what_it_is_about() -> None:
    """A pool's is `pool/NAME`; a recommendation without a verdict has its workload, or none."""
    document = encode_answer(fleet_answer())
    assert [each["key"] for each in document["findings"]] == [
        "pool/batch",
        "kubernetes:web/chat",
        "pool/serve",
    ]
    assert [each["key"] for each in document["advice"]] == [
        "pool/batch",
        "kubernetes:web/chat",
        "pool/serve",
        "kubernetes:web/old",
    ]


def test_verdicts_are_counted_by_rule() -> None:
    """Findings, healthy verdicts and reasons of abstentions are counted."""
    document = encode_answer(
        fleet_answer(
            tallies={
                VerdictKind("idle", FindingKind.IDLE, None): 2,
                VerdictKind("idle", FindingKind.OPTIMIZED, None): 5,
                VerdictKind("idle", FindingKind.UNKNOWN, Reason.INSUFFICIENT_DATA): 3,
                VerdictKind(
                    "packing", FindingKind.UNKNOWN, Reason.UNSUPPORTED_TELEMETRY, "no disk is read"
                ): 1,
                VerdictKind(
                    "packing", FindingKind.UNKNOWN, Reason.UNSUPPORTED_TELEMETRY, "no cpu is read"
                ): 2,
            }
        )
    )
    assert document["verdicts"] == {
        "idle": {"complaints": 2, "well": 5, "abstained": {"InsufficientData": 3}, "missing": {}},
        "packing": {
            "complaints": 0,
            "well": 0,
            "abstained": {"UnsupportedTelemetry": 3},
            "missing": {"no cpu is read": 2, "no disk is read": 1},
        },
    }


def test_a_pool_is_reported_in_figures_of_the_hours_that_are_known() -> None:
    """Means and peaks skip unknown hours; a pool that is unknown throughout has none."""
    some = pool("some", lambda hour: None if hour % 2 else float(hour % 4), nodes=1)
    dark = pool("dark", steady(None), nodes=1)
    document = encode_answer(fleet_answer(view=view((some, dark)), judgements=(), advice=()))
    first, second = document["pools"]
    assert (first["held_mean"], first["held_peak"]) == (1.0, 2.0)
    assert (second["held_mean"], second["held_peak"], second["active_mean"]) == (None, None, None)
    assert hours(steady(None)).values[0] is None
    assert [each["waiting_gpus"] for each in document["pools"]] == [None, None]


@pytest.mark.parametrize(("place", "is_found"), [(0, True), (1, True), (2, False)])
def test_a_source_that_is_not_there_says_so(place: int, *, is_found: bool) -> None:
    """A source without devices that only names workloads counts as present."""
    source = encode_answer(fleet_answer())["sources"][place]
    assert source["is_found"] is is_found


def test_findings_not_kept_are_only_counted() -> None:
    """The list has only the kept ones."""
    document = encode_answer(fleet_answer(judgements=(judgement(key="slurm/llama"),)))
    assert [each["key"] for each in document["findings"]] == ["slurm/llama"]
    assert document["verdicts"]["idle"]["well"] == 3
