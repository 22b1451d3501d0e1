"""Selection from an answer: its order, and the effect of flags."""

import csv
from io import StringIO
from typing import Any

import pytest
from msgspec.structs import replace

from cases import finding, judgement
from estate_views import pool, steady, view
from fleet_answers import SPARE, fleet_answer
from rightsizer.fleet.answer_blocks import fleet_blocks
from rightsizer.fleet.answers import ranked, selected, shortened
from rightsizer.fleet.encoder import encode_answer
from rightsizer.fleet.judge import _worth_advice
from rightsizer.fleet.page import fleet_document
from rightsizer.fleet.summary import summary_of
from rightsizer.fleet.tables import csv_tables
from rightsizer.fleet.usage import FREE_NAME
from rightsizer.model.advice import AdviceState
from rightsizer.model.errors import UsageError
from rightsizer.model.finding import Action, Finding, FindingKind, Reason
from rightsizer.report.block_text import text_of


def document(**facts: Any) -> dict[str, Any]:
    """An answer with two pools."""
    return encode_answer(fleet_answer(**facts))


def piece(name: str, dollars: float | None, severity: str, state: str = "active") -> dict[str, Any]:
    """Recommendation with the fields that rank it."""
    savings = {f"dollars_per_hour_{end}": dollars for end in ("low", "high")}
    savings |= {f"gpus_{end}": 1.0 for end in ("low", "high")}
    return {"id": name, "state": state, "severity": severity, "savings": savings}


def test_advice_is_ranked_by_money_and_then_by_severity() -> None:
    """Closed ones come last, in their own order."""
    given = [
        piece("closed", 99.0, "critical", "expired"),
        piece("small", 1.0, "critical"),
        piece("mild", None, "low"),
        piece("grave", None, "critical"),
        piece("dear", 40.0, "low"),
    ]
    assert [each["id"] for each in ranked(given)] == ["dear", "small", "grave", "mild", "closed"]


def test_a_team_sees_its_own_alone() -> None:
    """Every list and every sum is the team's: hours, GPUs, pools, clusters and waiting work."""
    whole = document()
    found = selected(whole, team="web")
    rows = ("holdings", "findings", "advice", "node_advice", "waiting", "waiting_work", "teams")
    assert {each["team"] for name in rows for each in found[name]} == {"web"}
    assert {each["team"] for each in found["usage"]["parts"]} == {"web"}
    (team,) = found["teams"]
    for name in ("total", "pools", "clusters", "kinds"):
        table = found["usage"][name] if name != "total" else [found["usage"]["total"]]
        assert sum(row["held_gpu_hours"] for row in table) == team["held_gpu_hours"] == 672.0
    assert (found["gpus"], found["devices"], found["workloads"]) == (2.0, 2, 1)
    (pool,) = found["pools"]
    assert (pool["name"], pool["gpus"], pool["nodes"], pool["held_mean"]) == ("serve", 2.0, 1, 2.0)
    assert (pool["held_peak"], pool["free_now"], pool["waiting_gpus"]) == (None, 0, 3.0)
    (cluster,) = found["clusters"]
    assert (cluster["gpus"], cluster["workloads"], cluster["waiting_gpus"]) == (2.0, 1, 3.0)
    assert summary_of(found).waiting_gpus == 3.0
    text = text_of(fleet_blocks(found))
    assert "2 GPUs in 1 pool, 1 workload" in text
    for stranger in ("pool/batch", "giant", SPARE.id):
        assert stranger in text_of(fleet_blocks(whole))
        assert stranger not in text
        assert stranger not in fleet_document(found)
    with pytest.raises(UsageError, match="--team: there is no 'wbe' here; there are"):
        selected(whole, team="wbe")


def test_the_parts_of_a_fleet_are_the_fleet() -> None:
    """What is selected by team sums to the whole, free time aside."""
    whole = document()
    teams = [row["team"] for row in whole["teams"]]
    parts = [selected(whole, team=team) for team in teams if team != FREE_NAME]
    assert sum(part["usage"]["total"]["held_gpu_hours"] for part in parts) == pytest.approx(1008.0)
    assert sum(len(part["waiting"]) for part in parts) == len(whole["waiting"])
    assert sum(part["gpus"] for part in parts) == 3.0


def test_a_cluster_is_answered_for_alone() -> None:
    """Pools, recommendations and sums are the cluster's; an unknown name is rejected."""
    of = fleet_answer().view
    pools = (replace(of.pools[0], cluster="east"), replace(of.pools[1], cluster="west"))
    east = tuple(replace(device, cluster="east") for device in pools[0].devices)
    sources = fleet_answer().sources
    named = [
        replace(source, cluster=replace(source.cluster, name=name))
        for name in ("east", "west")
        for source in sources
    ]
    answer = document(
        view=replace(of, pools=(replace(pools[0], devices=east), pools[1])), sources=tuple(named)
    )
    found = selected(answer, cluster="east")
    assert [each["name"] for each in found["pools"]] == ["batch"]
    assert [each["name"] for each in found["clusters"]] == ["east"]
    assert {each["cluster"] for each in found["findings"]} == {"east"}
    assert "24 GPUs in 1 pool" in text_of(fleet_blocks(found))
    with pytest.raises(UsageError, match="--cluster: there is no 'north' here"):
        selected(answer, cluster="north")


