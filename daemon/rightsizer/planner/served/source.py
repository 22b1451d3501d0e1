"""Loads from an agent's answer, files of the same, and pages of engines."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec import Struct

from rightsizer.io.codec import convert, decode
from rightsizer.io.files import file_bytes
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure
from rightsizer.io.http_settings import HttpSettings
from rightsizer.model.errors import DriverError, RequirementError, UsageError
from rightsizer.model.served_load import ServedLoad
from rightsizer.telemetry.serving.page import EngineMetricsPage, parse_page
from rightsizer.telemetry.serving.served import served_loads
from rightsizer.telemetry.serving.settings import ServingEndpoint

SERVING_PATH: Final = "/api/v1/serving?span=7d"
USUAL_WINDOW_SECONDS: Final = 60.0
"""Between two readings of an address: some hundred requests of a busy engine."""
_WRAPPED: Final = "served"
"""Key of an agent's answer that holds its list."""
_REMEDY: Final = "give the answer of GET /api/v1/serving of an agent, or a page of an engine"
_PAGE_BYTES: Final = 8 * 2**20
"""Of loads too: those of five thousand engines."""


class UnreadLoad(Struct, frozen=True):
    """A load that cannot be read."""

    name: str
    fault: str
    """What is wrong, and where."""

    @property
    def error(self) -> str:
        """What is wrong, where, and the remedy."""
        return f"{self.fault}; correct it, or leave it out"


AnyLoad: TypeAlias = ServedLoad | UnreadLoad


def loads_of(
    place: str, window_seconds: float | None, sleep: Callable[[float], object] = time.sleep
) -> Sequence[AnyLoad]:
    """Return the loads of an engine's address, of a file of its page, or of a file of loads.

    Raises:
        UsageError: it cannot be read, or does not say for how long it was measured.
        RequirementError: it is neither loads nor a page, or no model is served.
    """
    try:
        loads: Sequence[AnyLoad]
        if place.startswith(("http://", "https://")):
            loads = _measured(place, window_seconds or USUAL_WINDOW_SECONDS, sleep)
        else:
            loads = _read(_text(Path(place)), place, window_seconds)
    except DriverError as error:
        raise RequirementError(f"{place}: {error}") from None
    if not loads:
        raise RequirementError(f"{place}: no model is served; {_REMEDY}")
    return loads


def agent_loads(answer: Any, place: str) -> Sequence[AnyLoad]:
    """Return the loads of an agent's answer."""
    loads = _converted(answer, place)
    if not loads:
        remedy = "list its engines in sources.serving"
        raise RequirementError(f"{place}: the agent knows no engine that serves; {remedy}")
    return loads


def _text(path: Path) -> str:
    try:
        return file_bytes(path, _PAGE_BYTES).decode("utf-8", "replace")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{path}: cannot be read: {reason}; check the path") from None


def _read(text: str, place: str, window_seconds: float | None) -> Sequence[AnyLoad]:
    try:
        parsed = decode(text, Any)
    except ValueError as error:
        if text.lstrip().startswith(("[", "{")):
            raise RequirementError(f"{place}: is no JSON: {error}; {_REMEDY}") from None
    else:
        if window_seconds is not None:
            raise UsageError(f"--window: {place} says for how long it was measured; leave it out")
        return _converted(parsed, place)
    page = parse_page(text)
    if window_seconds is None:
        fault = "a page counts from the start of its engine"
        raise UsageError(f"{place}: {fault}; give the time since then, such as --window 7d")
    return served_loads(page, None, window_seconds)


def _measured(
    address: str, window_seconds: float, sleep: Callable[[float], object]
) -> Sequence[ServedLoad]:
    """Return the loads between two readings of an engine's page."""
    try:
        endpoint = ServingEndpoint(address)
    except ValueError as error:
        raise UsageError(f"{address}: {error}") from None
    settings = HttpSettings(tries=1, response_maximum_bytes=_PAGE_BYTES)
    client = HttpClient(endpoint.address, settings, accept="text/plain")
    try:
        before = _page(client)
        began = time.monotonic()
        sleep(window_seconds)
        page = _page(client)
        return served_loads(page, before, max(window_seconds, time.monotonic() - began))
    finally:
        client.close()


def _page(client: HttpClient) -> EngineMetricsPage:
    answer = client.request("GET", "")
    if isinstance(answer, Failure):
        raise DriverError(f"{answer.message}; check the address")
    return parse_page(str(answer.body))


def _converted(parsed: Any, place: str) -> Sequence[AnyLoad]:
    if isinstance(parsed, Mapping):
        parsed = parsed.get(_WRAPPED, [parsed])
    if not isinstance(parsed, list):
        raise RequirementError(f"{place}: holds no list of loads; {_REMEDY}")
    loads = [_load(value, f"{place}: load {number}") for number, value in enumerate(parsed, 1)]
    unread = [load for load in loads if isinstance(load, UnreadLoad)]
    if unread and len(unread) == len(loads):
        raise RequirementError(f"{unread[0].fault}; {_REMEDY}")
    return loads


def _load(value: Any, place: str) -> AnyLoad:
    """Return a load; one that cannot be read is named, and does not hide the others."""
    try:
        return convert(value, ServedLoad)
    except ValueError as error:
        keys = ("workload", "model", "engine")
        names = [value.get(key) for key in keys] if isinstance(value, Mapping) else []
        name = next((name for name in names if name and isinstance(name, str)), place)
        return UnreadLoad(name, f"{place}: {error}")
