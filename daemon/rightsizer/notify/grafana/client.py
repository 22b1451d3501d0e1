"""Client of Grafana's annotation API, and parser of the annotations it returns."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.model.advice import AdviceState, Region
from rightsizer.model.finding import Action, Finding, FindingKind, Reason, Risk, Savings, Severity
from rightsizer.model.units import Nanoseconds
from rightsizer.notify.grafana.annotation_body import (
    BEGINNING,
    PRODUCT,
    AnnotationBody,
    milliseconds,
)

_NANOSECONDS_PER_MILLISECOND: Final = 1_000_000
_LATEST_MILLISECONDS: Final = 10**13
"""In the year 2286."""
_LONGEST: Final = 1000
_HEADING: Final = re.compile(r"(?:Closed \((?P<state>[a-z]+)\)|Claimed|Snoozed|Active)\. ")
_ACTION: Final = re.compile(r"^Action: ([a-z ]+)$", re.MULTILINE)
_SURENESS: Final = re.compile(r"^Confidence: (\d{1,3})%, risk: (\w+)$", re.MULTILINE)


def region_of(item: Any) -> Region | None:
    """The region that an annotation of Grafana's API is; `None` where it is none of ours."""
    try:
        text, data = str(item["text"]), item.get("data") or {}
        opened, end = _time(item["time"]), _time(item["timeEnd"])
        finding = _finding(_tags(item["tags"]), text, data)
        if "state" not in data:
            heading = _HEADING.match(text)
            state = AdviceState((heading and heading["state"]) or AdviceState.ACTIVE)
            return Region(finding, opened, max(opened, end), state)
        actor, expires = data.get("actor"), data.get("expires")
        return Region(
            finding,
            opened,
            max(opened, end),
            AdviceState(data["state"]),
            decided=_time(data["decided"]),
            expires=None if expires is None else _time(expires),
            actor=None if actor is None else str(actor)[:_LONGEST],
            why=str(data.get("why", ""))[:_LONGEST],
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _finding(tags: Mapping[str, Sequence[str]], text: str, data: Mapping[str, Any]) -> Finding:
    heading, action, sureness = _HEADING.match(text), _ACTION.search(text), _SURENESS.search(text)
    summary = text.partition("\n")[0]
    return Finding(
        id=tags["advice"][0],
        rule=str(data.get("rule", ""))[:_LONGEST],
        kind=FindingKind(tags["finding"][0]),
        reasons=tuple(map(Reason, tags["reason"])),
        devices=tuple(tags.get("uuid", ())),
        culprits=(),
        workload=next(iter(tags.get("workload", ())), None),
        action=Action(action[1].replace(" ", "_")) if action else Action.NONE,
        summary=summary.removeprefix(heading[0]) if heading else summary,
        options=(),
        confidence=min(100, int(sureness[1])) / 100.0 if sureness else 0.0,
        confidence_factors={},
        risk=Risk(sureness[2]) if sureness else Risk.UNKNOWN,
        savings=Savings(reason="restored from an annotation"),
        severity=Severity(next(iter(tags.get("severity", ())), Severity.LOW)),
    )


def _tags(tags: Sequence[str]) -> dict[str, list[str]]:
    """Values by their keys, in their order."""
    found: dict[str, list[str]] = {}
    for tag in tags:
        key, _, value = tag.partition(":")
        found.setdefault(key, []).append(value)
    return found


def _time(milliseconds: Any) -> Nanoseconds:
    if type(milliseconds) is not int or not 0 < milliseconds < _LATEST_MILLISECONDS:
        raise ValueError(f"{milliseconds!r} is no time")
    return milliseconds * _NANOSECONDS_PER_MILLISECOND


_PATH: Final = "/api/annotations"
# How servers of several ages say that an annotation does not exist.
_GONE: Final = frozenset({404, 500})


class GrafanaClient:
    """Organization annotations, which every dashboard that asks for their tags shows."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    def find(self, note: AnnotationBody) -> int | Failure | None:
        """The annotation that already tells this note; `None` where there is none."""
        time = milliseconds(note.start)
        found = self._search(note.key_tags, time, time + 1, 100)
        if isinstance(found, Failure):
            return found
        # A search may give the note's neighbors too.
        matches = (
            item.get("id")
            for item in found
            if isinstance(item, dict)
            and item.get("time") == time
            and all(tag in (item.get("tags") or ()) for tag in note.key_tags)
        )
        return next((id_ for id_ in matches if isinstance(id_, int) and id_), None)

    def is_of(self, annotation_id: int, note: AnnotationBody) -> bool | Failure:
        """Whether an annotation tells of the note's advice.

        An id alone says nothing: a Grafana that lost its database gives it to another annotation.
        """
        result = self._http.request("GET", f"{_PATH}/{annotation_id}")
        if isinstance(result, Failure):
            return False if result.status in _GONE else result
        tags = result.body.get("tags") if isinstance(result.body, dict) else None
        return all(tag in (tags or ()) for tag in note.key_tags)

    def create(self, note: AnnotationBody) -> int | Failure:
        """Post a new annotation and give its id."""
        body = {
            "time": milliseconds(note.start),
            "timeEnd": milliseconds(note.end),
            "tags": list(note.tags),
            "text": note.text,
            **_data(note),
        }
        result = self._http.request("POST", _PATH, body=body)
        if isinstance(result, Failure):
            return result
        id_ = result.body.get("id") if isinstance(result.body, dict) else None
        return id_ if isinstance(id_, int) else _malformed("a new annotation", result.body)

    def change(self, annotation_id: int, note: AnnotationBody) -> Failure | None:
        """Say how a region's advice stands, and set its end where the note closes it."""
        end = {"timeEnd": milliseconds(note.end)} if note.closes_region else {}
        body = {**end, "text": note.text, **_data(note)}
        path = f"{_PATH}/{annotation_id}"
        result = self._http.request("PATCH", path, body=body, idempotent=True)
        return result if isinstance(result, Failure) else None

    def regions(self, start: Nanoseconds, end: Nanoseconds, limit: int) -> list[Region] | Failure:
        """The regions of advice over a span of wall time, at most so many, the latest ones."""
        span = milliseconds(start), milliseconds(end)
        found = self._search((PRODUCT, BEGINNING), *span, limit)
        if isinstance(found, Failure):
            return found
        return [region for item in found[:limit] if (region := region_of(item)) is not None]

    def _search(self, tags: Sequence[str], start: int, end: int, limit: int) -> list[Any] | Failure:
        query = [("tags", tag) for tag in tags]
        query += [("type", "annotation"), ("from", str(start)), ("to", str(end))]
        result = self._http.request("GET", _PATH, query=[*query, ("limit", str(limit))])
        if isinstance(result, Failure):
            return result
        return result.body if isinstance(result.body, list) else _malformed("a search", result.body)

    def hang_up(self) -> None:
        """Close idle connections until the next call."""
        self._http.close()


def _data(note: AnnotationBody) -> dict[str, Any]:
    return {} if note.data is None else {"data": dict(note.data)}


def _malformed(asked: str, body: object) -> Failure:
    kind = type(body).__name__
    return Failure(
        FailureKind.MALFORMED,
        f"Grafana answered {asked} with a {kind} that its API does not know; "
        "check that grafana.url leads to Grafana",
    )
