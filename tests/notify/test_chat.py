"""Messages for Slack and Teams, over real sockets, as their documentation has them."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from advice_events import NOW, event
from rightsizer.model.advice import AdviceEvent, AdviceEventKind
from rightsizer.model.finding import Severity
from rightsizer.notify.webhook.settings import WebhookFormat, WebhookSettings
from webhook_fixture import WebhookFixture, severe, to
from webhook_server import webhook_server

OPENED = AdviceEventKind.OPENED
CLOSED = AdviceEventKind.CLOSED
TEXTS = {"header": ("plain_text", 150), "section": ("mrkdwn", 3000)}


def about(of: AdviceEvent, workload: str | None, summary: str = "") -> AdviceEvent:
    """The same event of another workload."""
    finding = of.advice.finding
    finding = replace(finding, workload=workload, summary=summary or finding.summary)
    return replace(of, advice=replace(of.advice, finding=finding))


def slack_faults(body: dict[str, Any]) -> Iterator[str]:
    """Violations of Block Kit: https://api.slack.com/reference/block-kit/blocks."""
    if not body["text"] or not 0 < len(body["blocks"]) <= 50:
        yield "text or number of blocks"
    for block in body["blocks"]:
        kind, maximum = TEXTS[block["type"]]
        text = block["text"]
        if text["type"] != kind or not 0 < len(text["text"]) <= maximum:
            yield f"{block['type']}: {text}"


