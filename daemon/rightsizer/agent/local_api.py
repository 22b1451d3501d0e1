"""The agent's own routes: release and reopen GPUs, flush the history, report on it."""

import json
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from rightsizer.agent.settings import Settings
from rightsizer.console.flags import FLUSH_PATH, REPORT_PATH
from rightsizer.io.clock import Clock, wall_offset
from rightsizer.io.log import logger
from rightsizer.model.values import (
    AbsentError,
    DeviceReport,
    HistoryError,
    RefusedError,
    Report,
    UsageError,
    seconds,
)
from rightsizer.telemetry.source import (
    ReleasableResource,
    ReleaseController,
    ReleaseRequest,
    StillHeld,
)
from rightsizer.web.message import WebRequest, WebResponse, duration_of, fields_of, text_of
from rightsizer.web.router import Route

FORGET_PATH: Final = "/api/v1/forget"
_UUID_LENGTH: Final = 100
_ONLY_GONE: Final = ": only what is gone is forgotten"
_POLL_SECONDS: Final = 0.05
_REPORTED: Final = ("format", "from", "to", "last", "timezone")
_REMEDY: Final = "; leave it out to release until it is taken back"


class ControlRoutes:
    """Routes that release and reopen what the agent holds; never calls the driver itself."""

    def __init__(self, controls: ReleaseController, clock: Clock, still_held: StillHeld) -> None:
        """Create routes over the controller; `still_held` must be safe to call from any thread."""
        self._controls = controls
        self._clock = clock
        self._still_held = still_held
        self._log = logger("control")

    @property
    def routes(self) -> tuple[Route, ...]:
        """Local routes of this API."""
        return (
            Route("POST", "/api/v1/release", self._release, is_local=True),
            Route("POST", "/api/v1/resume", self._resume, is_local=True),
            Route("GET", "/api/v1/releases", self._releases, is_local=True),
        )

    def _release(self, request: WebRequest) -> WebResponse:
        fields = fields_of(request.body, ("held", "for"), ReleasableResource.GPUS)
        held = _held(fields.get("held"))
        for_seconds = duration_of(fields.get("for"), "30m", _REMEDY)
        release = self._controls.release(held, for_seconds)
        self._log_request("release_requested", request, held=str(held), for_seconds=for_seconds)
        return WebResponse.of_json(self._document(release))

    def _resume(self, request: WebRequest) -> WebResponse:
        named = fields_of(request.body, ("held",), ReleasableResource.GPUS).get("held")
        asked = tuple(ReleasableResource) if named is None else (_held(named),)
        resumed = [str(held) for held in asked if self._controls.resume(held)]
        self._log_request("resume_requested", request, resumed=",".join(resumed))
        return WebResponse.of_json({"resumed": resumed})

    def _releases(self, _: WebRequest) -> WebResponse:
        releases = filter(None, map(self._controls.released, ReleasableResource))
        return WebResponse.of_json({"releases": [*map(self._document, releases)]})

    def _document(self, release: ReleaseRequest) -> dict[str, object]:
        offset = wall_offset(self._clock)
        still_held = self._still_held(release)
        return {
            "held": release.held,
            "since": seconds(release.since + offset),
            "until": None if release.until is None else seconds(release.until + offset),
            "is_done": still_held is None,
            "still_held": still_held,
        }

    def _log_request(self, event: str, request: WebRequest, **details: object) -> None:
        peer = request.peer
        actor = {} if peer is None else {"uid": peer.uid, "pid": peer.pid}
        self._log.info(event, **details, **actor)


def _held(value: object) -> ReleasableResource:
    try:
        return ReleasableResource(value)  # type: ignore[arg-type] # Non-strings are no members.
    except ValueError:
        raise UsageError(
            f"held: {json.dumps(value)} is nothing that the agent holds; choose from "
            f"{', '.join(ReleasableResource)}"
        ) from None


def unknown_device(uuid: str) -> AbsentError:
    """Return the error for a device that is neither listed nor in the history."""
    return AbsentError(
        f"there is no GPU '{uuid}' to forget; 'rightsizer report' and the log's device_down have "
        "the uuids"
    )


