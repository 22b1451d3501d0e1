"""A fortnight of a generated fleet in a real store: exactly the planted waste is found.

`make eval` asks both stores. The short twin, two days in both, is
`tests/fleet/test_estate_stores.py`.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import pytest
from msgspec.structs import replace

from estate.agents import agent_findings, whole_jobs
from estate.command import Answer, ask_fleet
from estate.layout import SMALL
from estate.life import Life, at_level, live
from estate.served import planted_waits, wait_score
from estate.stores import filled_victoria
from estate.truth import Metrics, score
from evaluation.fleet.estate import DAYS, START, sources_of
from rightsizer.model.metric_family import Level

pytestmark = [pytest.mark.prometheus, pytest.mark.soak, pytest.mark.timeout(900)]

NODES: Final = ("dev-1", "train-3")
"""Nodes with agents that are queried too."""
ALONE: Final = {"workers": 1}
"""The agreement of several is tested in `tests/fleet/test_estate_stores.py`."""

Ask = Callable[[Metrics], Answer]


@pytest.fixture(scope="module")
def life() -> Life:
    """The small fleet; each of its days is the one seen by the agents.

    Its last hour has one sample a minute, since a store takes time for each.
    """
    return replace(live(SMALL, DAYS, START, tick_seconds=300, variants=1), fine_hours=1)


@pytest.fixture(scope="module")
def ask(life: Life) -> Ask:
    """The command's answer from a store, which is filled and asked once."""

    @cache
    def answered(metrics: Metrics) -> Answer:
        # With dcgm-exporter's data, finding ranks that wait takes a day of minutes.
        lived = life if metrics is Metrics.OWN else replace(life, fine_hours=24)
        with filled_victoria(lived, *sources_of(lived, metrics)) as server:
            return ask_fleet(server.url, lived.end, settings=ALONE)

    return answered


@pytest.fixture(scope="module")
def agents(life: Life) -> Mapping[str, str]:
    """Advice of some nodes' agents on jobs that they see completely: actions by ids."""
    machines = tuple(machine for machine in SMALL.machines if machine.name in NODES)
    found = agent_findings(replace(SMALL, machines=machines), DAYS, life.end)
    whole = whole_jobs(SMALL)
    return {
        finding.id: str(finding.action)
        for findings in found.values()
        for finding in findings
        if finding.workload in whole
    }


@pytest.mark.parametrize("metrics", [Metrics.OWN, Metrics.DCGM])
def test_planted_waste_alone_is_found(ask: Ask, metrics: Metrics) -> None:
    """From our agents' metrics and from an exporter's, as far as these can show it."""
    result = score(SMALL, metrics, ask(metrics).findings)
    assert result.missed == ()
    assert result.wrong == ()


def test_agents_at_their_default_level_tell_all_but_two_sizes(life: Life) -> None:
    """Those need distributions of every second; docs/alerts.md has the figure."""
    less = at_level(life, Level.STANDARD)
    with filled_victoria(less, *sources_of(less, Metrics.OWN)) as server:
        found = ask_fleet(server.url, life.end, settings=ALONE)
    result = score(SMALL, Metrics.OWN, found.findings)
    assert result.wrong == ()
    assert {each.what for each in result.missed} <= {
        "a notebook on an expensive board",
        "more replicas than are needed",
    }


@pytest.mark.parametrize("metrics", [Metrics.OWN, Metrics.DCGM])
def test_waiting_work_is_told_what_there_is_for_it(ask: Ask, metrics: Metrics) -> None:
    """At once, after which step, or why not: for each waiting workload, and nothing else."""
    result = wait_score(SMALL, metrics, ask(metrics).document)
    assert result.wrong == ()
    assert result.missed == ()
    assert result.found == planted_waits(SMALL, metrics)


def test_findings_become_advice(ask: Ask) -> None:
    """The present is judged by ten minutes, the rest by days; one run is enough to open."""
    answer = ask(Metrics.OWN)
    opened = {each["id"] for each in answer.document["advice"]}
    rules = {finding["rule"] for finding in answer.findings if finding["id"] in opened}
    assert {"idle", "hidden_stall", "host_bound", "launch_bound", "sharing"} <= rules


def test_the_fleet_says_what_the_agents_of_nodes_say(ask: Ask, agents: Mapping[str, str]) -> None:
    """With equal ids, so that advice is announced once; neither side reports more on these jobs."""
    whole = whole_jobs(SMALL)
    places = {
        job.key
        for job in SMALL.jobs
        for machine in SMALL.machines
        if machine.name in NODES and job.name in machine.gpus and job.key in whole
    }
    found = {
        finding["id"]: finding["action"]
        for finding in ask(Metrics.OWN).findings
        if finding["workload"] in places
    }
    assert len(agents) > 5
    assert found == agents
