"""Annotations over days, and with a Grafana whose state changes."""

import threading
from collections.abc import Iterator

import pytest

from advice_events import NOW, SECOND, event
from grafana_fixture import GrafanaFixture
from grafana_server import TOKEN, Grafana, grafana_server
from rightsizer.advice.storage import Storage
from rightsizer.io.clock import FastClock
from rightsizer.io.http import HttpClient
from rightsizer.io.http_settings import HttpSettings
from rightsizer.model.advice import AdviceEventKind
from rightsizer.notify.delivery import DeliveryContext
from rightsizer.notify.grafana.service import AnnotationOutbox, GrafanaAnnotations
from rightsizer.notify.grafana.settings import GrafanaSettings

OPENED = AdviceEventKind.OPENED
CLOSED = AdviceEventKind.CLOSED
LATER = NOW + 3600 * SECOND


@pytest.fixture
def grafana() -> Iterator[Grafana]:
    """A Grafana that records its requests."""
    with grafana_server() as server:
        yield server


def test_a_grafana_that_lost_its_database_keeps_what_is_somebody_elses(grafana: Grafana) -> None:
    """Its IDs restart, so that one of ours may be another's: that one is not changed."""
    setup = GrafanaFixture(grafana.url)
    setup.sink.offer([event(OPENED)])
    setup.sink.deliver()
    others = {"id": 1, "time": NOW // 10**6, "timeEnd": NOW // 10**6, "tags": ["deploy"]}
    grafana.annotations = {1: {**others, "text": "release 7"}}
    grafana.next_id = 2
    setup.sink.offer([event(CLOSED, time=LATER)])
    report = setup.sink.deliver()

    assert grafana.annotations[1] == {**others, "text": "release 7"}
    assert grafana.annotations[2]["timeEnd"] == LATER // 10**6
    assert report.pending == 0


def test_a_region_that_somebody_moved_is_closed_where_it_is(grafana: Grafana) -> None:
    """Its ID identifies it while its tags match."""
    setup = GrafanaFixture(grafana.url)
    setup.sink.offer([event(OPENED)])
    setup.sink.deliver()
    grafana.annotations[1]["time"] -= 5000
    setup.sink.offer([event(CLOSED, time=LATER)])
    setup.sink.deliver()
    (region,) = grafana.annotations.values()

    assert region["timeEnd"] == LATER // 10**6


def test_a_day_away_costs_few_attempts_and_no_advice() -> None:
    """Attempts are every five minutes; then all events arrive in order, each once."""
    tried: list[float] = []

    def refuse(seconds: float) -> None:
        tried.append(seconds)

    outbox = AnnotationOutbox(Storage("").database)
    clock = FastClock(NOW)
    settings = GrafanaSettings(url="http://127.0.0.1:9", http=HttpSettings(tries=2))
    http = HttpClient(settings.url, settings.http, token=lambda: TOKEN, sleep=refuse)
    context = DeliveryContext(tuple, clock, lambda *_: None)
    sink = GrafanaAnnotations(settings, outbox, context, http)
    for minute in range(24 * 60):
        if minute % 144 == 0:
            sink.offer([event(OPENED, id=f"n{minute}", opened=clock.wall_time())])
        sink.deliver()
        clock.wait_until(clock.time() + 60 * SECOND, threading.Event())
    with grafana_server() as server:
        report = GrafanaFixture(server.url, outbox).sink.deliver()

    assert 280 <= len(tried) <= 300
    assert (report.sent, report.pending) == (10, 0)
    tags = [note["tags"][1] for note in server.annotations.values()]
    assert tags == [f"advice:n{minute}" for minute in range(0, 1440, 144)]


def test_a_day_brings_no_more_than_the_store_is_meant_for(grafana: Grafana) -> None:
    """For any number of changes, those beyond the daily limit wait, and are summarized."""
    setup = GrafanaFixture(grafana.url, annotations_per_run=5, annotations_per_day=48)
    for minute in range(24 * 60):
        setup.sink.offer([event(OPENED, id=f"n{minute}", opened=setup.clock.wall_time())])
        setup.sink.deliver()
        setup.wait(60)
    notes = list(grafana.annotations.values())
    sums = [note for note in notes if "event:rollup" in note["tags"]]
    announced = sum(int(note["text"].split()[0]) for note in sums) + len(notes) - len(sums)

    assert len(notes) <= 48 + 6
    assert sums
    assert announced + setup.sink.report.pending == 24 * 60


def test_regions_end_although_the_day_is_used_up(grafana: Grafana) -> None:
    """A closing creates no annotation, so no region stays open for lack of quota."""
    setup = GrafanaFixture(grafana.url, annotations_per_run=1, annotations_per_day=1)
    setup.sink.offer([event(OPENED, id="a"), event(OPENED, id="b")])
    setup.sink.deliver()
    setup.wait(60)
    setup.sink.offer([event(OPENED, id="c"), event(CLOSED, id="a", time=LATER)])
    report = setup.sink.deliver()

    assert grafana.annotations[1]["timeEnd"] == LATER // 10**6
    assert report.pending == 1
