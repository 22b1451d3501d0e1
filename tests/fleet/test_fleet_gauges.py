"""Fleet gauges: by pool and team, bounded in number, unknown values omitted."""

from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from estate_views import pool, steady, view
from fleet_answers import END, fleet_answer
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.fleet.encoder import USED, fleet_gauges
from rightsizer.fleet.model import WaitingWork
from rightsizer.model.metric import METRICS
from rightsizer.model.metric_family import Origin
from rightsizer.model.report import AgentReport, Report

LIMIT = 200


def scraped(gauges: dict[str, float]) -> dict[tuple[str, str], float]:
    """The fleet's samples of a scrape, by name and label value."""
    agent = AgentReport("1", "fleet", END, 3600.0, metrics=gauges)
    report = Report(generation=1, wall_time=END, devices=(), advice=(), agent=agent)
    text = MetricsExposition(lambda: report, wall_time=lambda: END).render().body.decode()
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("rightsizer_fleet_")
    }


def gauges_of(**facts: Any) -> dict[tuple[str, str], float]:
    """Gauges of an answer, after a scrape."""
    return scraped(fleet_gauges(fleet_answer(**facts), LIMIT))


def test_a_pool_is_reported_by_what_it_has_and_what_is_held() -> None:
    """Waiting work is exported for pools that have any."""
    found = gauges_of()
    of_serve = {name: value for (name, of), value in found.items() if of == "serve"}
    assert of_serve == {
        "rightsizer_fleet_pool_gpus": 4.0,
        "rightsizer_fleet_pool_held_gpus": 3.0,
        "rightsizer_fleet_pool_active_gpus": 1.5,
        "rightsizer_fleet_pool_free_gpus": 2.0,
        "rightsizer_fleet_pool_waiting_gpus": 3.0,
        "rightsizer_fleet_pool_servable_gpus": 0.0,
        "rightsizer_fleet_pool_servable_after_gpus": 0.0,
    }
    assert ("rightsizer_fleet_pool_waiting_gpus", "batch") not in found


def test_a_team_is_reported_by_what_it_wastes() -> None:
    """GPU-hours divided by the hours of the lookback give GPUs."""
    found = gauges_of()
    assert found["rightsizer_fleet_team_wasted_gpus", "web"] == pytest.approx(168.0 / 336.0)


def test_the_nodes_own_advice_is_counted() -> None:
    """Recommendations of nodes are counted by finding."""
    found = gauges_of()
    assert found["rightsizer_fleet_node_advice", "overprovisioned"] == 1.0
    assert found["rightsizer_fleet_node_advice", "degraded"] == 1.0


def test_verdicts_are_counted_by_their_first_reason() -> None:
    """Abstentions are counted too, though they are not kept individually."""
    found = fleet_gauges(fleet_answer(), LIMIT)
    assert found['rightsizer_recommender_findings{reason="IdleEmpty"}'] == 1.0
    assert found['rightsizer_recommender_abstentions{reason="InsufficientData"}'] == 2.0


def test_unknown_value_has_no_series() -> None:
    """The pool's holders are unknown."""
    found = gauges_of(view=view((pool("dark", steady(None), nodes=1),)), waiting=(), served=())
    of_dark = {name for (name, of) in found if of == "dark"}
    assert of_dark == {"rightsizer_fleet_pool_gpus", "rightsizer_fleet_pool_free_gpus"}


def test_series_are_bounded_and_the_largest_stay() -> None:
    """Team names come from labels that users may set to anything."""
    answer = fleet_answer()
    pools = tuple(pool(f"p{at}", steady(1.0), nodes=1, each=1 + at) for at in range(5))
    held = next(row for row in answer.usage if row.team)
    usage = tuple(replace(held, team=f"t{at}") for at in range(5))
    found = scraped(fleet_gauges(replace(answer, view=view(pools), usage=usage), 2))
    assert {of for name, of in found if name == "rightsizer_fleet_pool_gpus"} == {"p3", "p4"}
    assert {of for name, of in found if name == "rightsizer_fleet_team_wasted_gpus"} == {"t0", "t1"}


def test_foreign_names_stay_one_label() -> None:
    """Quotes, backslashes and braces in foreign labels are escaped."""
    name = 'a"b\\c{d}'
    found = gauges_of(
        view=view((pool(name, steady(1.0), nodes=1),)), waiting=(WaitingWork("x", name, 2.0),)
    )
    (shown,) = {of for at, of in found if at == "rightsizer_fleet_pool_gpus"}
    assert shown == "a'b\\c{d}"
    assert found["rightsizer_fleet_pool_waiting_gpus", shown] == 2.0


def test_every_metric_that_is_declared_is_reported() -> None:
    """The metrics reference lists no metric that is never set."""
    exported = {key.partition("{")[0] for key in fleet_gauges(fleet_answer(), LIMIT)} | {
        *USED.values()
    }
    declared = {name for name, metric in METRICS.items() if metric.origin is Origin.FLEET}
    assert declared <= exported
