"""HTTP client of one webhook receiver: address, secrets, back-off."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from rightsizer.io.clock import Clock
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure, FailureKind, Result
from rightsizer.io.http_settings import HttpSettings
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.notify.webhook.settings import (
    WebhookFormat,
    WebhookSettings,
    read_address,
    read_headers,
    read_token,
)


def webhook_client(
    base: str,
    http: HttpSettings,
    token_file: str,
    sleep: Callable[[float], object],
    headers: Callable[[], Mapping[str, str]] = dict,
) -> HttpClient:
    """A client that keeps addresses to itself, and is content with an answer in any words.

    Args:
        base: The address without its path.
        http: How patient it is.
        token_file: Holds the bearer token, read at each request; empty for none.
        sleep: Waits between tries; where it returns true there are no more.
        headers: Gives further headers at each request.
    """
    return HttpClient(
        base,
        http,
        token=lambda: read_token(token_file),
        headers=headers,
        parse=lambda _: None,  # Many say `ok`, which is no JSON, and all have taken the message.
        has_secret_paths=True,
        sleep=sleep,
    )


def post_once(
    url: str,
    body: Mapping[str, Any],
    http: HttpSettings,
    *,
    token_file: str = "",
    sleep: Callable[[float], object] = time.sleep,
) -> Result:
    """Post JSON; it is sent again only where nobody can have had it.

    Args:
        url: Where to, without a query.
        body: What `json.dumps` takes.
        http: How patient the client is.
        token_file: Holds the bearer token; empty for none.
        sleep: Waits between tries; where it returns true there are no more.
    """
    parts = urlsplit(url)
    client = webhook_client(f"{parts.scheme}://{parts.netloc}", http, token_file, sleep)
    try:
        return client.request("POST", parts.path or "/", body=body)
    finally:
        client.close()


_ALERTS: Final = "/api/v2/alerts"


class Receiver:
    """Posts to one webhook; a fault is an answer, never an exception."""

    def __init__(
        self, settings: WebhookSettings, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._client: tuple[str, HttpClient] | None = None

    def post(self, body: str | list[Any]) -> Failure | None:
        """Send JSON, as text or as a list; what is wrong, `None` where it was taken.

        Sending twice does no harm: a change has its `delivery`, and an alert is what it is.
        """
        try:
            address = read_address(self._settings)
        except (OSError, ValueError) as error:
            return Failure(FailureKind.CREDENTIAL, str(error))
        parts = urlsplit(address)
        path = parts.path
        if self._settings.format is WebhookFormat.ALERTMANAGER:
            path = path.rstrip("/") + _ALERTS
        result = self._to(f"{parts.scheme}://{parts.netloc}").request(
            "POST",
            path or "/",
            query=parse_qsl(parts.query, keep_blank_values=True),
            body=json.loads(body) if isinstance(body, str) else body,
            idempotent=True,
        )
        return result if isinstance(result, Failure) else None

    def hang_up(self) -> None:
        """Let go of connections until the next run."""
        if self._client is not None:
            self._client[1].close()

    def _to(self, base: str) -> HttpClient:
        if self._client is None or self._client[0] != base:
            self.hang_up()
            settings = self._settings
            client = webhook_client(
                base,
                settings.http,
                settings.token_file,
                self._sleep,
                headers=lambda: read_headers(settings),
            )
            self._client = (base, client)
        return self._client[1]


_FIRST_SECONDS = 60.0


class ReceiverBackOff:
    """A pause that doubles with each failure in a row, on the steady clock."""

    def __init__(self, clock: Clock, longest_seconds: float) -> None:
        self._clock = clock
        self._longest_seconds = longest_seconds
        self._failures = 0
        self._until: Nanoseconds | None = None

    @property
    def is_over(self) -> bool:
        """Whether the receiver may be tried."""
        return self._until is None or self._clock.time() >= self._until

    def failed(self, asked_seconds: float | None) -> None:
        """Begin a pause, at least as long as the receiver asked for.

        The first failure costs none: the next run is a minute away by itself.
        """
        doubled = _FIRST_SECONDS * 2 ** min(self._failures - 1, 20) if self._failures else 0.0
        self._failures += 1
        pause = max(min(doubled, self._longest_seconds), asked_seconds or 0.0)
        self._until = self._clock.time() + nanoseconds(pause)

    def succeeded(self) -> None:
        """Forget the failures."""
        self._failures, self._until = 0, None
