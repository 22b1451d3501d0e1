"""The books: every snapshot becomes entries, so that each device's time is accounted for once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rightsizer.accounting.classify import ClassifySettings, Observation, classify, looks_stalled
from rightsizer.accounting.conditions import ConditionSettings, conditions
from rightsizer.accounting.power import PowerRange, PowerSettings
from rightsizer.accounting.signals import SignalSettings, clock_ratio, derive, tier_of
from rightsizer.accounting.usage import UsageSettings, usage, waste
from rightsizer.domain.device import Device
from rightsizer.domain.entry import Entry
from rightsizer.domain.reading import Reading
from rightsizer.domain.settings import setting
from rightsizer.domain.signal import Signal
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.state import Condition, Resource, State, Tier
from rightsizer.domain.units import Nanoseconds, nanoseconds, seconds
from rightsizer.domain.workload import Allocator, Holding

__all__ = ["Books", "BooksSettings"]


@dataclass(frozen=True, slots=True)
class BooksSettings:
    """How time is accounted for."""

    gap_minimum_seconds: float = setting(
        5.0,
        help="The least time that a reading may be away before it is a gap.",
        unit="seconds",
        minimum=0,
        source="docs/definitions.md, states",
    )
    gap_intervals: float = setting(
        3.0,
        help="The usual intervals that a reading may be away before it is a gap.",
        minimum=1,
        source="docs/definitions.md, states",
    )
    signals: SignalSettings = field(default_factory=SignalSettings)
    power: PowerSettings = field(default_factory=PowerSettings)
    classify: ClassifySettings = field(default_factory=ClassifySettings)
    conditions: ConditionSettings = field(default_factory=ConditionSettings)
    usage: UsageSettings = field(default_factory=UsageSettings)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What is known of a device from `start` to `end` (wall time)."""

    start: Nanoseconds
    end: Nanoseconds
    signals: dict[Signal, float]
    peer_stalls: bool


