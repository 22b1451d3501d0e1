"""Webhook of an action, called at most once."""

import platform
import time
from collections.abc import Callable
from typing import Final

from rightsizer.actions.order import ActionOrder, ActionResult
from rightsizer.actions.repository import ActionOutcome
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.io.http_settings import HttpSettings
from rightsizer.notify.webhook.client import post_once

_LONGEST_SECONDS: Final = 60.0


def post(
    order: ActionOrder, sleep: Callable[[float], object] = time.sleep, node: str = ""
) -> ActionResult:
    """Post the facts; they are sent again only where nobody can have had them.

    Args:
        order: What is to be done.
        sleep: Waits between tries; where it returns true there are no more.
        node: What the machine is called; its host name unless told otherwise.
    """
    settings = order.settings.webhook
    http = HttpSettings(
        timeout_seconds=min(order.settings.timeout, _LONGEST_SECONDS), ca_file=settings.ca_file
    )
    body = order.form(node or platform.node())
    answer = post_once(settings.url, body, http, token_file=settings.token_file, sleep=sleep)
    if not isinstance(answer, Failure):
        return ActionResult(ActionOutcome.DONE, status=answer.status)
    # It may have had the message, and nobody knows what it made of that.
    was_lost = answer.kind in (FailureKind.INTERRUPTED, FailureKind.MALFORMED)
    outcome = ActionOutcome.UNKNOWN if was_lost else ActionOutcome.FAILED
    return ActionResult(outcome, answer.message, answer.status)
