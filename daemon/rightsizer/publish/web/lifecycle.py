"""What changes the running agent as a whole: reading its configuration again."""

from collections.abc import Callable
from http import HTTPStatus

from rightsizer.domain.errors import ConfigurationError
from rightsizer.publish.web.message import Request, Response
from rightsizer.publish.web.routes import Route, Site

__all__ = ["LifecycleRoutes"]


class LifecycleRoutes:
    """Answers `/-/reload`: over TCP only where it was enabled, over the local socket always."""

    def __init__(self, reload: Callable[[], None], *, is_enabled: bool) -> None:
        """Routes over something that reloads.

        Args:
            reload: Reads everything again; raises ConfigurationError where it cannot be used.
            is_enabled: Whether it may be asked for over TCP.
        """
        self._reload, self._is_enabled = reload, is_enabled

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where they are served."""
        return tuple(Route(method, "/-/reload", self._answer) for method in ("POST", "PUT"))

    def _answer(self, site: Site, request: Request) -> Response:
        del site
        if request.peer is None and not self._is_enabled:
            return Response.of_text(
                "the lifecycle API is not enabled; start the agent with --web.enable-lifecycle, "
                "or send it SIGHUP",
                HTTPStatus.FORBIDDEN,
            )
        if request.is_cross_site:
            return Response.of_text("refused for another site's page", HTTPStatus.FORBIDDEN)
        try:
            self._reload()
        except ConfigurationError as error:
            return Response.of_text(
                f"failed to reload; what was in force stays:\n{error}",
                HTTPStatus.INTERNAL_SERVER_ERROR,
            )
        return Response.of_text("reloaded")