class Books:
    """Turns snapshots into entries; remembers each device's last reading and range of power."""

    def __init__(self, settings: BooksSettings | None = None) -> None:
        self._settings = settings or BooksSettings()
        self._accounted: dict[str, Nanoseconds] = {}
        self._power: dict[str, PowerRange] = {}

    def post(self, snapshot: Snapshot) -> list[Entry]:
        """The entries of one snapshot, in the order of its devices.

        A reading accounts for the time since the device's previous one; what goes beyond the
        longest usual gap is `unknown`. A device that is down becomes `unknown` as time goes
        by; one that is merely silent does when it speaks again, so that a recording's device
        ends with its last reading. The first reading of a device accounts for nothing.
        """
        devices = [device for device in snapshot.devices if not device.has_mig_instances]
        self._forget({device.uuid for device in devices})
        derived = {
            device.uuid: self._derive(snapshot, device, reading)
            for device in devices
            if (reading := snapshot.readings.get(device.uuid)) is not None
        }
        stalled = self._stalled_peers(snapshot, derived)
        entries: list[Entry] = []
        for device in devices:
            entries.extend(self._post_device(snapshot, device, derived, stalled))
        return entries

    def _post_device(
        self,
        snapshot: Snapshot,
        device: Device,
        derived: Mapping[str, dict[Signal, float]],
        stalled: frozenset[str],
    ) -> Iterator[Entry]:
        reading = snapshot.readings.get(device.uuid)
        now = snapshot.time if reading is None else reading.time
        last = self._accounted.get(device.uuid)
        if last is None:
            if reading is not None:
                self._accounted[device.uuid] = now
            return
        if reading is None and device.uuid not in snapshot.down:
            return
        known_from = max(last, now - self._longest_gap(snapshot.interval))
        if known_from > last:
            yield _unknown(
                device.uuid, snapshot.wall_time_of(last), snapshot.wall_time_of(known_from)
            )
            self._accounted[device.uuid] = known_from
        if reading is not None and now > known_from:
            stretch = _Stretch(
                start=snapshot.wall_time_of(known_from),
                end=snapshot.wall_time_of(now),
                signals=derived[device.uuid],
                peer_stalls=device.uuid in stalled,
            )
            holders = snapshot.holdings.get(device.uuid, ())
            yield self._entry(device, stretch, _allocator(holders))
            self._accounted[device.uuid] = now

    def _entry(self, device: Device, stretch: "_Stretch", allocator: Allocator) -> Entry:
        settings, signals = self._settings, stretch.signals
        total = signals.get(Signal.MEMORY_TOTAL_BYTES, device.memory_total_bytes)
        verdict = classify(Observation(signals, total, stretch.peer_stalls), settings.classify)
        known = verdict.state is not State.UNKNOWN
        holding = (
            conditions(signals, device, allocator, settings.conditions) if known else frozenset()
        )
        used = usage(signals, device, settings.usage)
        watts = signals.get(Signal.POWER_WATTS)
        if watts is not None:
            self._power[device.uuid].account(watts, verdict.state, stretch.end - stretch.start)
        return Entry(
            uuid=device.uuid,
            start=stretch.start,
            end=stretch.end,
            state=verdict.state,
            second_cause=verdict.second_cause,
            score=verdict.score,
            conditions=holding,
            tier=tier_of(signals),
            signals=signals,
            shares=used.shares,
            compute_at_least=used.compute_at_least,
            saturated=used.saturated if known else frozenset(),
            pressed=_pressed(holding),
            used_ratio=used.used_ratio if known else None,
            waste=waste(verdict.state, holding, used.used_ratio, clock_ratio(signals, device)),
            energy_joules=(None if watts is None else watts * seconds(stretch.end - stretch.start)),
        )

    def _derive(self, snapshot: Snapshot, device: Device, reading: Reading) -> dict[Signal, float]:
        power = self._power.setdefault(device.uuid, PowerRange(self._settings.power))
        watts = reading.get(Signal.POWER_WATTS)
        if watts is not None:
            power.see(watts)
        limit = device.power_limit_watts or reading.get(Signal.POWER_LIMIT_WATTS)
        return derive(
            reading,
            device,
            snapshot.host,
            power.draws(limit),
            self._settings.signals,
        )

    def _stalled_peers(
        self, snapshot: Snapshot, derived: Mapping[str, dict[Signal, float]]
    ) -> frozenset[str]:
        by_workload: dict[str, set[str]] = {}
        for uuid, signals in derived.items():
            if looks_stalled(signals, self._settings.classify):
                for holding in snapshot.holdings.get(uuid, ()):
                    by_workload.setdefault(holding.workload.key, set()).add(uuid)
        groups = (uuids for uuids in by_workload.values() if len(uuids) > 1)
        return frozenset().union(*groups)

    def _longest_gap(self, interval: Nanoseconds) -> Nanoseconds:
        minimum = nanoseconds(self._settings.gap_minimum_seconds)
        return max(minimum, round(self._settings.gap_intervals * interval))

    def _forget(self, present: set[str]) -> None:
        for uuid in self._accounted.keys() - present:
            del self._accounted[uuid]
        for uuid in self._power.keys() - present:
            del self._power[uuid]


def _unknown(uuid: str, start: Nanoseconds, end: Nanoseconds) -> Entry:
    return Entry(
        uuid=uuid,
        start=start,
        end=end,
        state=State.UNKNOWN,
        second_cause=None,
        score=1.0,
        conditions=frozenset(),
        tier=Tier.NONE,
        signals={},
        shares={},
        compute_at_least=None,
        saturated=frozenset(),
        pressed=frozenset(),
        used_ratio=None,
        waste={},
        energy_joules=None,
    )


def _allocator(holdings: tuple[Holding, ...]) -> Allocator:
    """How the device's memory is taken; preallocating if any holder does so."""
    kinds = {holding.workload.allocator for holding in holdings}
    if Allocator.PREALLOCATING in kinds:
        return Allocator.PREALLOCATING
    return Allocator.GROWING if kinds == {Allocator.GROWING} else Allocator.UNKNOWN


def _pressed(holding: frozenset[Condition]) -> frozenset[Resource]:
    """Of all kinds of pressure, only memory's can be seen without the application's help."""
    if Condition.NEAR_OUT_OF_MEMORY in holding:
        return frozenset({Resource.MEMORY})
    return frozenset()
