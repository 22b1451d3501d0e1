"""What the API says of the profiles that were taken."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rightsizer.domain.units import seconds
from rightsizer.publish.json_form import finding_form
from rightsizer.publish.web.message import Request, Response
from rightsizer.publish.web.routes import Route, Site

if TYPE_CHECKING:
    from rightsizer.advice.taken_profile import TakenProfile

__all__ = ["PROFILES_PATH", "ProfileRoute"]

PROFILES_PATH = "/api/v1/profiles"


class ProfileRoute:
    """Answers what was taken, the latest first, and what each profile says."""

    def __init__(self, profiles: "Callable[[], tuple[TakenProfile, ...]]") -> None:
        """A route over whoever keeps them; it may be asked by any thread."""
        self._profiles = profiles

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where it is served."""
        return (Route("GET", PROFILES_PATH, self._answer),)

    def _answer(self, site: Site, request: Request) -> Response:
        del site, request
        return Response.of_json({"profiles": [_form(each) for each in self._profiles()]})


def _form(profile: "TakenProfile") -> dict[str, Any]:
    return {
        "id": profile.id,
        "taken": seconds(profile.taken),
        "moment": seconds(profile.moment),
        "sources": list(profile.sources),
        "format": profile.format,
        "outcome": profile.outcome,
        "workload": profile.key,
        "unmatched": profile.unmatched or None,
        "devices": [dict(each) for each in profile.devices],
        "contradictions": list(profile.contradictions),
        "findings": [finding_form(each) for each in profile.findings],
    }
