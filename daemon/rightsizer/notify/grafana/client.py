"""Client of Grafana's API of annotations."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from rightsizer.io.http import HttpClient
from rightsizer.io.http_proxy import proxy_for
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.model.values import Nanoseconds, Region
from rightsizer.notify.grafana.annotation import (
    BEGINNING,
    PRODUCT,
    AnnotationBody,
    milliseconds,
    region_of,
)
from rightsizer.notify.grafana.settings import GrafanaSettings, read_token

_PATH: Final = "/api/annotations"
# Answers of different Grafana versions for an annotation that does not exist.
_GONE: Final = frozenset({404, 500})


def http_client(
    settings: GrafanaSettings,
    environment: Mapping[str, str] = os.environ,
    sleep: Callable[[float], object] = time.sleep,
) -> HttpClient:
    """HTTP client with Grafana's token, through the proxy of the environment."""
    token = partial(read_token, settings, environment)
    proxy = proxy_for(settings.url, environment)
    return HttpClient(settings.url, settings.http, token=token, proxy=proxy, sleep=sleep)


class GrafanaClient:
    """Client of organization annotations, which dashboards show by their tags."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    def find(self, body: AnnotationBody) -> int | Failure | None:
        """Return the id of the annotation that already has this body, or `None`."""
        time = milliseconds(body.start)
        items = self._search(body.key_tags, time, time + 1, 100)
        if isinstance(items, Failure):
            return items
        # A search may also return neighbors.
        matches = (
            item.get("id")
            for item in items
            if isinstance(item, dict)
            and item.get("time") == time
            and all(tag in (item.get("tags") or ()) for tag in body.key_tags)
        )
        return next((id_ for id_ in matches if isinstance(id_, int) and id_), None)

    def is_of(self, annotation_id: int, body: AnnotationBody) -> bool | Failure:
        """Whether an annotation belongs to the body's advice.

        The id alone proves nothing: a Grafana that lost its database reuses it.
        """
        result = self._http.request("GET", f"{_PATH}/{annotation_id}")
        if isinstance(result, Failure):
            return False if result.status in _GONE else result
        tags = result.body.get("tags") if isinstance(result.body, dict) else None
        return all(tag in (tags or ()) for tag in body.key_tags)

    def create(self, body: AnnotationBody) -> int | Failure:
        """Post a new annotation and return its id."""
        document = {
            "time": milliseconds(body.start),
            "timeEnd": milliseconds(body.end),
            "tags": list(body.tags),
            "text": body.text,
            **_attached(body),
        }
        result = self._http.request("POST", _PATH, body=document)
        if isinstance(result, Failure):
            return result
        id_ = result.body.get("id") if isinstance(result.body, dict) else None
        return id_ if isinstance(id_, int) else _malformed("a new annotation", result.body)

    def change(self, annotation_id: int, body: AnnotationBody) -> Failure | None:
        """Update a region with the state of its advice, and its end if the body closes it."""
        end = {"timeEnd": milliseconds(body.end)} if body.closes_region else {}
        document = {**end, "text": body.text, **_attached(body)}
        path = f"{_PATH}/{annotation_id}"
        result = self._http.request("PATCH", path, body=document, idempotent=True)
        return result if isinstance(result, Failure) else None

    def regions(self, start: Nanoseconds, end: Nanoseconds, limit: int) -> list[Region] | Failure:
        """Return the latest regions of advice in a span of wall time, at most `limit`."""
        span = milliseconds(start), milliseconds(end)
        items = self._search((PRODUCT, BEGINNING), *span, limit)
        if isinstance(items, Failure):
            return items
        return [region for item in items[:limit] if (region := region_of(item)) is not None]

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


def _attached(body: AnnotationBody) -> dict[str, Any]:
    return {} if body.data is None else {"data": dict(body.data)}


def _malformed(asked: str, body: object) -> Failure:
    kind = type(body).__name__
    return Failure(
        FailureKind.MALFORMED,
        f"Grafana answered {asked} with a {kind} that its API does not know; "
        "check that grafana.url leads to Grafana",
    )
