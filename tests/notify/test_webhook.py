"""Webhooks over real sockets: contents, time, retries, and secrets."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Struct
from msgspec.structs import replace

from advice_events import NOW, SECOND, event
from rightsizer.advice.storage import MIGRATIONS
from rightsizer.config.loader import load_file
from rightsizer.io.database import Database
from rightsizer.model.advice import AdviceEventKind
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.finding import Reason, Severity
from rightsizer.model.settings import Spec
from rightsizer.notify.delivery import Outbox
from rightsizer.notify.receiver import RECEIVER_OUTBOX
from rightsizer.notify.webhook.settings import WebhookFormat, WebhookSettings
from settings_documents import schema
from webhook_fixture import QUICK, WebhookFixture, severe, to
from webhook_server import webhook_server

OPENED = AdviceEventKind.OPENED
CLOSED = AdviceEventKind.CLOSED


def test_a_change_is_one_request_with_the_whole_advice() -> None:
    """It has event, time, place, and a delivery ID by which receivers detect repetitions."""
    with webhook_server() as inbox:
        report = WebhookFixture(to(f"{inbox.url}/hook/?key=1")).send(event(OPENED))
    (body,) = inbox.bodies

    assert inbox.paths == ["/hook/?key=1"]
    assert {name: body[name] for name in ("version", "event", "node", "time")} == {
        "version": 1,
        "event": "opened",
        "node": "node-1",
        "time": NOW / SECOND,
    }
    assert body["delivery"] == f"a1b2c3-opened-{NOW}"
    assert (body["advice"]["id"], body["advice"]["state"]) == ("a1b2c3", "active")
    assert (report.sent, report.failed, report.pending) == (1, 0, 0)


def test_a_decision_is_told_to_nobody() -> None:
    """Its author knows; the annotation shows it."""
    with webhook_server() as inbox:
        report = WebhookFixture(to(inbox.url)).send(event(AdviceEventKind.DECIDED))

    assert inbox.paths == []
    assert (report.sent, report.pending) == (0, 0)


def test_offering_asks_no_one() -> None:
    """The recommender never waits for a receiver."""
    with webhook_server() as inbox:
        WebhookFixture(to(inbox.url)).offer(event(OPENED))

    assert inbox.paths == []


@pytest.mark.parametrize("fault", ["500", "503", "404", "401", "cut"])
def test_a_fault_delays_and_loses_nothing(fault: str) -> None:
    """Events wait in order; a receiver that disconnected can detect the repetition."""
    with webhook_server() as inbox:
        inbox.faults = [fault]
        fixture = WebhookFixture(to(inbox.url))
        failed = fixture.send(event(OPENED, id="a"), event(OPENED, id="b"))
        fixture.wait(61)
        mended = fixture.send()
    names = [body["advice"]["id"] for body in inbox.bodies]

    assert (failed.failed, failed.pending) == (1, 2)
    assert failed.trouble is not None
    assert (mended.sent, mended.pending, mended.trouble) == (2, 0, None)
    assert list(dict.fromkeys(names)) == ["a", "b"]
    assert len({body["delivery"] for body in inbox.bodies}) == 2
    assert len(fixture.errors) == 1


def test_an_answer_that_is_no_json_is_an_answer() -> None:
    """Many receivers answer `ok`, or with a page."""
    with webhook_server() as inbox:
        inbox.faults = ["html"]
        report = WebhookFixture(to(inbox.url)).send(event(OPENED))

    assert (report.sent, report.pending) == (1, 0)


def test_rejected_event_does_not_stop_the_others() -> None:
    """It is dropped and counted."""
    with webhook_server() as inbox:
        inbox.faults = ["422"]
        fixture = WebhookFixture(to(inbox.url))
        report = fixture.send(event(OPENED, id="a"), event(OPENED, id="b"))

    assert [body["advice"]["id"] for body in inbox.bodies] == ["b"]
    assert (report.dropped, report.pending) == (1, 0)
    assert "refused a change of advice" in fixture.errors[0]


def test_a_receiver_that_fails_is_left_alone_for_longer_each_time() -> None:
    """After the second failure the pause is a minute, then two, up to the setting."""
    with webhook_server() as inbox:
        inbox.faults = ["500"] * 4
        fixture = WebhookFixture(to(inbox.url, pause_seconds=100.0))
        fixture.send(event(OPENED))
        asked = []
        for _ in range(8):
            fixture.wait(30)
            fixture.send()
            asked.append(len(inbox.paths))

    assert asked == [2, 2, 3, 3, 3, 3, 4, 4]


def test_a_receiver_that_asks_for_patience_has_it() -> None:
    """`Retry-After` beyond a request's own wait is a pause."""
    with webhook_server() as inbox:
        inbox.faults = ["429"]
        inbox.retry_after = "600"
        fixture = WebhookFixture(to(inbox.url))
        fixture.send(event(OPENED))
        fixture.wait(599)
        early = fixture.send()
        fixture.wait(2)
        late = fixture.send()

    assert (early.pending, late.pending) == (1, 0)


