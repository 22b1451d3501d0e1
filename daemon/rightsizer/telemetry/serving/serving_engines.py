"""All serving engines of the node, each asked on a thread of its own."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rightsizer.domain.device import Device
from rightsizer.domain.errors import DriverError
from rightsizer.domain.signal import Signal
from rightsizer.domain.snapshot import CollectorOutcome
from rightsizer.domain.workload import Holding
from rightsizer.edge.http import Failure, HttpClient, HttpSettings
from rightsizer.telemetry.background import Background, Fetched
from rightsizer.telemetry.serving.page import ServingPage, read_page
from rightsizer.telemetry.serving.settings import ServingEndpoint, ServingSettings
from rightsizer.telemetry.serving.ties import Ties, tie
from rightsizer.telemetry.serving.values import values_of

__all__ = ["ServingEngines"]

_ACCEPT: Final = "text/plain;version=0.0.4"


@dataclass(frozen=True, slots=True)
class _Look:
    """One page, and when it was asked for."""

    page: ServingPage
    seconds: float


class ServingEngines:
    """What the configured engines say now; nobody waits for them.

    Everything here is for one caller's thread.
    """

    def __init__(
        self, settings: ServingSettings, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Asks nobody before the first `latest` or `read`."""
        self._watches = tuple(_Watch(endpoint, settings, now) for endpoint in settings.endpoints)
        self._ties = Ties({}, {})

    def latest(self, wait_seconds: float = 0.0) -> Mapping[ServingEndpoint, Mapping[Signal, float]]:
        """What each endpoint said last, those left out that said nothing lately.

        Args:
            wait_seconds: How long to wait for each that is being asked.
        """
        answers = {watch.endpoint: watch.latest(wait_seconds) for watch in self._watches}
        return {endpoint: said for endpoint, said in answers.items() if said is not None}

    def read(
        self, devices: Sequence[Device], holdings: Mapping[str, tuple[Holding, ...]]
    ) -> Mapping[str, Mapping[Signal, float]]:
        """What the engines on each device say, by its uuid."""
        self._ties = tie(devices, holdings, self.latest())
        return self._ties.values

    def outcomes(self) -> Mapping[str, CollectorOutcome]:
        """How each endpoint does, by its name: well where it answers and its GPUs are known."""
        return {
            watch.endpoint.name: replace(watch.fetched.outcome, success=not self._trouble(watch))
            for watch in self._watches
        }

    def troubles(self) -> Mapping[str, str]:
        """Why an endpoint does not do well, by its name."""
        troubles = {watch.endpoint.name: self._trouble(watch) for watch in self._watches}
        return {name: trouble for name, trouble in troubles.items() if trouble}

    def models(self) -> Mapping[str, tuple[str, ...]]:
        """The models that each endpoint serves, by its name."""
        return {watch.endpoint.name: watch.models for watch in self._watches}

    def close(self) -> None:
        """Ask no more; a request that hangs is left behind."""
        for watch in self._watches:
            watch.close()

    def _trouble(self, watch: "_Watch") -> str:
        return watch.fetched.error or self._ties.untied.get(watch.endpoint, "")


class _Watch:
    """One endpoint, with the page before the last."""

    def __init__(
        self, endpoint: ServingEndpoint, settings: ServingSettings, now: Callable[[], float]
    ) -> None:
        self.endpoint = endpoint
        self._now = now
        self._client = HttpClient(
            endpoint.address,
            # The next look is the next try.
            HttpSettings(
                timeout_seconds=settings.timeout_seconds,
                tries=1,
                response_maximum_bytes=settings.page_maximum_bytes,
            ),
            accept=_ACCEPT,
        )
        self._background: Background[_Look] = Background(
            endpoint.name,
            self._look,
            interval_seconds=settings.interval_seconds,
            hold_seconds=settings.interval_seconds * settings.hold_intervals,
            now=now,
        )
        self.fetched: Fetched[_Look] = Fetched(None, "nothing was fetched yet")
        self._last: _Look | None = None
        self._values: Mapping[Signal, float] | None = None

    @property
    def models(self) -> tuple[str, ...]:
        return () if self._last is None else self._last.page.models

    def latest(self, wait_seconds: float) -> Mapping[Signal, float] | None:
        self.fetched = self._background.latest(wait_seconds)
        look = self.fetched.value
        if look is None:
            # What happened while nobody looked is not the present's.
            self._last = self._values = None
        elif look is not self._last:
            self._values = self._since(look, self._last)
            self._last = look
        return self._values

    def close(self) -> None:
        self._background.close()
        self._client.close()

    def _look(self) -> _Look:
        """On the background's thread alone."""
        asked = self._now()
        answer = self._client.request("GET", "")
        if isinstance(answer, Failure):
            raise DriverError(answer.message)
        return _Look(read_page(str(answer.body), self.endpoint.engine), asked)

    @staticmethod
    def _since(look: _Look, last: _Look | None) -> Mapping[Signal, float]:
        if last is None:
            return values_of(look.page)
        return values_of(look.page, last.page, look.seconds - last.seconds)
