"""Annotations against a server as strict as Grafana, over a faulty network."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from advice_events import NOW, SECOND, event
from grafana_fixture import GrafanaFixture
from grafana_server import TOKEN, Grafana, grafana_server
from rightsizer.advice.storage import Storage
from rightsizer.io.clock import FastClock
from rightsizer.model.advice import AdviceEventKind, AdviceState
from rightsizer.notify.delivery import DeliveryContext
from rightsizer.notify.grafana.service import AnnotationOutbox, GrafanaAnnotations
from rightsizer.notify.grafana.settings import GrafanaSettings, read_token

OPENED = AdviceEventKind.OPENED
CLOSED = AdviceEventKind.CLOSED
DECIDED = AdviceEventKind.DECIDED
LATER = NOW + 3600 * SECOND


@pytest.fixture
def grafana() -> Iterator[Grafana]:
    """A Grafana that records its requests."""
    with grafana_server() as server:
        yield server


def test_opening_posts_one_region(grafana: Grafana) -> None:
    """A search precedes one annotation with time, tags and text."""
    setup = GrafanaFixture(grafana.url)
    setup.sink.offer([event(OPENED)])
    report = setup.sink.deliver()
    assert (report.sent, report.failed, report.pending, report.trouble) == (1, 0, 0, None)
    assert [method for method, _ in grafana.requests] == ["GET", "POST"]
    (annotation,) = grafana.annotations.values()
    assert annotation["time"] == annotation["timeEnd"] == NOW // 1_000_000
    assert annotation["tags"][:3] == ["rightsizer", "advice:a1b2c3", "event:opened"]
    assert "dashboardUID" not in annotation
    assert report.last_success == NOW


def test_search_asks_for_the_advice_at_its_time(grafana: Grafana) -> None:
    """The narrow search stays below Grafana's limit of results."""
    setup = GrafanaFixture(grafana.url)
    setup.sink.offer([event(OPENED)])
    setup.sink.deliver()
    assert grafana.requests[0][1] == (
        "/api/annotations?tags=advice%3Aa1b2c3&tags=event%3Aopened&type=annotation"
        "&from=1790000000000&to=1790000000001&limit=100"
    )


def test_offering_talks_to_nobody(grafana: Grafana) -> None:
    """The recommender's thread never waits for Grafana."""
    GrafanaFixture(grafana.url).sink.offer([event(OPENED)])
    assert grafana.requests == []


def test_closing_patches_the_end(grafana: Grafana) -> None:
    """The region's end and its text are patched; no second annotation appears."""
    setup = GrafanaFixture(grafana.url)
    setup.sink.offer([event(OPENED), event(CLOSED, time=LATER, state=AdviceState.SUCCEEDED)])
    setup.sink.deliver()
    (annotation,) = grafana.annotations.values()
    assert annotation["timeEnd"] == LATER // 1_000_000
    assert annotation["text"].startswith("Closed (succeeded).")
    assert grafana.requests[-1] == ("PATCH", "/api/annotations/1")


def test_a_decision_patches_the_words_and_leaves_the_region_open(grafana: Grafana) -> None:
    """The annotation has the user of a claim; closing still ends it."""
    setup = GrafanaFixture(grafana.url)
    claimed = event(DECIDED, time=LATER, state=AdviceState.CLAIMED)
    setup.sink.offer([event(OPENED), claimed])
    setup.sink.deliver()
    (annotation,) = grafana.annotations.values()
    assert annotation["timeEnd"] == annotation["time"] == NOW // 1_000_000
    assert annotation["text"].startswith("Claimed.")
    assert annotation["data"]["state"] == "claimed"
    setup.sink.offer([event(CLOSED, time=LATER, state=AdviceState.SUCCEEDED)])
    setup.sink.deliver()
    (annotation,) = grafana.annotations.values()
    assert annotation["timeEnd"] == LATER // 1_000_000
    assert annotation["data"]["state"] == "succeeded"


