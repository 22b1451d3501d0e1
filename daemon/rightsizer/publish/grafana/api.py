"""Grafana's annotation API: the four calls that are used, as typed results.

https://grafana.com/docs/grafana/latest/developers/http_api/annotations/
"""

from typing import Any, Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.edge.http import Failure, FailureKind, HttpClient
from rightsizer.publish.grafana.note import Note

__all__ = ["GrafanaApi"]

_PATH: Final = "/api/annotations"
# How servers of several ages say that an annotation does not exist.
_GONE: Final = frozenset({404, 500})
_NANOSECONDS_PER_MILLISECOND: Final = 1_000_000


class GrafanaApi:
    """Organization annotations, which every dashboard that asks for their tags shows."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    def find(self, note: Note) -> int | Failure | None:
        """The annotation that already tells this note; `None` where there is none."""
        time = _milliseconds(note.start)
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
            "time": _milliseconds(note.start),
            "timeEnd": _milliseconds(note.end),
            "tags": list(note.tags),
            "text": note.text,
        }
        result = self._http.request("POST", _PATH, body=body)
        if isinstance(result, Failure):
            return result
        id_ = result.body.get("id") if isinstance(result.body, dict) else None
        return id_ if isinstance(id_, int) else _malformed("a new annotation", result.body)

    def close(self, annotation_id: int, note: Note) -> Failure | None:
        """Set a region's end, and say how it ended."""
        body = {"timeEnd": _milliseconds(note.end), "text": note.text}
        path = f"{_PATH}/{annotation_id}"
        result = self._http.request("PATCH", path, body=body, idempotent=True)
        return result if isinstance(result, Failure) else None

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


def _malformed(asked: str, body: object) -> Failure:
    kind = type(body).__name__
    return Failure(
        FailureKind.MALFORMED,
        f"Grafana answered {asked} with a {kind} that its API does not know; "
        "check that grafana.url leads to Grafana",
    )


def _milliseconds(time: Nanoseconds) -> int:
    return time // _NANOSECONDS_PER_MILLISECOND
