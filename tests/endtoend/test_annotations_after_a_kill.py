"""A process killed with -9 while it talks to Grafana: one region, closed once."""

import signal
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import pytest

import annotator
from advice_events import NOW, SECOND, event
from grafana_server import TOKEN, Grafana, grafana_server
from rightsizer.advice.storage import Storage
from rightsizer.model.advice import AdviceEvent, AdviceEventKind, AdviceState
from rightsizer.notify.grafana.annotation import body_of
from rightsizer.notify.grafana.service import AnnotationOutbox

PROCESSES: Final = get_context("forkserver")
"""Forked from one that has loaded what they need, which takes most of their time."""
PROCESSES.set_forkserver_preload(["rightsizer.advice.storage", "rightsizer.notify.grafana.service"])
LATER: Final = NOW + 3600 * SECOND
KINDS: Final = (AdviceEventKind.SEVERITY_UP, AdviceEventKind.VERIFIED, AdviceEventKind.REGRESSED)
DEATHS: Final = ("GET death", "POST death", "POST late-death", "PATCH death", "PATCH late-death")


def offer(history: Path, *events: AdviceEvent) -> None:
    """Put annotations into the outbox, like the recommender."""
    storage = Storage(str(history))
    AnnotationOutbox(storage.database).put([body_of(each) for each in events])
    storage.close()


def deliver(history: Path, grafana: Grafana) -> int | None:
    """Run one process to its end or kill."""
    token = history.parent / "token"
    token.write_text(TOKEN)
    process = PROCESSES.Process(target=annotator.main, args=(history, grafana.url, token))
    process.start()
    grafana.kill = process.kill
    process.join(30)
    return process.exitcode


@pytest.mark.parametrize("deaths", [*((death,) for death in DEATHS), tuple(DEATHS[1:])])
def test_a_kill_at_any_point_leaves_one_region_that_is_closed(
    tmp_path: Path, deaths: tuple[str, ...]
) -> None:
    """Before the write or after it, once or repeatedly: opened once, closed once."""
    history = tmp_path / "history.db"
    offer(history, event(AdviceEventKind.OPENED))
    offer(history, event(AdviceEventKind.CLOSED, time=LATER, state=AdviceState.SUCCEEDED))
    with grafana_server() as grafana:
        grafana.faults = list(deaths)
        statuses = [deliver(history, grafana) for _ in range(len(deaths) + 1)]
    (region,) = grafana.annotations.values()

    assert statuses == [-signal.SIGKILL] * len(deaths) + [0]
    assert (region["time"], region["timeEnd"]) == (NOW // 10**6, LATER // 10**6)
    assert region["text"].startswith("Closed (succeeded).")


@pytest.mark.parametrize(("kind", "death"), list(product(KINDS, DEATHS[1:3])))
def test_a_kill_leaves_one_point(tmp_path: Path, kind: AdviceEventKind, death: str) -> None:
    """Each change has one point, whether or not the first write succeeded."""
    history = tmp_path / "history.db"
    offer(history, event(kind, time=LATER))
    with grafana_server() as grafana:
        grafana.faults = [death]
        statuses = [deliver(history, grafana) for _ in range(2)]

    assert statuses == [-signal.SIGKILL, 0]
    assert [note["time"] for note in grafana.annotations.values()] == [LATER // 10**6]
