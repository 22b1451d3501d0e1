"""Webhook that is asked for a profile."""

import platform
import time
from collections.abc import Callable

from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.notify.webhook.client import post_once
from rightsizer.profiler.capture.request import CaptureOutcome, CaptureRequest, CaptureResult
from rightsizer.profiler.capture.settings import CaptureWebhookSettings


def call_webhook(
    settings: CaptureWebhookSettings,
    request: CaptureRequest,
    sleep: Callable[[float], object] = time.sleep,
    node: str = "",
) -> CaptureResult:
    """Post the facts; what it asks for is sent again only where nobody can have had it.

    Args:
        settings: Where to, with which token.
        request: The facts.
        sleep: Waits between tries; where it returns true there are no more.
        node: What the machine is called; its host name unless told otherwise.
    """
    body = request.form(node or platform.node())
    answer = post_once(
        settings.url, body, settings.http, token_file=settings.token_file, sleep=sleep
    )
    # Whoever may have been called may be at work on the processes: a lost answer counts as a call.
    if isinstance(answer, Failure) and answer.kind is not FailureKind.INTERRUPTED:
        return CaptureResult(CaptureOutcome.FAILED, answer.message)
    return CaptureResult(CaptureOutcome.CALLED)
