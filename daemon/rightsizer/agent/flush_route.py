"""Lets a command on this node have the history written up to now, so that it reads all there is."""

from collections.abc import Callable

from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route, Router

FLUSH_PATH = "/api/v1/history/flush"


class FlushRoute:
    """Answers once what was accounted for is on disk; for the local socket alone."""

    def __init__(self, flush: Callable[[], None]) -> None:
        """A route over whatever writes; it may be asked by any thread, at any time."""
        self._flush = flush

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where it is served."""
        return (Route("POST", FLUSH_PATH, self._answer, is_local=True),)

    def _answer(self, site: Router, request: WebRequest) -> WebResponse:
        del site, request
        self._flush()
        return WebResponse.of_json({"flushed": True})
