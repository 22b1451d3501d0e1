"""Secondary source of serving engines: one polling thread each, signals added to their GPUs."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure
from rightsizer.io.http_settings import HttpSettings
from rightsizer.io.polling import FetchResult, PollingThread
from rightsizer.model.device import Device
from rightsizer.model.errors import DriverError
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import CollectorOutcome, Snapshot
from rightsizer.model.workload import Holding
from rightsizer.telemetry.serving.matching import EngineMatches, match_engines
from rightsizer.telemetry.serving.page import EngineMetricsPage, parse_page, values_of
from rightsizer.telemetry.serving.settings import ServingEndpoint, ServingTelemetrySettings

_ACCEPT: Final = "text/plain;version=0.0.4"


@dataclass(frozen=True, slots=True)
class _EnginePoll:
    """One page, and when it was asked for."""

    page: EngineMetricsPage
    seconds: float


class ServingEngineCollector:
    """What the configured engines say now; nobody waits for them.

    Everything here is for one caller's thread.
    """

    def __init__(
        self, settings: ServingTelemetrySettings, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Asks nobody before the first `latest` or `read`."""
        self._watches = tuple(
            _EngineWatcher(endpoint, settings, now) for endpoint in settings.endpoints
        )
        self._ties = EngineMatches({}, {})

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
        self._ties = match_engines(devices, holdings, self.latest())
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

    def _trouble(self, watch: "_EngineWatcher") -> str:
        return watch.fetched.error or self._ties.untied.get(watch.endpoint, "")


class _EngineWatcher:
    """One endpoint, with the page before the last."""

    def __init__(
        self,
        endpoint: ServingEndpoint,
        settings: ServingTelemetrySettings,
        now: Callable[[], float],
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
        self._background: PollingThread[_EnginePoll] = PollingThread(
            endpoint.name,
            self._look,
            interval_seconds=settings.interval_seconds,
            hold_seconds=settings.interval_seconds * settings.hold_intervals,
            now=now,
        )
        self.fetched: FetchResult[_EnginePoll] = FetchResult(None, "nothing was fetched yet")
        self._last: _EnginePoll | None = None
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

    def _look(self) -> _EnginePoll:
        """On the background's thread alone."""
        asked = self._now()
        answer = self._client.request("GET", "")
        if isinstance(answer, Failure):
            raise DriverError(answer.message)
        return _EnginePoll(parse_page(str(answer.body), self.endpoint.engine), asked)

    @staticmethod
    def _since(look: _EnginePoll, last: _EnginePoll | None) -> Mapping[Signal, float]:
        if last is None:
            return values_of(look.page)
        return values_of(look.page, last.page, look.seconds - last.seconds)


_ORIGIN: Final = "serving"


class ServingSecondarySource:
    """Puts queues and latencies into the readings, and says once what it cannot place."""

    def __init__(self, engines: ServingEngineCollector) -> None:
        """Says nothing before the first snapshot."""
        self._engines = engines
        self._told: dict[str, str] = {}
        self._log = structlog.get_logger(component="serving")

    def enrich(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what the engines say."""
        values = self._engines.read(snapshot.devices, snapshot.holdings)
        readings = {
            uuid: replace(
                reading,
                values={**reading.values, **values[uuid]},
                origins={**reading.origins, **dict.fromkeys(values[uuid], _ORIGIN)},
            )
            if uuid in values
            else reading
            for uuid, reading in snapshot.readings.items()
        }
        self._tell()
        collectors = {**snapshot.collectors, **self._engines.outcomes()}
        return replace(snapshot, readings=readings, collectors=collectors)

    def close(self) -> None:
        """Ask no more."""
        self._engines.close()

    def _tell(self) -> None:
        troubles = dict(self._engines.troubles())
        for name, trouble in troubles.items():
            if self._told.get(name) != trouble:
                self._log.warning("serving_unread", endpoint=name, reason=trouble)
        self._told = troubles