def test_a_decision_makes_a_region_that_is_gone_again(grafana: Grafana) -> None:
    """It stays open, and belongs to the recommendation."""
    setup = GrafanaFixture(grafana.url)
    setup.sink.offer([event(DECIDED, time=LATER, state=AdviceState.SNOOZED)])
    setup.sink.deliver()
    (annotation,) = grafana.annotations.values()
    assert annotation["timeEnd"] == annotation["time"] == NOW // 1_000_000
    assert setup.outbox.annotation_id("a1b2c3") == annotation["id"]


def test_decisions_are_not_summed_up(grafana: Grafana) -> None:
    """They create no annotations, however many there are."""
    setup = GrafanaFixture(grafana.url, annotations_per_run=2)
    setup.sink.offer([event(OPENED), event(OPENED, id="other")])
    setup.sink.deliver()
    setup.sink.offer([event(OPENED, id=f"x{index}") for index in range(4)])
    setup.sink.offer([event(DECIDED, time=LATER, state=AdviceState.CLAIMED)])
    for _ in range(3):
        setup.sink.deliver()
    first = next(annotation for annotation in grafana.annotations.values() if annotation["id"] == 1)
    assert first["text"].startswith("Claimed.")
    assert not any(
        "Claimed" in annotation["text"]
        for annotation in grafana.annotations.values()
        if annotation["id"] > 1
    )


