"""Readings of serving engines, matched to the devices they run on."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure
from rightsizer.io.http_settings import HttpSettings
from rightsizer.io.worker import FetchResult, PollingThread
from rightsizer.model.values import (
    CollectorOutcome,
    Device,
    DriverError,
    Holding,
    ServedSample,
    Signal,
    Snapshot,
)
from rightsizer.telemetry.serving.page import EngineMetricsPage, parse_page, values_of
from rightsizer.telemetry.serving.served import served_samples
from rightsizer.telemetry.serving.settings import ServingEndpoint, ServingTelemetrySettings

_ADDED: Final = frozenset({Signal.REQUESTS_RUNNING, Signal.REQUESTS_WAITING, Signal.PREEMPTIONS})
"""Signals summed over the engines on a device; of others the maximum counts."""

Holdings = Mapping[str, tuple[Holding, ...]]
_ORIGIN: Final = "serving"
_ACCEPT: Final = "text/plain;version=0.0.4"
_LONGEST_PAUSE_SECONDS: Final = 300.0
"""Between pages whose difference counts. Source: the slots in which load is kept."""


class _EnginePoll(NamedTuple):
    """A page, and what happened since the one before."""

    page: EngineMetricsPage
    asked: float
    """Seconds."""
    samples: tuple[ServedSample, ...]


class EngineMatches(Struct, frozen=True):
    """Values of engines by the uuid of their devices."""

    values: Mapping[str, Mapping[Signal, float]]
    """Per application: all GPUs of an engine have the same values, which must not be summed."""
    unmatched: Mapping[ServingEndpoint, str]
    """Endpoints whose GPUs are unknown, with the reason; an owner is never guessed."""
    devices: Mapping[ServingEndpoint, tuple[str, ...]] = {}
    """Uuids of each endpoint's GPUs."""


def match_engines(
    devices: Sequence[Device],
    holdings: Holdings,
    pages: Mapping[ServingEndpoint, Mapping[Signal, float]],
) -> EngineMatches:
    """Assign the values of engines to the devices they run on."""
    values: dict[str, dict[Signal, float]] = {}
    unmatched: dict[ServingEndpoint, str] = {}
    uuids_of: dict[ServingEndpoint, tuple[str, ...]] = {}
    for endpoint, page_values in pages.items():
        device_uuids, trouble = _devices_of(endpoint, devices, holdings)
        uuids = uuids_of[endpoint] = tuple(device_uuids)
        if trouble:
            unmatched[endpoint] = trouble
        for uuid in uuids:
            held = values.setdefault(uuid, {})
            for signal, value in page_values.items():
                both = (held[signal], value) if signal in held else (value,)
                held[signal] = sum(both) if signal in _ADDED else max(both)
    return EngineMatches(values, unmatched, uuids_of)


def _devices_of(
    endpoint: ServingEndpoint, devices: Sequence[Device], holdings: Holdings
) -> tuple[Iterable[str], str]:
    if endpoint.gpus:
        return _named(endpoint.gpus, devices)
    if not (endpoint.workload or endpoint.namespace or endpoint.pod):
        return (), "it names neither GPUs nor an owner; add gpus, workload or pod"
    held: dict[tuple[str, str, str], list[str]] = {}
    for device in devices:
        for holding in holdings.get(device.uuid, ()):
            owner = holding.workload
            if all(
                not pattern or fnmatchcase(text, pattern)
                for pattern, text in (
                    (endpoint.workload, owner.name),
                    (endpoint.namespace, owner.namespace),
                    (endpoint.pod, owner.pod),
                )
            ):
                held.setdefault((owner.key, owner.namespace, owner.pod), []).append(device.uuid)
    if not held:
        return (), "no GPU is held by the owner that it names"
    if len(held) > 1:
        owners = ", ".join(sorted(pod or key for key, _, pod in held))
        return (), f"it names {len(held)} owners ({owners}); name one pod, or the GPUs"
    return next(iter(held.values())), ""


def _named(gpus: Sequence[str], devices: Sequence[Device]) -> tuple[Iterable[str], str]:
    by_name = {device.uuid: device for device in devices}
    # A MIG instance shares its GPU's index, so only its uuid identifies it.
    by_name |= {str(device.index): device for device in devices if device.mig is None}
    uuids: list[str] = []
    trouble = ""
    for gpu in gpus:
        device = by_name.get(gpu)
        if device is None:
            trouble = f"there is no GPU '{gpu}'"
        elif device.has_mig_instances:
            trouble = f"GPU '{gpu}' is split into MIG instances; name them by uuid"
        else:
            uuids.append(device.uuid)
    return dict.fromkeys(uuids), trouble


