"""Form of `rightsizer plan` at `/plan`; one subprocess at a time answers."""

import subprocess
import threading
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from rightsizer.io.log import logger
from rightsizer.io.program import own_module
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route
from rightsizer.web.settings import WebSettings

PLAN_PATH: Final = "/plan"
_POLICY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    )
}
_OFF: Final = (
    "the form of plans is off; write `web: {server: {plan_form: true}}` into the configuration and "
    "restart, or run `rightsizer plan`"
)
_log: Final = logger("web")
_BUSY: Final = "another plan is being made; ask again in a few seconds"


def plan_route(
    config_file: Path | None,
    settings: WebSettings,
    run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run,
) -> Route:
    """Return the route of the form.

    The planner takes memory and a CPU second that an agent cannot spare, so the command renders the
    page, and concurrent clients are told to retry. If off, the page tells how to turn it on, and
    starts nothing.

    Args:
        config_file: Prices, catalogue and sizing; `None` for the defaults.
        settings: Whether it is on, and the timeout of a plan.
        run: As `subprocess.run`.
    """
    configured = [] if config_file is None else [f"--config.file={config_file}"]
    command = [*own_module("rightsizer"), "plan", *configured]
    turn = threading.Lock()
    timeout = settings.plan_timeout_seconds
    pages: dict[str, str] = {}

    def answer(request: WebRequest) -> WebResponse:
        if not settings.plan_form:
            return WebResponse.of_text(_OFF, HTTPStatus.NOT_FOUND)
        query = urlencode(dict(request.query), doseq=True)
        if query in pages:
            return _page_response(pages[query])
        options: dict[str, Any] = {"capture_output": True, "text": True, "check": False}
        if not turn.acquire(blocking=False):
            return _unavailable(_BUSY)
        try:
            done = run([*command, f"--form={query}"], timeout=timeout, **options)
        except subprocess.TimeoutExpired:
            return _unavailable(f"the plan took longer than {timeout:g} s; narrow it")
        except OSError as error:
            return _unavailable(f"no process can be started: {error.strerror}")
        finally:
            turn.release()
        if done.returncode:
            _log.warning("plan_failed", status=done.returncode, message=done.stderr.strip())
            return _unavailable("the planner failed; the log says why")
        if not query:
            # The empty form never changes.
            pages[query] = done.stdout
        return _page_response(done.stdout)

    return Route("GET", PLAN_PATH, answer)


def _page_response(page: str) -> WebResponse:
    return WebResponse(page.encode(), "text/html; charset=utf-8", headers=_POLICY)


def _unavailable(why: str) -> WebResponse:
    status = HTTPStatus.SERVICE_UNAVAILABLE
    headers = {"Retry-After": "5"}
    return WebResponse.of_text(f"no plan: {why}", status, headers)
