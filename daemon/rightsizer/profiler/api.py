"""HTTP API of the profiles taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rightsizer.model.units import seconds
from rightsizer.report.json_encoder import finding_form
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route, Router

if TYPE_CHECKING:
    from rightsizer.profiler.taken_profile import TakenProfile


PROFILES_PATH = "/api/v1/profiles"


class ProfilesApi:
    """Answers what was taken, the latest first, and what each profile says."""

    def __init__(self, profiles: Callable[[], tuple[TakenProfile, ...]]) -> None:
        """A route over whoever keeps them; it may be asked by any thread."""
        self._profiles = profiles

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where it is served."""
        return (Route("GET", PROFILES_PATH, self._answer),)

    def _answer(self, site: Router, request: WebRequest) -> WebResponse:
        del site, request
        return WebResponse.of_json({"profiles": [_form(each) for each in self._profiles()]})


def _form(profile: TakenProfile) -> dict[str, Any]:
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