class ServingEngineCollector:
    """Adds queues and latencies of engines to readings.

    Used by one thread, which never waits for an engine.
    """

    def __init__(
        self, settings: ServingTelemetrySettings, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._pollers = tuple(
            _EnginePoller(endpoint, settings, now) for endpoint in settings.endpoints
        )
        self._matches = EngineMatches({}, {})

    def enrich(self, snapshot: Snapshot) -> Snapshot:
        """Merge the values of engines into the snapshot."""
        values = self.read(snapshot.devices, snapshot.holdings)
        readings = {
            uuid: reading.enriched(values[uuid], _ORIGIN) if uuid in values else reading
            for uuid, reading in snapshot.readings.items()
        }
        collectors = {**snapshot.collectors, **self.outcomes()}
        served = tuple(self._samples())
        return replace(snapshot, readings=readings, collectors=collectors, served=served)

    def forget(self, uuid: str) -> None:
        """Do nothing: it knows engines, and no device of its own."""

    def latest(self, wait_seconds: float = 0.0) -> Mapping[ServingEndpoint, Mapping[Signal, float]]:
        """Return the last values of each endpoint; without those that have expired."""
        answers = ((poller.endpoint, poller.latest(wait_seconds)) for poller in self._pollers)
        return {endpoint: values for endpoint, values in answers if values is not None}

    def read(
        self, devices: Sequence[Device], holdings: Holdings
    ) -> Mapping[str, Mapping[Signal, float]]:
        """Return the values of engines by the uuid of their devices."""
        self._matches = match_engines(devices, holdings, self.latest())
        return self._matches.values

    def _samples(self) -> Iterator[ServedSample]:
        """Yield what was read since the last time, with the GPUs of its engine."""
        for poller in self._pollers:
            devices = self._matches.devices.get(poller.endpoint, ())
            for sample in poller.take_samples():
                facts = replace(sample.facts, devices=devices)
                yield replace(sample, facts=facts, endpoint=poller.endpoint.name)

    def outcomes(self) -> Mapping[str, CollectorOutcome]:
        """Return the outcome of each endpoint; a success needs an answer and known GPUs."""
        collector_outcomes: dict[str, CollectorOutcome] = {}
        for poller in self._pollers:
            outcome = poller.fetched.outcome
            failure = self._matches.unmatched.get(poller.endpoint)
            if outcome.success and failure is not None:
                outcome = outcome._replace(success=False, failure=failure)
            collector_outcomes[poller.endpoint.name] = outcome
        return collector_outcomes

    def close(self) -> None:
        """Stop polling; a hung request is left behind."""
        for poller in self._pollers:
            poller.close()


class _EnginePoller:
    """Poller of one endpoint; keeps the previous page."""

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
            # No retries: the next poll is one.
            HttpSettings(
                timeout_seconds=settings.timeout_seconds,
                tries=1,
                response_maximum_bytes=settings.page_maximum_bytes,
            ),
            accept=_ACCEPT,
        )
        self._background: PollingThread[_EnginePoll] = PollingThread(
            endpoint.name,
            self._poll,
            interval_seconds=settings.interval_seconds,
            hold_seconds=settings.interval_seconds * settings.hold_intervals,
            now=now,
        )
        self.fetched: FetchResult[_EnginePoll] = FetchResult(None, "nothing was fetched yet")
        self._last: _EnginePoll | None = None
        self._values: Mapping[Signal, float] | None = None
        self._samples: tuple[ServedSample, ...] = ()
        self._before: tuple[EngineMetricsPage, float] | None = None
        """Last page, on the background thread only."""

    def latest(self, wait_seconds: float) -> Mapping[Signal, float] | None:
        self.fetched = self._background.latest(wait_seconds)
        poll = self.fetched.value
        if poll is None:
            # Growth over a long pause does not describe the present.
            self._last = self._values = None
        elif poll is not self._last:
            page, now, self._samples = poll
            former, before = (None, now) if self._last is None else self._last[:2]
            self._values = values_of(page, former, now - before)
            self._last = poll
        return self._values

    def take_samples(self) -> tuple[ServedSample, ...]:
        """Return what was read since the last time."""
        samples = self._samples
        self._samples = ()
        return samples

    def close(self) -> None:
        self._background.close()
        self._client.close()

    def _poll(self) -> _EnginePoll:
        """Fetch a page; runs on the background thread only."""
        asked = self._now()
        answer = self._client.request("GET", "")
        if isinstance(answer, Failure):
            raise DriverError(answer.message)
        page = parse_page(str(answer.body), self.endpoint.engine)
        former, before = self._before or (None, asked)
        if asked - before > _LONGEST_PAUSE_SECONDS:
            former = None
        self._before = page, asked
        return _EnginePoll(page, asked, served_samples(page, former, asked - before))
