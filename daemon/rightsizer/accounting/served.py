"""Models that a node serves: their recent load, and hours of a week by which it repeats."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.io.codec import decode, encode
from rightsizer.model.values import (
    DAY,
    HOUR,
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    ServedCounts,
    ServedFigure,
    ServedLoad,
    ServedSample,
    Signal,
    Snapshot,
    Workload,
    seconds,
    summed_counts,
    with_counts,
)

SERVED_KEPT: Final[Nanoseconds] = 7 * DAY
_SLOT: Final[Nanoseconds] = 300 * NANOSECONDS_PER_SECOND
_SLOTS: Final = HOUR // _SLOT
_SLOT_SECONDS: Final = 150.0
"""Known part of a slot from which its rate counts. Source: half of it."""
_MODELS_MAXIMUM: Final = 64
"""Models of all engines; a Triton server may load hundreds."""
_GONE: Final[Nanoseconds] = 2 * HOUR
"""Without a sample, after which a model makes place for another; a restart takes less."""
_PEAK: Final = 0.95
_HOURS: Final = 24


class ServedHour(Struct, frozen=True):
    """What happened to a model on an engine in an hour, as the history keeps it."""

    endpoint: str
    model: str
    """As the engine names it, whatever a policy says."""
    start: Nanoseconds
    facts: ServedLoad
    counts: ServedCounts
    rates: tuple[float | None, ...] = ()
    """Requests a second in each of its slots; `None` where they are not known."""

    @property
    def key(self) -> tuple[str, str]:
        """Engine and model."""
        return self.endpoint, self.model


class _Pace(Struct, frozen=True):
    """What of an hour the load's rhythm needs."""

    requests: float
    seconds: float
    rates: tuple[float | None, ...]

    @classmethod
    def of(cls, hour: ServedHour) -> "_Pace":
        return cls(*hour.counts.ratios.get(ServedFigure.REQUESTS, (0.0, 0.0)), hour.rates)


class ServedQuery(Struct, frozen=True):
    """Hours of a model at one time, decoded where nothing waits for it."""

    facts: ServedLoad
    closed: tuple[bytes, ...]
    running: ServedHour | None
    paces: Mapping[Nanoseconds, _Pace]

    def load(self) -> ServedLoad:
        """Load in these hours, with the rhythm of the week."""
        hours = [decode(text, ServedHour) for text in self.closed]
        if self.running is not None:
            hours.append(self.running)
        load = with_counts(self.facts, summed_counts(hour.counts for hour in hours))
        return _with_rhythm(load, self.paces)


