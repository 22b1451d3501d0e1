"""A running agent and a Grafana: advice becomes a region that ends with it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from agent_process import eventually
from grafana_server import TOKEN, Grafana, grafana_server
from readings import HOUR
from rightsizer.advice.storage import Storage
from rightsizer.agent.agent import Agent
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.io.clock import FastClock
from rightsizer.io.http_settings import HttpSettings
from rightsizer.model.report import JobReport
from rightsizer.notify.grafana.service import AnnotationOutbox
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.simulator.source import DEFAULT_START
from rightsizer.telemetry.nvml.library import use_library
from rightsizer.telemetry.settings import SimulatedSettings

TICK_SECONDS: Final = 300.0
PATIENT: Final = HttpSettings()


@contextmanager
def fast_agent(grafana: Grafana, folder: Path, http: HttpSettings = PATIENT) -> Iterator[Agent]:
    """Two T4 in the evening, one held by a forgotten session until midnight; an hour a second."""
    (folder / "token").write_text(f"{TOKEN}\n")
    base = Settings()
    settings = replace(
        base,
        sampling=replace(base.sampling, interval=TICK_SECONDS),
        sources=replace(base.sources, simulated=SimulatedSettings(scenario="t4-pair")),
        grafana=GrafanaSettings(url=grafana.url, token_file=str(folder / "token"), http=http),
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
    """Posted once with its subject, and ended when the session is gone."""
    with grafana_server() as grafana:
        with fast_agent(grafana, tmp_path) as agent:
            # A GPU whose thread begins late on a busy machine is told of too.
            (posted,) = eventually(
                lambda: [
                    note
                    for note in list(grafana.annotations.values())
                    if "forgotten-session" in note["text"]
                ],
                60,
            )
            first = dict(posted)
            eventually(lambda: grafana.annotations[posted["id"]]["timeEnd"] > first["timeEnd"], 45)
        ended = grafana.annotations[posted["id"]]
        about = [note for note in grafana.annotations.values() if note["tags"] == ended["tags"]]
        advice = {each.id: each for each in agent.advice_service.advice}
    (tagged,) = (each for id_, each in advice.items() if any(id_ in tag for tag in ended["tags"]))

    assert tagged.finding.workload is not None
    assert "forgotten-session" in tagged.finding.workload
    assert "held by forgotten-session but idle" in first["text"]
    assert (ended["time"], ended["timeEnd"]) == (
        tagged.opened // 10**6,
        (tagged.closed or 0) // 10**6,
    )
    assert len(about) == 1


def test_a_grafana_that_is_away_costs_nothing_but_time(tmp_path: Path) -> None:
    """Sampling and advice continue; pending annotations are counted."""
    with grafana_server() as grafana:
        grafana.faults += ["POST 503", "GET 503"] * 50
        with fast_agent(grafana, tmp_path) as agent:
            eventually(lambda: agent.advice_service.advice, 30)
            report = agent.accounting.latest()
            eventually(
                lambda: (
                    (latest := agent.accounting.latest())
                    and latest.agent.metrics["rightsizer_annotations_pending"] >= 1
                    and latest.agent.metrics["rightsizer_annotation_failures_total"] >= 1
                ),
                30,
            )
        grafana.faults.clear()

    assert report is not None
    assert agent.coordinator.failed_ticks == 0
    assert grafana.annotations == {}


def test_stopping_waits_for_no_retry(tmp_path: Path) -> None:
    """Grafana asks for a wait of minutes; stopping does not wait, and nothing is lost."""
    with grafana_server() as grafana:
        grafana.faults += ["GET 503", "POST 503"] * 50
        grafana.retry_after = "200"
        patient = HttpSettings(tries=10, retry_after_maximum_seconds=300.0)
        with fast_agent(grafana, tmp_path, patient) as agent:
            eventually(lambda: grafana.requests, 30)
            under_way = annotating(agent)
        # The agent has ended by now, as has the delivery that was waiting its turn.
        eventually(lambda: annotating(agent).runs > under_way.runs)
        asked = len(grafana.requests)
    kept = Storage(str(tmp_path / "history.db"), read_only=True)
    waiting = AnnotationOutbox(kept.database).pending()
    kept.close()

    assert under_way.failures == 0
    assert asked == 1
    assert waiting


def annotating(agent: Agent) -> JobReport:
    """The status of annotation delivery."""
    (report,) = (report for report in agent.jobs.reports() if report.name == "annotate")
    return report
