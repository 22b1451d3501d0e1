"""A webhook that is asked for a profile."""

import platform
import time
from collections.abc import Callable, Mapping
from os import environ as process_environment
from urllib.parse import urlsplit

from rightsizer.edge.http import Failure, FailureKind, HttpClient
from rightsizer.publish.webhook.settings import WebhookSettings, read_token
from rightsizer.runtime.capture.called import Called, Outcome
from rightsizer.runtime.capture.request import CaptureRequest
from rightsizer.runtime.capture.settings import CaptureWebhookSettings

__all__ = ["call_webhook", "token_of"]


def call_webhook(
    settings: CaptureWebhookSettings,
    request: CaptureRequest,
    sleep: Callable[[float], object] = time.sleep,
    node: str = "",
) -> Called:
    """Post the facts; what it asks for is sent again only where nobody can have had it.

    Args:
        settings: Where to, with which token.
        request: The facts.
        sleep: Waits between tries; where it returns true there are no more.
        node: What the machine is called; its host name unless told otherwise.
    """
    parts = urlsplit(settings.url)
    client = HttpClient(
        f"{parts.scheme}://{parts.netloc}",
        settings.http,
        token=lambda: token_of(settings),
        has_secret_paths=True,
        sleep=sleep,
    )
    try:
        answer = client.request(
            "POST", parts.path or "/", body=request.form(node or platform.node())
        )
    finally:
        client.close()
    if isinstance(answer, Failure) and not _was_taken(answer):
        return Called(Outcome.FAILED, answer.message)
    return Called(Outcome.CALLED)


def token_of(
    settings: CaptureWebhookSettings, environ: Mapping[str, str] = process_environment
) -> str | None:
    """The bearer token as it is now; `None` where none is configured.

    Raises:
        OSError: its file cannot be read.
        ValueError: the file does not hold a token.
    """
    return read_token(WebhookSettings(url=settings.url, token_file=settings.token_file), environ)


def _was_taken(answer: Failure) -> bool:
    """Whether it took the message, or may have: no JSON in the answer, or a lost answer.

    Whoever may have been called may be at work on the processes: the call counts as made.
    """
    if answer.kind is FailureKind.INTERRUPTED:
        return True
    return answer.kind is FailureKind.MALFORMED and answer.status is not None