def card_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of an adaptive card, which must have the shape that workflows take."""
    assert body["type"] == "message"
    (attachment,) = body["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    blocks: list[dict[str, Any]] = card["body"]
    assert all(block["type"] == "TextBlock" and block["text"] for block in blocks)
    return blocks


def test_changes_of_a_run_are_one_message_by_owner() -> None:
    """Each with a link to the page, what it saves, and how to claim it."""
    with webhook_server() as inbox:
        settings = to(inbox.url, format=WebhookFormat.SLACK, external_url="http://node-1:19400/")
        report = WebhookFixture(settings).send(
            about(event(OPENED, id="a"), "kubernetes:research/train"),
            about(event(OPENED, id="b"), "slurm:7"),
            about(event(CLOSED, id="c"), "kubernetes:research/other"),
            about(event(OPENED, id="d"), None),
        )
    (body,) = inbox.bodies
    texts = [block["text"]["text"] for block in body["blocks"]]
    assert list(slack_faults(body)) == []
    assert texts[0] == "Rightsizer on node-1: 4 changes of recommendations"
    owners = [text for text in texts if text.startswith("*")]
    assert owners == ["*research*", "*slurm*", "*GPUs without a workload*"]
    assert "<http://node-1:19400/#advice-a|New>: " in texts[2]
    assert "claim it with: rightsizer claim a" in texts[2]
    assert "|Closed>: " in texts[3]
    assert "claim" not in texts[3]
    assert (report.sent, report.pending) == (1, 0)


def test_many_changes_are_several_messages_within_the_limits() -> None:
    """Long and hostile sentences are cut and escaped; nothing is lost."""
    hostile = "<!channel> & *bold* " + "x" * 5000
    with webhook_server() as inbox:
        settings = to(inbox.url, format=WebhookFormat.SLACK)
        events = [
            about(event(OPENED, id=f"a{number}"), f"kubernetes:{'n' * 300}{number}/w", hostile)
            for number in range(25)
        ]
        report = WebhookFixture(settings).send(*events)
    assert [fault for body in inbox.bodies for fault in slack_faults(body)] == []
    assert len(inbox.bodies) == 3
    sections = [block for body in inbox.bodies for block in body["blocks"][1:]]
    assert len(sections) == 2 * 25
    assert not any("<!channel>" in block["text"]["text"] for block in sections)
    assert (report.sent, report.pending) == (3, 0)


def test_teams_gets_an_adaptive_card() -> None:
    """With the same facts."""
    with webhook_server() as inbox:
        settings = to(inbox.url, format=WebhookFormat.TEAMS, external_url="http://node-1:19400")
        WebhookFixture(settings).send(about(event(OPENED, id="a"), "kubernetes:research/train"))
    (body,) = inbox.bodies
    title, owner, line, detail = card_of(body)
    assert title["text"] == "Rightsizer on node-1: 1 change of recommendations"
    assert owner["text"] == "research"
    assert line["text"].startswith("[New](http://node-1:19400/#advice-a): ")
    assert detail["text"].endswith("claim it with: rightsizer claim a")


def test_a_refused_run_waits_as_a_whole() -> None:
    """After a fault each change is in one message."""
    with webhook_server() as inbox:
        inbox.faults = ["503"]
        fixture = WebhookFixture(to(inbox.url, format=WebhookFormat.SLACK))
        failed = fixture.send(event(OPENED, id="a"), event(OPENED, id="b"))
        fixture.wait(61)
        mended = fixture.send()
    assert (failed.pending, mended.pending) == (2, 0)
    assert len(inbox.bodies) == 1


def test_receivers_of_everything_take_nothing_from_the_rest() -> None:
    """Such as an Alertmanager or a log beside those of owners."""
    with webhook_server() as all_of_it, webhook_server() as rest:
        fixture = WebhookFixture(to(all_of_it.url), to(rest.url, sends_rest=True))
        fixture.send(about(event(OPENED, id="a"), "kubernetes:sales/bot"))
    assert len(all_of_it.bodies) == len(rest.bodies) == 1


def test_names_are_no_markup_in_cards() -> None:
    """They are chosen by others."""
    with webhook_server() as inbox:
        settings = to(inbox.url, format=WebhookFormat.TEAMS)
        WebhookFixture(settings).send(about(event(OPENED), "slurm:7", "[x](http://evil) *b* _a_"))
    line = card_of(inbox.bodies[0])[2]["text"]
    assert line == r"New: \[x\]\(http://evil\) \*b\* \_a\_"


def test_the_rest_goes_to_who_asks_for_it() -> None:
    """Owners get theirs; what no other receiver selects has a receiver too."""
    with webhook_server() as research, webhook_server() as faults, webhook_server() as rest:
        fixture = WebhookFixture(
            to(research.url, workloads=("kubernetes:research/*",)),
            to(faults.url, minimum_severity=Severity.CRITICAL),
            to(rest.url, sends_rest=True),
        )
        fixture.send(
            about(event(OPENED, id="a"), "kubernetes:research/train"),
            about(event(OPENED, id="b"), "kubernetes:sales/bot"),
            severe(about(event(OPENED, id="c"), "kubernetes:research/train"), Severity.CRITICAL),
            severe(about(event(OPENED, id="d"), None), Severity.CRITICAL),
        )
    got = [[body["advice"]["id"] for body in box.bodies] for box in (research, faults, rest)]
    assert got == [["a", "c"], ["c", "d"], ["b"]]


@pytest.mark.parametrize(
    ("quiet_hours", "is_quiet"),
    [
        ("00:00-23:59", True),
        ("", False),
        ("12:00-11:59", True),
    ],
)
def test_quiet_hours_keep_all_but_what_is_critical(quiet_hours: str, *, is_quiet: bool) -> None:
    """What waits is sent after them."""
    with webhook_server() as inbox:
        fixture = WebhookFixture(to(inbox.url, quiet_hours=quiet_hours))
        fixture.send(event(OPENED, id="low"), severe(event(OPENED, id="high"), Severity.CRITICAL))
    names = [body["advice"]["id"] for body in inbox.bodies]
    assert names == (["high"] if is_quiet else ["low", "high"])


def test_quiet_hours_end() -> None:
    """The message follows at their end, once."""
    local = datetime.fromtimestamp(NOW / 1e9).astimezone()
    start = f"{local:%H:%M}"
    end = f"{(local.hour + 2) % 24:02}:{local.minute:02}"
    with webhook_server() as inbox:
        fixture = WebhookFixture(to(inbox.url, quiet_hours=f"{start}-{end}"))
        quiet = fixture.send(event(OPENED))
        fixture.wait(2 * 3600 + 60)
        later = fixture.send()
    assert (quiet.pending, later.pending, len(inbox.bodies)) == (1, 0, 1)


@pytest.mark.parametrize(
    ("facts", "fault"),
    [
        ({"quiet_hours": "7pm-8am"}, "write it like 19:00-08:00"),
        ({"quiet_hours": "19:00-08:00", "format": WebhookFormat.ALERTMANAGER}, "has its own"),
        ({"url": "https://hooks.slack.com/services/x"}, "set format: slack"),
        ({"url": "https://discord.com/api/x", "format": WebhookFormat.SLACK}, "Alertmanager"),
    ],
)
def test_settings_that_cannot_work_are_refused(facts: dict[str, Any], fault: str) -> None:
    """With the remedy, and without the secret path."""
    with pytest.raises(ValueError, match=fault):
        WebhookSettings(**{"url": "http://127.0.0.1:1", **facts})


def test_slack_takes_its_own_format() -> None:
    """The address that is refused for JSON."""
    assert WebhookSettings(url="https://hooks.slack.com/services/x", format=WebhookFormat.SLACK)