def test_points_stand_beside_the_region(grafana: Grafana) -> None:
    """Each change is one point, at its own time."""
    setup = GrafanaFixture(grafana.url)
    kinds = (AdviceEventKind.SEVERITY_UP, AdviceEventKind.VERIFIED, AdviceEventKind.REGRESSED)
    setup.sink.offer([event(OPENED), *(event(kind, time=LATER) for kind in kinds)])
    setup.sink.deliver()
    points = [a for a in grafana.annotations.values() if a["time"] == LATER // 1_000_000]
    assert [a["tags"][2] for a in points] == [f"event:{kind}" for kind in kinds]
    assert len(grafana.annotations) == 4


def test_cut_connection_leaves_one_annotation(grafana: Grafana) -> None:
    """A write with a lost response is found instead of repeated, and can be closed."""
    setup = GrafanaFixture(grafana.url)
    grafana.faults = ["POST cut"]
    setup.sink.offer([event(OPENED)])
    assert setup.sink.deliver().pending == 1
    assert setup.sink.deliver().pending == 0
    setup.sink.offer([event(CLOSED, time=LATER)])
    setup.sink.deliver()
    (annotation,) = grafana.annotations.values()
    assert annotation["timeEnd"] == LATER // 1_000_000


@pytest.mark.parametrize("status", [404, 500])
def test_region_that_is_gone_is_made_again(grafana: Grafana, status: int) -> None:
    """The closed region is posted completely, whichever status Grafana uses for deleted ones."""
    setup = GrafanaFixture(grafana.url)
    setup.sink.offer([event(OPENED)])
    setup.sink.deliver()
    grafana.annotations.clear()
    grafana.gone_status = status
    setup.sink.offer([event(CLOSED, time=LATER)])
    report = setup.sink.deliver()
    (annotation,) = grafana.annotations.values()
    assert annotation["time"] == NOW // 1_000_000
    assert annotation["timeEnd"] == LATER // 1_000_000
    assert report.pending == 0


def test_server_error_is_not_taken_for_a_deletion(grafana: Grafana) -> None:
    """A 500 for an existing region is a failure, and is retried later."""
    setup = GrafanaFixture(grafana.url)
    setup.sink.offer([event(OPENED)])
    setup.sink.deliver()
    grafana.faults = ["PATCH 500"]
    setup.sink.offer([event(CLOSED, time=LATER)])
    assert setup.sink.deliver().pending == 1
    assert setup.sink.deliver().pending == 0
    (annotation,) = grafana.annotations.values()
    assert annotation["timeEnd"] == LATER // 1_000_000


def test_region_of_a_lost_memory_is_found(grafana: Grafana) -> None:
    """An agent without its state closes the region of its predecessor."""
    first = GrafanaFixture(grafana.url)
    first.sink.offer([event(OPENED)])
    first.sink.deliver()
    second = GrafanaFixture(grafana.url)
    second.sink.offer([event(CLOSED, time=LATER)])
    second.sink.deliver()
    (annotation,) = grafana.annotations.values()
    assert annotation["timeEnd"] == LATER // 1_000_000


@pytest.mark.parametrize(
    ("fault", "trouble"),
    [
        ("GET 500", "answered 500"),
        ("GET slow", "did not answer within 1 s"),
        ("GET html", "login page"),
        ("GET shape", "grafana.url leads to Grafana"),
        ("POST shape", "grafana.url leads to Grafana"),
        ("POST 503", "answered 503"),
        ("GET 404", "its sub-path included"),
    ],
)
def test_fault_delays_and_loses_nothing(grafana: Grafana, fault: str, trouble: str) -> None:
    """After any fault the events wait in order, and are delivered when it is over."""
    # Any other answer of a busy machine may take longer.
    setup = GrafanaFixture(grafana.url, timeout_seconds=1.0 if fault == "GET slow" else 10.0)
    grafana.faults = [fault]
    events = [event(OPENED, id=name) for name in ("a", "b", "c")]
    setup.sink.offer(events)
    report = setup.sink.deliver()
    assert (report.failed, report.pending) == (1, 3)
    assert report.trouble is not None
    assert trouble in report.trouble
    report = setup.sink.deliver()
    assert (report.sent, report.pending, report.trouble) == (3, 0, None)
    tags = [annotation["tags"][1] for annotation in grafana.annotations.values()]
    assert tags == ["advice:a", "advice:b", "advice:c"]
    assert len(setup.errors) == 1


def test_grafana_that_is_away_is_delivered_to_later() -> None:
    """Queued events reach the next Grafana, even from another process."""
    outbox = AnnotationOutbox(Storage("").database)
    away = GrafanaFixture("http://127.0.0.1:9", outbox)
    away.sink.offer([event(OPENED, id="a"), event(OPENED, id="b")])
    assert away.sink.deliver().pending == 2
    assert "kept and sent later" in away.errors[0]
    with grafana_server() as server:
        setup = GrafanaFixture(server.url, outbox)
        assert setup.sink.report.pending == 2
        assert setup.sink.deliver().pending == 0
        assert len(server.annotations) == 2


@pytest.mark.parametrize(("status", "remedy"), [(401, "make a new one"), (403, "role Editor")])
def test_refused_token_is_said_once(grafana: Grafana, status: int, remedy: str) -> None:
    """The remedy is logged at the first refusal only, and never the token."""
    setup = GrafanaFixture(grafana.url)
    grafana.faults = [f"GET {status}"] * 3
    setup.sink.offer([event(OPENED)])
    reports = []
    for _ in range(3):
        reports.append(setup.sink.deliver())
        setup.wait(301)
    assert len(setup.errors) == 1
    assert remedy in setup.errors[0]
    assert TOKEN not in setup.errors[0]
    assert reports[-1].failed == 3
    setup.sink.deliver()
    assert len(grafana.annotations) == 1


def test_failing_grafana_is_tried_again_within_minutes(grafana: Grafana) -> None:
    """Pauses double from a minute to five, and end with the first success."""
    setup = GrafanaFixture(grafana.url)
    grafana.faults = ["GET 500"] * 30
    setup.sink.offer([event(OPENED)])
    tries, failed = [], 0
    for minute in range(22):
        report = setup.sink.deliver()
        if report.failed > failed:
            tries.append(minute)
        failed = report.failed
        setup.wait(60)
    assert tries == [0, 1, 2, 4, 8, 13, 18]
    grafana.faults = []
    setup.wait(300)
    assert setup.sink.deliver().pending == 0


def test_long_retry_after_is_waited_for(grafana: Grafana) -> None:
    """A requested pause is kept, longer than the own maximum too, without blocking any thread."""
    setup = GrafanaFixture(grafana.url)
    grafana.faults = ["GET 429"]
    grafana.retry_after = "900"
    setup.sink.offer([event(OPENED)])
    setup.sink.deliver()
    setup.wait(899)
    assert setup.sink.deliver().pending == 1
    assert len(grafana.requests) == 1
    setup.wait(2)
    assert setup.sink.deliver().pending == 0


def test_retry_after_of_a_week_is_cut(grafana: Grafana) -> None:
    """A server that counts in other units, or has another date, does not silence the agent."""
    setup = GrafanaFixture(grafana.url)
    grafana.faults = ["GET 429"]
    grafana.retry_after = "604800"
    setup.sink.offer([event(OPENED)])
    setup.sink.deliver()
    setup.wait(1801)
    assert setup.sink.deliver().pending == 0


def test_unacceptable_note_does_not_stop_the_others(grafana: Grafana) -> None:
    """A rejected annotation is dropped and logged; the next one is sent."""
    setup = GrafanaFixture(grafana.url)
    grafana.faults = ["POST 400"]
    setup.sink.offer([event(OPENED, id="a"), event(OPENED, id="b")])
    report = setup.sink.deliver()
    assert (report.sent, report.dropped, report.pending) == (1, 1, 0)
    assert "for what it says" in setup.errors[0]


def test_flood_is_rolled_up(grafana: Grafana) -> None:
    """Beyond the limit of a run one annotation summarizes the rest, to keep graphs usable."""
    setup = GrafanaFixture(grafana.url, annotations_per_run=3)
    setup.sink.offer([event(OPENED, id=f"n{index}") for index in range(10)])
    report = setup.sink.deliver()
    assert (report.sent, report.pending) == (4, 0)
    *_, last = grafana.annotations.values()
    assert last["text"].startswith("7 more changes of advice:")
    assert last["tags"][2] == "event:rollup"


def test_roll_up_survives_a_cut_connection(grafana: Grafana) -> None:
    """A summary with a lost response is neither repeated nor split."""
    setup = GrafanaFixture(grafana.url, annotations_per_run=1)
    setup.sink.offer([event(OPENED, id=f"n{index}") for index in range(5)])
    grafana.faults = ["GET cut"]
    setup.sink.deliver()
    grafana.faults = ["POST cut"]
    for _ in range(3):
        setup.sink.deliver()
    assert len(grafana.annotations) == 2
    assert setup.sink.report.pending == 0


def test_flood_still_ends_its_regions(grafana: Grafana) -> None:
    """A closing is never summarized: its region ends in this run or the next."""
    setup = GrafanaFixture(grafana.url, annotations_per_run=2)
    setup.sink.offer([event(OPENED, id="a"), event(OPENED, id="b")])
    setup.sink.deliver()
    flood = [event(OPENED, id=f"n{index}") for index in range(4)]
    closings = [event(CLOSED, id=name, time=LATER) for name in ("a", "b")]
    setup.sink.offer([*flood, *closings])
    setup.sink.deliver()
    setup.sink.deliver()
    ends = [annotation["timeEnd"] for annotation in list(grafana.annotations.values())[:2]]
    assert ends == [LATER // 1_000_000] * 2
    assert setup.sink.report.pending == 0


def test_outbox_is_bounded() -> None:
    """During a long outage the oldest events are dropped, and counted."""
    setup = GrafanaFixture("http://127.0.0.1:9", outbox_maximum=4)
    setup.sink.offer([event(CLOSED, id=f"n{index}") for index in range(6)])
    report = setup.sink.deliver()
    assert (report.dropped, report.pending) == (2, 4)
    assert setup.outbox.pending()[0].body.advice_id == "n2"


def test_token_comes_from_the_credential_first(tmp_path: Path) -> None:
    """Systemd's credential precedes the file, and each is read at every use."""
    (tmp_path / "grafana-token").write_text("first\n")
    file = tmp_path / "file"
    file.write_text("second")
    settings = GrafanaSettings(token_file=str(file))
    assert read_token(settings, {"CREDENTIALS_DIRECTORY": str(tmp_path)}) == "first"
    assert read_token(settings, {"CREDENTIALS_DIRECTORY": str(tmp_path / "none")}) == "second"
    file.write_text("third")
    assert read_token(settings, {}) == "third"
    assert read_token(GrafanaSettings(), {}) is None


@pytest.mark.parametrize("text", ["", "two words", "two\nlines", "schlüssel"])
def test_file_without_a_token_is_named(tmp_path: Path, text: str) -> None:
    """The error names the file, without its contents."""
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(ValueError, match="does not hold a token") as caught:
        read_token(GrafanaSettings(token_file=str(file)), {})
    assert not text or text not in str(caught.value).replace(str(file), "")


def test_unreadable_token_is_trouble_with_a_remedy(tmp_path: Path) -> None:
    """A missing token file delays annotations, and raises nothing."""
    settings = GrafanaSettings(url="http://127.0.0.1:9", token_file=str(tmp_path / "none"))
    messages: list[str] = []
    context = DeliveryContext(tuple, FastClock(NOW), lambda _, message: messages.append(message))
    sink = GrafanaAnnotations(settings, AnnotationOutbox(Storage("").database), context)
    sink.offer([event(OPENED)])
    assert sink.deliver().pending == 1
    assert str(tmp_path / "none") in messages[0]
    assert "grafana.token_file" in messages[0]


def test_whole_sink_from_settings(grafana: Grafana, tmp_path: Path) -> None:
    """The sink of the settings posts with the token of the file."""
    (tmp_path / "token").write_text(TOKEN)
    settings = GrafanaSettings(url=grafana.url, token_file=str(tmp_path / "token"))
    context = DeliveryContext(tuple, FastClock(NOW), lambda *_: None)
    sink = GrafanaAnnotations(settings, AnnotationOutbox(Storage("").database), context)
    sink.offer([event(OPENED)])
    assert sink.deliver().sent == 1


def test_unusable_address_is_refused_by_the_settings() -> None:
    """An invalid address is an error of the configuration, not of the first run."""
    with pytest.raises(ValueError, match="write it like"):
        replace(GrafanaSettings(), url="grafana:3000")


def test_a_grafana_that_lost_its_database_has_the_open_regions_again(grafana: Grafana) -> None:
    """They are back within the hour, with claims; ended ones are not."""
    setup = GrafanaFixture(grafana.url)
    claimed = event(DECIDED, id="claimed", state=AdviceState.CLAIMED)
    events = [event(OPENED, id="open"), event(OPENED, id="claimed"), claimed]
    ended = [event(OPENED, id="ended"), event(CLOSED, id="ended", state=AdviceState.EXPIRED)]
    setup.sink.offer([*events, *ended])
    setup.sink.deliver()
    before = {
        annotation["tags"][1]: (annotation["time"], annotation["text"])
        for annotation in grafana.annotations.values()
    }
    setup.advice = [events[0].advice, claimed.advice, ended[1].advice]

    grafana.annotations.clear()
    setup.sink.deliver()
    assert not grafana.annotations
    setup.wait(3601)
    assert setup.sink.deliver().pending == 0
    after = {
        annotation["tags"][1]: (annotation["time"], annotation["text"])
        for annotation in grafana.annotations.values()
    }
    assert after == {tag: before[tag] for tag in ("advice:open", "advice:claimed")}

    asked = len(grafana.requests)
    setup.wait(3601)
    setup.sink.deliver()
    assert [method for method, _ in grafana.requests[asked:]] == ["GET"]


def test_a_region_that_a_user_deleted_stays_deleted(grafana: Grafana) -> None:
    """The other regions exist, so that the database was not lost."""
    setup = GrafanaFixture(grafana.url)
    events = [event(OPENED, id="kept"), event(OPENED, id="deleted")]
    setup.sink.offer(events)
    setup.sink.deliver()
    setup.advice = [each.advice for each in reversed(events)]
    gone = [
        id_
        for id_, annotation in grafana.annotations.items()
        if "advice:deleted" in annotation["tags"]
    ]
    for id_ in gone:
        del grafana.annotations[id_]
    setup.wait(3601)
    setup.sink.deliver()
    assert [annotation["tags"][1] for annotation in grafana.annotations.values()] == ["advice:kept"]


def test_annotations_say_where_they_are_from(grafana: Grafana) -> None:
    """Dashboards can filter by node and cluster."""
    setup = GrafanaFixture(grafana.url, node="gpu-node-1", cluster="east")
    setup.sink.offer([event(OPENED)])
    setup.sink.deliver()
    (annotation,) = grafana.annotations.values()
    assert {"node:gpu-node-1", "cluster:east", "workload:team-a/notebook"} <= {*annotation["tags"]}
