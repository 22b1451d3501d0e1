"""Messages for people: the changes of a run, by owner, as text, for Slack and for Teams."""

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from rightsizer.io.codec import JsonObject
from rightsizer.io.terminal import counted
from rightsizer.model.values import AdviceEventKind, Savings, Severity, kind_of, namespace_of
from rightsizer.report.labels import savings_label

_EVENTS: Final = {
    AdviceEventKind.OPENED: "New",
    AdviceEventKind.CLOSED: "Closed",
    AdviceEventKind.SEVERITY_UP: "More severe",
    AdviceEventKind.VERIFIED: "Verified",
    AdviceEventKind.REGRESSED: "Back again",
}
_SUMMARY_MAXIMUM: Final = 600
"""Characters of a sentence; Slack's sections hold 3,000, and links and names are added."""
_HEADING_MAXIMUM: Final = 150
"""Characters of a heading of Slack."""
_MARKDOWN: Final = re.compile(r"[\\\[\]()*_~`#>]")
_ENDED: Final = frozenset({AdviceEventKind.CLOSED, AdviceEventKind.VERIFIED})


class MessageLine(Struct, frozen=True):
    """One change, as a sentence and what to do about it."""

    event: str
    severity: str
    summary: str
    savings: str
    """Empty for what has ended."""
    link: str
    """Address of the recommendation on the page; empty without an external URL."""
    claim: str
    """Command that claims it; empty for what has ended."""

    @property
    def detail(self) -> str:
        """What it saves, how severe it is, and how to claim it."""
        return "; ".join(filter(None, (self.savings, f"severity {self.severity}", self.claim)))


class Message(Struct, frozen=True):
    """Changes of one node or fleet, by owner."""

    title: str
    parts: Mapping[str, Sequence[MessageLine]]
    """Lines by owner, in the order of their first change."""

    @property
    def text(self) -> str:
        """The whole message in plain text."""
        blocks = [self.title]
        for owner, lines in self.parts.items():
            texts = [
                "\n".join(filter(None, (f"{line.event}: {line.summary}", line.detail, line.link)))
                for line in lines
            ]
            blocks += [owner, *texts]
        return "\n\n".join(blocks) + "\n"


def message_of(
    changes: Sequence[Mapping[str, Any]], external_url: str, claim: str = "rightsizer claim"
) -> Message:
    """Join changes as they are in the outbox; other notices are not for people.

    `claim` is the command that claims one, before its id.
    """
    advice_changes = [change for change in changes if "advice" in change]
    parts: dict[str, list[MessageLine]] = {}
    for change in advice_changes:
        owner = _owner(change["advice"]["workload"])
        parts.setdefault(owner, []).append(_line(change, external_url, claim))
    nodes = ", ".join(dict.fromkeys(change["node"] for change in advice_changes))
    count = counted(len(advice_changes), "change")
    return Message(f"Rightsizer on {nodes}: {count} of recommendations", parts)


def _owner(workload: str | None) -> str:
    """Return the namespace or scheduler of a workload's key; GPUs without one are the node's."""
    if workload is None:
        return "GPUs without a workload"
    return namespace_of(workload) or kind_of(workload) or workload


def _line(change: Mapping[str, Any], external_url: str, claim: str) -> MessageLine:
    advice = change["advice"]
    event = AdviceEventKind(change["event"])
    has_ended = event in _ENDED
    savings = savings_label(Savings(**advice["savings"]))
    base = external_url.rstrip("/")
    return MessageLine(
        _EVENTS[event],
        Severity(advice["severity"]),
        _clipped(advice["summary"], _SUMMARY_MAXIMUM),
        "" if has_ended or savings.startswith("n/a") else f"saves {savings}",
        f"{base}/#advice-{advice['id']}" if base else "",
        "" if has_ended else f"claim it with: {claim} {advice['id']}",
    )


def _clipped(text: str, maximum: int) -> str:
    return text if len(text) <= maximum else f"{text[: maximum - 3]}..."


def slack_body(message: Message) -> JsonObject:
    """Return a message of blocks, with plain text for notifications."""
    return {"text": _escaped(message.title), "blocks": list(_slack_blocks(message))}


def _slack_blocks(message: Message) -> Iterator[JsonObject]:
    title = _clipped(message.title, _HEADING_MAXIMUM)
    yield {"type": "header", "text": {"type": "plain_text", "text": title}}
    for owner, lines in message.parts.items():
        yield _slack_section(f"*{_escaped(_clipped(owner, _HEADING_MAXIMUM))}*")
        for line in lines:
            summary = _escaped(line.summary)
            link = _escaped(line.link).replace("|", "%7C")
            linked = f"<{link}|{line.event}>" if link else line.event
            yield _slack_section(f"{linked}: {summary}\n{_escaped(line.detail)}")


def _slack_section(text: str) -> JsonObject:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _escaped(text: str) -> str:
    """Escape what Slack reads as markup: https://api.slack.com/reference/surfaces/formatting."""
    return html.escape(text, quote=False)


def teams_body(message: Message) -> JsonObject:
    """Return an adaptive card for a Teams workflow that posts to a channel."""
    body = [{"type": "TextBlock", "text": message.title, "weight": "Bolder", "wrap": True}]
    for owner, lines in message.parts.items():
        text = _plain(owner)
        body.append({"type": "TextBlock", "text": text, "weight": "Bolder", "wrap": True})
        body += _teams_blocks(lines)
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    }
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "content": card}]}


def _plain(text: str) -> str:
    """Escape what cards read as Markdown: names are chosen by others."""
    return _MARKDOWN.sub(r"\\\g<0>", text)


def _teams_blocks(lines: Iterable[MessageLine]) -> Iterator[JsonObject]:
    for line in lines:
        event = f"[{line.event}]({line.link})" if line.link else line.event
        yield {"type": "TextBlock", "text": f"{event}: {_plain(line.summary)}", "wrap": True}
        yield {"type": "TextBlock", "text": line.detail, "isSubtle": True, "wrap": True}
