"""A running agent and a Grafana: advice becomes a region, and the region ends with it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent_process import eventually
from grafana_server import TOKEN, Grafana, grafana_server
from readings import HOUR
from rightsizer.edge.clock import FastClock
from rightsizer.publish.grafana.settings import GrafanaSettings
from rightsizer.runtime.agent import Agent
from rightsizer.runtime.settings import Settings, SimulatedSettings
from rightsizer.runtime.sources import live_source
from rightsizer.runtime.storage import Storage
from rightsizer.telemetry.nvml.library import use_library
from rightsizer.telemetry.simulated.source import DEFAULT_START

TICK_SECONDS: Final = 60.0


@contextmanager
def fast_agent(grafana: Grafana, folder: Path) -> Iterator[Agent]:
    """Two T4 in the evening, one held by a forgotten session until midnight; an hour a second."""
    (folder / "token").write_text(f"{TOKEN}\n")
    base = Settings()
    settings = replace(
        base,
        sampling=replace(base.sampling, interval=TICK_SECONDS),
        sources=replace(base.sources, simulated=SimulatedSettings(scenario="t4-pair")),
        grafana=GrafanaSettings(url=grafana.url, token_file=str(folder / "token")),
        recommender=replace(base.recommender, jitter=0.0),
        web=replace(base.web, listen_addresses=("127.0.0.1:0",)),
    )
    clock = FastClock(DEFAULT_START + 20 * HOUR, speed=3600.0)
    source = live_source(settings, clock)
    storage = Storage(str(folder / "history.db"))
    agent = Agent(settings, source.source, source_name=source.name, clock=clock, storage=storage)
    stop = threading.Event()
    agent.start()
    thread = threading.Thread(target=agent.run, args=(stop,))
    thread.start()
    try:
        yield agent
    finally:
        stop.set()
        thread.join()
        use_library(None)


def test_advice_is_a_region_from_its_opening_to_its_closing(tmp_path: Path) -> None:
    """Posted once, with what it is about, and ended when the session is gone."""
    with grafana_server() as grafana:
        with fast_agent(grafana, tmp_path) as agent:
            (posted,) = eventually(lambda: list(grafana.annotations.values()), 30)
            first = dict(posted)
            eventually(lambda: grafana.annotations[posted["id"]]["timeEnd"] > first["timeEnd"], 45)
        ended = grafana.annotations[posted["id"]]
        about = [note for note in grafana.annotations.values() if note["tags"] == ended["tags"]]
        advice = {each.id: each for each in agent.chores.advice}
    (told,) = (each for id_, each in advice.items() if any(id_ in tag for tag in ended["tags"]))

    assert told.finding.workload is not None
    assert "forgotten-session" in told.finding.workload
    assert "held by forgotten-session but idle" in first["text"]
    assert (ended["time"], ended["timeEnd"]) == (
        told.opened // 10**6,
        (told.closed or 0) // 10**6,
    )
    assert len(about) == 1


def test_a_grafana_that_is_away_costs_nothing_but_time(tmp_path: Path) -> None:
    """Sampling and advice go on; what waits is counted."""
    with grafana_server() as grafana:
        grafana.faults += ["POST 503", "GET 503"] * 50
        with fast_agent(grafana, tmp_path) as agent:
            eventually(lambda: agent.chores.advice, 30)
            report = agent.accountant.latest()
            eventually(
                lambda: (
                    (latest := agent.accountant.latest())
                    and latest.agent.gauges["rightsizer_annotations_pending"] >= 1
                    and latest.agent.counters["rightsizer_annotation_failures_total"] >= 1
                ),
                30,
            )
        grafana.faults.clear()

    assert report is not None
    assert agent.coordinator.failed_ticks == 0
    assert grafana.annotations == {}
