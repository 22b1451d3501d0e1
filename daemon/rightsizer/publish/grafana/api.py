"""Grafana's annotation API: the calls that are used, as typed results.

https://grafana.com/docs/grafana/latest/developers/http_api/annotations/
"""

from typing import Any, Final

from rightsizer.domain.advice_trace import Region
from rightsizer.domain.units import Nanoseconds
from rightsizer.edge.http import Failure, FailureKind, HttpClient
from rightsizer.publish.grafana.note import BEGINNING, PRODUCT, Note, milliseconds
from rightsizer.publish.grafana.region import region_of

__all__ = ["GrafanaApi"]

_PATH: Final = "/api/annotations"
# How servers of several ages say that an annotation does not exist.
_GONE: Final = frozenset({404, 500})


class GrafanaApi:
    """Organization annotations, which every dashboard that asks for their tags shows."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    def find(self, note: Note) -> int | Failure | None:
        """The annotation that already tells this note; `None` where there is none."""
        time = milliseconds(note.start)
        query = [("tags", tag) for tag in note.key_tags]
        query += [("type", "annotation"), ("from", str(time)), ("to", str(time + 1))]
        result = self._http.request("GET", _PATH, query=[*query, ("limit", "100")])
        if isinstance(result, Failure):
            return result
        if not isinstance(result.body, list):
            return _malformed("a search", result.body)
        return next((id_ for item in result.body if (id_ := _match(item, note, time))), None)

    def is_of(self, annotation_id: int, note: Note) -> bool | Failure:
        """Whether an annotation tells of the note's advice.

        An id alone says nothing: a Grafana that lost its database gives it to somebody else's.
        """
        result = self._http.request("GET", f"{_PATH}/{annotation_id}")
        if isinstance(result, Failure):
            return False if result.status in _GONE else result
        tags = result.body.get("tags") if isinstance(result.body, dict) else None
        return all(tag in (tags or ()) for tag in note.key_tags)

    def create(self, note: Note) -> int | Failure:
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

    def change(self, annotation_id: int, note: Note) -> Failure | None:
        """Say how a region's advice stands, and set its end where the note closes it."""
        end = {"timeEnd": milliseconds(note.end)} if note.closes_region else {}
        body = {**end, "text": note.text, **_data(note)}
        path = f"{_PATH}/{annotation_id}"
        result = self._http.request("PATCH", path, body=body, idempotent=True)
        return result if isinstance(result, Failure) else None

    def regions(self, start: Nanoseconds, end: Nanoseconds, limit: int) -> list[Region] | Failure:
        """The regions of advice over a span of wall time, at most so many, the latest ones."""
        query = [("tags", PRODUCT), ("tags", BEGINNING), ("type", "annotation")]
        query += [("from", str(milliseconds(start))), ("to", str(milliseconds(end)))]
        result = self._http.request("GET", _PATH, query=[*query, ("limit", str(limit))])
        if isinstance(result, Failure):
            return result
        if not isinstance(result.body, list):
            return _malformed("a search", result.body)
        found = (region_of(item) for item in result.body[:limit])
        return [region for region in found if region is not None]

    def hang_up(self) -> None:
        """Let go of connections until the next call."""
        self._http.close()


def _match(item: Any, note: Note, time: int) -> int | None:
    """The id of a found annotation if it is the note's; a search may give its neighbors too."""
    if not isinstance(item, dict):
        return None
    tags = item.get("tags") or ()
    id_ = item.get("id")
    same = item.get("time") == time and all(tag in tags for tag in note.key_tags)
    return id_ if same and isinstance(id_, int) else None


def _data(note: Note) -> dict[str, Any]:
    return {} if note.data is None else {"data": dict(note.data)}


def _malformed(asked: str, body: object) -> Failure:
    kind = type(body).__name__
    return Failure(
        FailureKind.MALFORMED,
        f"Grafana answered {asked} with a {kind} that its API does not know; "
        "check that grafana.url leads to Grafana",
    )