class ForgetRoute:
    """Route that drops a device that is gone; answers once it is no longer listed."""

    def __init__(
        self,
        latest: Callable[[], Report | None],
        forget_device: Callable[[str], None],
        forget_accounts: Callable[[str], bool],
        patience_seconds: float,
    ) -> None:
        """Create it; the callables must be safe to call from any thread.

        `forget_device` asks the source, which obeys with its next snapshots unless the driver still
        offers the device; `forget_accounts` returns whether the device was known.
        """
        self._latest = latest
        self._forget_device = forget_device
        self._forget_accounts = forget_accounts
        self._patience_seconds = patience_seconds
        self._log = logger("control")

    @property
    def route(self) -> Route:
        """The route; for operators on the socket."""
        return Route("POST", FORGET_PATH, self._answer, is_local=True)

    def _answer(self, request: WebRequest) -> WebResponse:
        uuid = text_of(fields_of(request.body, ("uuid",)), "uuid", _UUID_LENGTH)
        listed = self._listed(uuid)
        if listed is not None and listed.down is None:
            raise RefusedError(f"{listed.device.title} ({uuid}) is up{_ONLY_GONE}")
        self._forget_listed(uuid)
        if not self._forget_accounts(uuid) and listed is None:
            raise unknown_device(uuid)
        actor = {} if request.peer is None else {"uid": request.peer.uid, "pid": request.peer.pid}
        self._log.info("device_forgotten", uuid=uuid, **actor)
        return WebResponse.of_json({"uuid": uuid})

    def _listed(self, uuid: str) -> DeviceReport | None:
        report = self._latest()
        devices = report.devices if report is not None else ()
        return next((device for device in devices if device.device.uuid == uuid), None)

    def _forget_listed(self, uuid: str) -> None:
        """Ask until the device is not listed: the driver may offer it until the next look."""
        deadline = time.monotonic() + self._patience_seconds
        never = threading.Event()
        while (listed := self._listed(uuid)) is not None:
            self._forget_device(uuid)
            if time.monotonic() >= deadline:
                why = "" if listed.down is None else f" ({listed.down.detail})"
                raise RefusedError(
                    f"the driver still offers {listed.device.title} ({uuid}){why}{_ONLY_GONE}"
                )
            never.wait(_POLL_SECONDS)


def flush_route(flush: Callable[[], None]) -> Route:
    """Return the local route that flushes the history before it answers; safe from any thread."""

    def answer(_: WebRequest) -> WebResponse:
        flush()
        return WebResponse.of_json({"flushed": True})

    return Route("POST", FLUSH_PATH, answer, is_local=True)


def report_route(settings: Callable[[], Settings]) -> Route:
    """Return the route of the history's report; one report is built at a time."""
    busy = threading.Lock()

    def answer(request: WebRequest) -> WebResponse:
        # Imported on use: most agents never serve a report.
        from rightsizer.agent.report_document import MEDIA_TYPES, report_document  # noqa: PLC0415

        asked = {"format": "html"} | {name: values[-1] for name, values in request.query.items()}
        if unknown := sorted(asked.keys() - set(_REPORTED)):
            raise UsageError(f"'{unknown[0]}' is unknown; choose from {', '.join(_REPORTED)}")
        if not (history := settings().history.path):
            text = "this agent keeps no history; set history.path"
            return WebResponse.of_text(text, HTTPStatus.NOT_FOUND)
        if not busy.acquire(blocking=False):
            text = "another report is being made; ask again"
            return WebResponse.of_text(text, HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "5"})
        try:
            document = report_document(Path(history), settings(), asked)
        except HistoryError as error:
            return WebResponse.of_text(str(error), HTTPStatus.SERVICE_UNAVAILABLE)
        finally:
            busy.release()
        return WebResponse(document.encode(), f"{MEDIA_TYPES[asked['format']]}; charset=utf-8")

    return Route("GET", REPORT_PATH, answer)
