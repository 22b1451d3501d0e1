"""A webhook that is asked to do something, at most once."""

import platform
import time
from collections.abc import Callable, Mapping
from os import environ as process_environment
from typing import Final
from urllib.parse import urlsplit

from rightsizer.edge.http import Failure, FailureKind, HttpClient, HttpSettings
from rightsizer.publish.webhook.settings import WebhookSettings, read_token
from rightsizer.runtime.actions.book import ActionOutcome
from rightsizer.runtime.actions.ended import Ended
from rightsizer.runtime.actions.order import Order
from rightsizer.runtime.actions.settings import ActionWebhookSettings

__all__ = ["post", "token_of"]

_LONGEST_SECONDS: Final = 60.0


def post(order: Order, sleep: Callable[[float], object] = time.sleep, node: str = "") -> Ended:
    """Post the facts; they are sent again only where nobody can have had them.

    Args:
        order: What is to be done.
        sleep: Waits between tries; where it returns true there are no more.
        node: What the machine is called; its host name unless told otherwise.
    """
    settings = order.settings.webhook
    parts = urlsplit(settings.url)
    client = HttpClient(
        f"{parts.scheme}://{parts.netloc}",
        HttpSettings(
            timeout_seconds=min(order.settings.timeout, _LONGEST_SECONDS),
            ca_file=settings.ca_file,
        ),
        token=lambda: token_of(settings),
        has_secret_paths=True,
        sleep=sleep,
    )
    try:
        body = order.form(node or platform.node())
        answer = client.request("POST", parts.path or "/", body=body)
    finally:
        client.close()
    return (
        _judged(answer)
        if isinstance(answer, Failure)
        else Ended(ActionOutcome.DONE, status=answer.status)
    )


def token_of(
    settings: ActionWebhookSettings, environ: Mapping[str, str] = process_environment
) -> str | None:
    """The bearer token as it is now; `None` where none is configured.

    Raises:
        OSError: its file cannot be read.
        ValueError: the file does not hold a token.
    """
    return read_token(WebhookSettings(url=settings.url, token_file=settings.token_file), environ)


def _judged(answer: Failure) -> Ended:
    if answer.kind is FailureKind.MALFORMED and answer.status is not None:
        # It took the message, and said so in words of its own, which are no JSON.
        return Ended(ActionOutcome.DONE, status=answer.status)
    # It may have had the message, and nobody knows what it made of that.
    was_lost = answer.kind in (FailureKind.INTERRUPTED, FailureKind.MALFORMED)
    outcome = ActionOutcome.UNKNOWN if was_lost else ActionOutcome.FAILED
    return Ended(outcome, answer.message, answer.status)