@dataclass(slots=True)
class _Model:
    """Account of one model on one engine."""

    endpoint: str
    model: str
    facts: ServedLoad
    seen: Nanoseconds = 0
    slot: Nanoseconds = 0
    open_slot: ServedCounts = field(default_factory=ServedCounts)
    last_slot: ServedCounts = field(default_factory=ServedCounts)
    hour: ServedHour | None = None
    closed: dict[Nanoseconds, bytes] = field(default_factory=dict)
    """Former hours, encoded; a tenth of their size."""
    paces: dict[Nanoseconds, _Pace] = field(default_factory=dict)
    rhythm: ServedLoad | None = None
    """Rhythm of the week when the slot began."""

    @property
    def key(self) -> tuple[str, str]:
        """Engine and model."""
        return self.endpoint, self.model

    def add(self, sample: ServedSample, facts: ServedLoad, now: Nanoseconds) -> None:
        self.facts = facts
        self.seen = now
        slot = now - now % _SLOT
        if slot != self.slot:
            self.last_slot = self.open_slot if slot == self.slot + _SLOT else ServedCounts()
            self.open_slot = ServedCounts()
            self.slot = slot
            self.rhythm = _with_rhythm(facts, self._all_paces())
        start = now - now % HOUR
        if self.hour is None or self.hour.start != start:
            self._close_hour(start)
            self.hour = self.hour_of(start) or ServedHour(
                self.endpoint, self.model, start, facts, ServedCounts()
            )
        self.open_slot = summed_counts((self.open_slot, sample.counts))
        rates = [*self.hour.rates, *(None,) * (_SLOTS - len(self.hour.rates))]
        if self.open_slot.seconds >= _SLOT_SECONDS:
            rates[(slot - start) // _SLOT] = self.open_slot.of(ServedFigure.REQUESTS)
        counts = summed_counts((self.hour.counts, sample.counts))
        self.hour = replace(self.hour, facts=facts, counts=counts, rates=tuple(rates))

    def restore(self, hour: ServedHour) -> None:
        self.facts = hour.facts
        self.closed[hour.start] = encode(hour)
        self.paces[hour.start] = _Pace.of(hour)

    def hour_of(self, start: Nanoseconds) -> ServedHour | None:
        """Hour that begins at a time, or `None`."""
        if self.hour is not None and self.hour.start == start:
            return self.hour
        text = self.closed.get(start)
        return None if text is None else decode(text, ServedHour)

    def hours(self, since: Nanoseconds) -> list[ServedHour]:
        """Hours that begin at a time or later."""
        running = [] if self.hour is None else [self.hour]
        starts = sorted({*self.closed, *(hour.start for hour in running)})
        hours = (self.hour_of(start) for start in starts if start >= since)
        return [hour for hour in hours if hour is not None]

    def query(self, since: Nanoseconds, until: Nanoseconds | None) -> ServedQuery | None:
        """Hours that begin at a time or later, and before another; `None` without any."""

        def is_asked(start: Nanoseconds) -> bool:
            return start >= since and (until is None or start < until)

        running = self.hour if self.hour is not None and is_asked(self.hour.start) else None
        closed = tuple(
            text
            for start, text in sorted(self.closed.items())
            if is_asked(start) and (self.hour is None or start != self.hour.start)
        )
        if running is None and not closed:
            return None
        return ServedQuery(self.facts, closed, running, self._all_paces())

    def recent_load(self) -> ServedLoad:
        """Load in the last minutes, with the rhythm up to them."""
        load = with_counts(self.facts, summed_counts((self.last_slot, self.open_slot)))
        rhythm = self.rhythm or load
        return replace(
            load,
            requests_per_second_by_hour=rhythm.requests_per_second_by_hour,
            requests_per_second_peak=rhythm.requests_per_second_peak,
        )

    def _all_paces(self) -> dict[Nanoseconds, _Pace]:
        running = {} if self.hour is None else {self.hour.start: _Pace.of(self.hour)}
        return {**self.paces, **running}

    def _close_hour(self, now: Nanoseconds) -> None:
        if self.hour is not None:
            self.restore(self.hour)
        for start in [start for start in self.closed if start < now - SERVED_KEPT]:
            del self.closed[start]
            self.paces.pop(start, None)


class ServedAccounts:
    """Loads of all models that the engines of a node serve. Not thread-safe."""

    def __init__(self) -> None:
        self._models: dict[tuple[str, str], _Model] = {}
        self._recent: dict[tuple[str, str], ServedLoad] = {}
        self._slot: Nanoseconds = 0

    def post(self, snapshot: Snapshot) -> tuple[ServedLoad, ...]:
        """Account for the samples of a snapshot; return the loads of the last minutes."""
        if not snapshot.served and not self._recent:
            return ()
        now = snapshot.wall_time
        endpoints = [sample.endpoint for sample in snapshot.served]
        for sample in snapshot.served:
            facts = _stated(sample.facts, snapshot, is_only=endpoints.count(sample.endpoint) == 1)
            model = self._model(sample.endpoint, sample.facts.model, facts, now)
            if model is not None:
                model.add(sample, facts, now)
                self._recent[model.key] = model.recent_load()
        slot = now - now % _SLOT
        if slot != self._slot:
            self._slot = slot
            self._forget(now)
        return tuple(self._recent.values())

    def _forget(self, now: Nanoseconds) -> None:
        """Drop models that are not served any more: from the recent ones, and after their week."""
        for key, model in [*self._models.items()]:
            if abs(now - model.seen) > 2 * _SLOT:
                self._recent.pop(key, None)
            if now - model.seen > SERVED_KEPT + HOUR:
                del self._models[key]

    def queries(
        self, since: Nanoseconds, until: Nanoseconds | None = None
    ) -> tuple[ServedQuery, ...]:
        """Hours of each model since a time, of whole hours; without those not served in them.

        Of hours that begin before `until`, if it is given.
        """
        since -= since % HOUR
        queries = (model.query(since, until) for model in self._models.values())
        return tuple(query for query in queries if query is not None)

    def loads(self, since: Nanoseconds) -> tuple[ServedLoad, ...]:
        """Loads since a time, by whole hours; without models that were not served."""
        return tuple(query.load() for query in self.queries(since))

    def hours(self, since: Nanoseconds = 0) -> list[ServedHour]:
        """Hours of all models to keep, from that of a time on."""
        since -= since % HOUR
        return [hour for model in self._models.values() for hour in model.hours(since)]

    def restore(self, hours: Iterable[ServedHour]) -> None:
        """Restore the hours of a history, oldest first."""
        for hour in hours:
            model = self._model(hour.endpoint, hour.model, hour.facts, hour.start)
            if model is not None:
                model.restore(hour)
                model.seen = hour.start + HOUR

    def _model(
        self, endpoint: str, name: str, facts: ServedLoad, now: Nanoseconds
    ) -> _Model | None:
        """Account of a model; `None` beyond the limit of those that are served."""
        key = endpoint, name
        if key not in self._models:
            if len(self._models) >= _MODELS_MAXIMUM:
                oldest = min(self._models, key=lambda model: self._models[model].seen)
                if now - self._models[oldest].seen <= _GONE:
                    return None
                del self._models[oldest]
                self._recent.pop(oldest, None)
            self._models[key] = _Model(endpoint, name, facts, seen=now)
        return self._models[key]


def _stated(facts: ServedLoad, snapshot: Snapshot, *, is_only: bool) -> ServedLoad:
    """Add what the node knows of an engine's GPUs."""
    devices = [device for device in snapshot.devices if device.uuid in facts.devices]
    if not devices:
        return facts
    boards = {device.name for device in devices}
    owners = _owners(facts.devices, snapshot)
    owner = owners[0] if len(owners) == 1 else None
    models = {workload.model for workload in owners} - {""}
    levels = {(workload.ttft, workload.tpot) for workload in owners}
    ttft, tpot = levels.pop() if len(levels) == 1 else ("", "")
    readings = (snapshot.readings.get(device.uuid) for device in devices)
    memory = [
        used
        for reading in readings
        if reading is not None
        and (used := reading.values.get(Signal.MEMORY_USED_BYTES)) is not None
    ]
    shared, rest = divmod(len(devices), facts.engines)
    tensor = shared if is_only and not rest else None
    return replace(
        facts,
        model=models.pop() if is_only and len(models) == 1 else facts.model,
        board=boards.pop() if len(boards) == 1 else "",
        workload=owner.name if owner else "",
        namespace=owner.namespace if owner else "",
        memory_used_bytes=max(memory, default=None),
        tensor=facts.tensor or tensor,
        ttft=ttft,
        tpot=tpot,
    )


def _owners(uuids: Sequence[str], snapshot: Snapshot) -> list[Workload]:
    """Return the workloads that hold an engine's GPUs."""
    owners = {
        holding.workload.key: holding.workload
        for uuid in uuids
        for holding in snapshot.holdings.get(uuid, ())
    }
    return list(owners.values())


def _with_rhythm(load: ServedLoad, paces: Mapping[Nanoseconds, _Pace]) -> ServedLoad:
    return replace(
        load,
        requests_per_second_by_hour=_by_hour(paces.items()),
        requests_per_second_peak=_peak(paces.values()),
    )


def _by_hour(paces: Iterable[tuple[Nanoseconds, _Pace]]) -> tuple[float | None, ...]:
    requests = [0.0] * _HOURS
    known_seconds = [0.0] * _HOURS
    for start, pace in paces:
        hour = datetime.fromtimestamp(seconds(start), UTC).astimezone().hour
        requests[hour] += pace.requests
        known_seconds[hour] += pace.seconds
    if not any(known_seconds):
        return ()
    return tuple(
        happened / time if time > 0 else None
        for happened, time in zip(requests, known_seconds, strict=True)
    )


def _peak(paces: Iterable[_Pace]) -> float | None:
    rates = sorted(rate for pace in paces for rate in pace.rates if rate is not None)
    return rates[math.ceil(_PEAK * len(rates)) - 1] if rates else None