def test_a_receiver_that_asks_for_a_week_is_tried_sooner() -> None:
    """A wrong date must not keep changes back for longer than half an hour."""
    with webhook_server() as inbox:
        inbox.faults = ["429"]
        inbox.retry_after = "604800"
        fixture = WebhookFixture(to(inbox.url))
        fixture.send(event(OPENED))
        fixture.wait(1799)
        early = fixture.send()
        fixture.wait(2)
        late = fixture.send()

    assert (early.pending, late.pending) == (1, 0)


def test_one_receiver_that_is_away_keeps_nothing_from_another() -> None:
    """Each has its own queue; both get everything in the end."""
    with webhook_server() as inbox:
        fixture = WebhookFixture(to("http://127.0.0.1:9/hook"), to(inbox.url))
        fixture.send(event(OPENED))
        away, there = (webhook.report for webhook in fixture.webhooks)

    assert (away.pending, there.pending) == (1, 0)
    assert len(inbox.bodies) == 1


def test_waiting_event_survives_a_restart(tmp_path: Path) -> None:
    """A receiver that is back a day later gets events of an earlier process."""
    with closing(Database(tmp_path / "history.db", MIGRATIONS)) as database:
        with webhook_server() as inbox:
            settings = to(inbox.url)
        WebhookFixture(settings, outbox=Outbox(database, RECEIVER_OUTBOX)).send(event(OPENED))
    port = int(settings.url.rpartition(":")[2])
    with (
        closing(Database(tmp_path / "history.db", MIGRATIONS)) as database,
        webhook_server(port=port) as inbox,
    ):
        report = WebhookFixture(settings, outbox=Outbox(database, RECEIVER_OUTBOX)).send()

    assert [body["advice"]["id"] for body in inbox.bodies] == ["a1b2c3"]
    assert report.pending == 0


def test_events_of_a_removed_webhook_are_dropped(tmp_path: Path) -> None:
    """A webhook removed from the configuration is removed from the database."""
    with closing(Database(tmp_path / "history.db", MIGRATIONS)) as database:
        outbox = Outbox(database, RECEIVER_OUTBOX)
        WebhookFixture(to("http://127.0.0.1:9"), outbox=outbox).send(event(OPENED))
        WebhookFixture(to("http://127.0.0.1:9/other"), outbox=outbox)
        with database.transaction() as connection:
            (left,) = connection.execute("SELECT count(*) FROM webhook_outbox").fetchone()

    assert left == 0


def test_event_emitted_twice_is_sent_once() -> None:
    """An agent that died before recording the delivery emits it again."""
    with webhook_server() as inbox:
        fixture = WebhookFixture(to(inbox.url))
        fixture.offer(event(OPENED))
        fixture.send(event(OPENED))

    assert len(inbox.bodies) == 1


def test_the_outbox_is_bounded() -> None:
    """During a long outage the oldest events are dropped, and counted."""
    fixture = WebhookFixture(to("http://127.0.0.1:9", outbox_maximum=3))
    report = fixture.send(*(event(OPENED, id=f"n{index}") for index in range(5)))

    assert (report.dropped, report.pending) == (2, 3)


def test_only_what_is_asked_for_is_sent() -> None:
    """Filters are reason, severity, and endings."""
    with webhook_server() as inbox:
        settings = to(
            inbox.url,
            reasons=(Reason.IDLE_HELD,),
            minimum_severity=Severity.HIGH,
            send_resolved=False,
        )
        other = replace(event(OPENED, id="other").advice.finding, reasons=(Reason.HIDDEN_STALL,))
        stall = event(OPENED, id="other")
        WebhookFixture(settings).send(
            event(OPENED, id="low"),
            severe(event(OPENED, id="high"), Severity.HIGH),
            severe(event(CLOSED, id="high"), Severity.HIGH),
            severe(replace(stall, advice=replace(stall.advice, finding=other)), Severity.CRITICAL),
        )

    assert [(body["event"], body["advice"]["id"]) for body in inbox.bodies] == [("opened", "high")]