def test_only_what_was_opened_lately_is_new() -> None:
    """The time of opening is the ledger's."""
    whole = document()
    opened = max(each["opened"] for each in whole["advice"])
    fresh = selected(whole, since_seconds=whole["time"] - opened + 1.0)
    assert fresh["advice"]
    later = {**whole, "time": opened + 7200.0}
    assert not selected(later, since_seconds=3600.0)["advice"]


def test_the_first_few_are_shown_with_the_sums_of_all() -> None:
    """Neither the headline nor the number of recommendations is that of the first."""
    whole = document()
    first = shortened(whole, 1)
    assert (len(first["advice"]), len(first["groups"])) == (1, 1)
    assert first["summary"] == whole["summary"] == selected(whole)["summary"]
    assert first["summary"]["recommendations"] == 3
    assert (
        text_of(fleet_blocks(whole, 1)).split("\n\n")[0]
        == text_of(fleet_blocks(whole)).split("\n\n")[0]
    )


def test_tables_are_written_for_spreadsheets() -> None:
    """Recommendations, teams and GPUs; a name is never a formula."""
    tables = csv_tables(document())
    rows = {name: list(csv.DictReader(StringIO(text))) for name, text in tables.items()}
    first = rows["recommendations"][0]
    assert (first["id"], float(first["dollars_per_day"])) == (SPARE.id, 1728.0)
    assert {row["team"] for row in rows["teams"]} == {"web", "ml", "(free)"}
    assert len(rows["gpus"]) == 28
    held = next(row for row in fleet_answer().usage if row.team)
    hostile = replace(held, team="=cmd()")
    assert "'=cmd()" in csv_tables(document(usage=(hostile,)))["teams"]


def test_tables_without_rows_have_their_heading() -> None:
    """It is the same as that of tables with rows, in which no column is empty."""
    whole = document()
    usage = {**whole["usage"], "parts": []}
    empty = whole | {"advice": [], "teams": [], "holdings": [], "usage": usage}
    tables = csv_tables(whole)
    assert csv_tables(empty) == {
        name: f"{text.splitlines()[0]}\r\n" for name, text in tables.items()
    }
    assert set(csv.DictReader(StringIO(tables["gpus"])).fieldnames or ()) == {*whole["holdings"][0]}
    assert set(csv.DictReader(StringIO(tables["teams"])).fieldnames or ()) == {*whole["teams"][0]}


def test_the_first_few_are_whole_groups() -> None:
    """What is shown as one recommendation is in every output, with all its parts."""
    (first, *_) = fleet_answer().advice
    alike = tuple(
        replace(first, finding=replace(SPARE, id=f"alike-{number}", workload=f"slurm:{number}"))
        for number in range(4)
    )
    whole = document(advice=alike)
    shown = shortened(whole, 1)
    assert len(shown["groups"]) == 1
    assert {each["id"] for each in shown["advice"]} == {each.finding.id for each in alike}
    assert shown["groups"] == selected(shown)["groups"]


def test_verified_savings_add_up() -> None:
    """Each is what its trial saved, at the price of the GPUs that were to be saved."""
    done = replace(
        fleet_answer().advice[0],
        finding=replace(SPARE, id="verified-one"),
        state=AdviceState.SUCCEEDED,
        realized_gpu_hours=100.0,
    )
    found = document(advice=(done, replace(done, finding=replace(SPARE, id="verified-two"))))
    assert found["summary"]["saved_gpu_hours"] == 200.0
    assert found["summary"]["saved_dollars"] == pytest.approx(200.0 * 3.0)
    assert "200 GPU-hours ($600) saved so far, verified." in " ".join(
        text_of(fleet_blocks(found)).split()
    )


def test_finding_without_an_action_is_no_advice() -> None:
    """Neither is one that its node covers."""
    empty: dict[str, Any] = {"reasons": (Reason.IDLE_EMPTY,), "workload": None}
    assert not _worth_advice(judgement(**empty)).may_open
    assert _worth_advice(judgement()).may_open
    nothing: Finding = replace(
        finding(kind=FindingKind.INEFFICIENT), action=Action.NONE, options=(), instructions=()
    )
    assert not _worth_advice(replace(judgement(), finding=nothing)).may_open


def test_held_gpus_are_at_most_the_pools_gpus() -> None:
    """Half of the pool's nodes have disappeared since."""
    shrunk = pool("p", steady(16.0), nodes=2)
    smaller = replace(shrunk, devices=shrunk.devices[:8], size_by_node={"p-0": 8}, free_by_node={})
    (row,) = document(view=view([smaller]), judgements=(), advice=())["pools"]
    assert (row["gpus"], row["held_mean"], row["held_peak"]) == (8.0, 8.0, 8.0)