def test_secrets_are_read_again_and_never_shown(tmp_path: Path) -> None:
    """Token, headers and address never leak, though the receiver echoes all of them."""
    for name, text in {"token": "t0ken", "headers": "# keys\nX-Api-Key: k3y\n"}.items():
        (tmp_path / name).write_text(text)
    with webhook_server() as inbox:
        (tmp_path / "url").write_text(f"{inbox.url}/services/s3cret?sig=q3ry\n")
        settings = WebhookSettings(
            url_file=str(tmp_path / "url"),
            token_file=str(tmp_path / "token"),
            headers_file=str(tmp_path / "headers"),
            name="chat",
            http=QUICK,
        )
        inbox.faults = ["500"]
        fixture = WebhookFixture(settings)
        failed = fixture.send(event(OPENED))
        (tmp_path / "token").write_text("t0ken2")
        fixture.wait(61)
        fixture.send()
    messages = " ".join([*fixture.errors, str(failed)])

    assert "chat: " in messages
    assert not [secret for secret in ("t0ken", "k3y", "s3cret", "q3ry") if secret in messages]
    assert [header["Authorization"] for header in inbox.headers] == [
        "Bearer t0ken",
        "Bearer t0ken2",
    ]
    assert inbox.headers[0]["X-Api-Key"] == "k3y"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("token", "two words", "does not hold a token"),
        ("headers", "X-Key: a\nno header\n", "headers:2: not a header"),
        ("headers", "Bad Name: a\n", "no header may hold"),
        ("url", "ftp://x/s3cret", "not an address"),
    ],
)
def test_a_file_that_is_wrong_is_named_without_its_content(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    """Nothing is sent, and the queue is kept."""
    (tmp_path / name).write_text(text)
    files = {f"{name}_file": str(tmp_path / name)}
    address = {} if name == "url" else {"url": "http://127.0.0.1:9"}
    fixture = WebhookFixture(WebhookSettings(**address, **files, http=QUICK))
    report = fixture.send(event(OPENED))

    assert report.pending == 1
    assert said in fixture.errors[0]
    assert text not in fixture.errors[0]
    assert "s3cret" not in fixture.errors[0]


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"url": "http://a", "url_file": "b"},
        {"url": "hooks.example.org"},
        {"url": "http://u:p@h/"},
        {"url": "http://h:x/"},
    ],
)
def test_an_address_that_nobody_can_use_is_refused(facts: dict[str, str]) -> None:
    """The error comes with the configuration, and without the secret part."""
    with pytest.raises(ValueError, match=r"url|address") as refused:
        WebhookSettings(**facts)

    assert "u:p" not in str(refused.value)


def test_a_chat_s_own_webhook_is_told_the_way() -> None:
    """The chat would reject each message; the path, which is its secret, is not repeated."""
    with pytest.raises(ValueError, match="set format: slack") as refused:
        WebhookSettings(url="https://hooks.slack.com/services/T0/B0/s3cret")

    assert "s3cret" not in str(refused.value)


class Tree(Struct, frozen=True):
    """Webhook settings of the configuration."""

    webhooks: Annotated[tuple[WebhookSettings, ...], Spec(help="Where advice is sent.")] = ()


def test_a_configuration_file_holds_them(tmp_path: Path) -> None:
    """They are a list; a webhook without an address is an error at its line."""
    file = tmp_path / "rightsizer.yaml"
    file.write_text(
        "webhooks:\n  - url: https://am.example.org\n    format: alertmanager\n"
        "    reasons: [IdleHeld]\n    minimum_severity: high\n"
    )
    (found,) = load_file(Tree, file).webhooks
    file.write_text("webhooks:\n  - format: json\n")
    with pytest.raises(ConfigurationError, match=r"rightsizer.yaml:2.*url or url_file"):
        load_file(Tree, file)

    assert (found.format, found.reasons) == (WebhookFormat.ALERTMANAGER, (Reason.IDLE_HELD,))
    assert schema(Tree)["properties"]["webhooks"]["type"] == ["array", "null"]


def test_metrics_name_each_webhook_once() -> None:
    """The name is its host by default, with a number where two have the same."""
    twice = to("http://127.0.0.1:9/a"), to("http://127.0.0.1:9/b"), to("http://h/c", name="chat")
    webhooks = WebhookFixture(*twice).webhooks

    names = {name for webhook in webhooks for name in webhook.metrics()}
    assert {name for name in names if "_pending" in name} == {
        'rightsizer_webhooks_pending{webhook="127.0.0.1:9"}',
        'rightsizer_webhooks_pending{webhook="127.0.0.1:9 2"}',
        'rightsizer_webhooks_pending{webhook="chat"}',
    }
    assert len(names) == 3 + 9
