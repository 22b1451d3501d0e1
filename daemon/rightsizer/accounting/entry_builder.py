"""EntryBuilder: snapshots into entries, so that each device's time is accounted for once."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from rightsizer.accounting.classification import (
    ClassificationInput,
    StateMatch,
    classify,
    looks_stalled,
)
from rightsizer.accounting.conditions import ConditionInput, ImbalanceDetector, conditions, job_of
from rightsizer.accounting.device_state import DeviceState, Interval
from rightsizer.accounting.power import LearnedPower, PowerRange
from rightsizer.accounting.settings import EntrySettings
from rightsizer.accounting.signals import clock_ratio, derive_signals, has_dead_counters, tier_of
from rightsizer.accounting.usage import usage, waste
from rightsizer.model.device import Device
from rightsizer.model.entry import Entry
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import Condition, State, Tier
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.model.workload import Allocator, Holding

_ABSENT_KEPT: Final = 64
"""Ranges of boards that are not there; MIG reconfiguration makes new uuids each time."""


class EntryBuilder:
    """Turns snapshots into entries; remembers each device's last reading and range of power."""

    def __init__(self, settings: EntrySettings | None = None) -> None:
        self._settings = settings or EntrySettings()
        self._pages: dict[str, DeviceState] = {}
        self._power: dict[str, PowerRange] = {}
        self._imbalance = ImbalanceDetector(self._settings.imbalance)

    def restore_power(self, uuid: str, learned: LearnedPower | None) -> None:
        """Go on from what a history knows of a device's draw."""
        if learned is not None:
            self._range(uuid).restore(learned)

    def learned_power(self, uuid: str) -> LearnedPower | None:
        """What is known of a device's draw, `None` where nothing is."""
        return self._power[uuid].learned() if uuid in self._power else None

    def post(self, snapshot: Snapshot) -> list[Entry]:
        """The entries of one snapshot, in the order of its devices.

        A reading accounts for the time since the device's previous one; what goes beyond the
        longest usual gap is `unknown`. A device that is down becomes `unknown` as time goes
        by; one that is merely silent does when it speaks again, so that a recording's device
        ends with its last reading. The first reading of a device accounts for nothing.
        """
        devices = [device for device in snapshot.devices if not device.has_mig_instances]
        self._forget({device.uuid for device in devices})
        self._imbalance.judge(snapshot.time)
        derived = {
            device.uuid: self._derive(snapshot, device, reading)
            for device in devices
            if (reading := snapshot.readings.get(device.uuid)) is not None
        }
        stalled = self._stalled_peers(snapshot, devices, derived)
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
        page = self._page(device.uuid)
        last = page.accounted
        if last is None:
            if reading is not None:
                page.begin(now, reading.get(Signal.ENERGY_JOULES))
            return
        if reading is None and device.uuid not in snapshot.down:
            return
        known_from = max(last, now - self._longest_gap(snapshot.interval))
        if known_from > last:
            yield _unknown(
                device.uuid, snapshot.wall_time_of(last), snapshot.wall_time_of(known_from)
            )
            page.skip(known_from)
        if reading is not None and now > known_from:
            signals = derived[device.uuid]
            stretch = Interval(
                start=snapshot.wall_time_of(known_from),
                end=snapshot.wall_time_of(now),
                signals=signals,
                peer_stalls=device.uuid in stalled,
                steady_end=now,
                xids=snapshot.xids.get(device.uuid),
                holdings=snapshot.holdings.get(device.uuid, ()),
                clock_ratio=clock_ratio(signals, device),
            )
            yield self._entry(device, page, stretch)
            page.accounted = now

    def _entry(self, device: Device, page: DeviceState, stretch: Interval) -> Entry:
        settings, signals = self._settings, stretch.signals
        verdict = self._verdict(device, stretch)
        known = verdict.state is not State.UNKNOWN
        holding = self._conditions(device, page, stretch) if known else frozenset()
        used = usage(signals, device, settings.usage)
        energy = page.energy(stretch, device.power_limit_watts)
        pressed = page.pressure.see(
            stretch.steady_end, signals, used.saturated, holding, stretch.xids
        )
        watts = signals.get(Signal.POWER_WATTS)
        if watts is not None:
            self._range(device.uuid).account(watts, verdict.state, stretch.duration)
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
            pressed=pressed if known else frozenset(),
            used_ratio=used.used_ratio if known else None,
            waste=waste(verdict.state, holding, used.used_ratio, stretch.clock_ratio),
            energy_joules=None if energy is None else energy.joules,
            energy_source=None if energy is None else energy.source,
        )

    def _verdict(self, device: Device, stretch: Interval) -> StateMatch:
        signals = stretch.signals
        total = signals.get(Signal.MEMORY_TOTAL_BYTES, device.memory_total_bytes)
        seen = ClassificationInput(signals, total, stretch.peer_stalls, stretch.clock_ratio)
        return classify(seen, self._settings.classify)

    def _conditions(
        self, device: Device, page: DeviceState, stretch: Interval
    ) -> frozenset[Condition]:
        settings, signals = self._settings.conditions, stretch.signals
        job = job_of(device, stretch.holdings)
        around = ConditionInput(
            signals,
            device,
            _allocator(stretch.holdings),
            stretch.clock_ratio,
            page.link.see(
                stretch.steady_end,
                stretch.duration,
                signals.get(Signal.PCIE_LINK_GENERATION),
                is_loaded=signals.get(Signal.GPU_BUSY, 0.0) >= settings.load_busy_ratio,
            ),
            job is not None and self._imbalance.holds(device.uuid),
        )
        self._imbalance.see(device, job, stretch.steady_end, stretch.duration, signals)
        return conditions(around, settings)

    def _derive(self, snapshot: Snapshot, device: Device, reading: Reading) -> dict[Signal, float]:
        power = self._range(device.uuid)
        watts = reading.get(Signal.POWER_WATTS)
        if watts is not None:
            power.see(watts)
        limit = device.power_limit_watts or reading.get(Signal.POWER_LIMIT_WATTS)
        page = self._page(device.uuid)
        signals = derive_signals(
            reading,
            device,
            snapshot.host,
            power.draws(limit),
            self._settings.signals,
            counters_were_dead=page.has_dead_counters,
        )
        page.has_dead_counters = has_dead_counters(reading, signals)
        return signals

    def _stalled_peers(
        self,
        snapshot: Snapshot,
        devices: Iterable[Device],
        derived: Mapping[str, dict[Signal, float]],
    ) -> frozenset[str]:
        by_workload: dict[str, set[str]] = {}
        for device in devices:
            signals = derived.get(device.uuid, {})
            if looks_stalled(signals, self._settings.classify, clock_ratio(signals, device)):
                for holding in snapshot.holdings.get(device.uuid, ()):
                    by_workload.setdefault(holding.workload.key, set()).add(device.uuid)
        groups = (uuids for uuids in by_workload.values() if len(uuids) > 1)
        return frozenset().union(*groups)

    def _page(self, uuid: str) -> DeviceState:
        if uuid not in self._pages:
            settings = self._settings
            self._pages[uuid] = DeviceState(settings.energy, settings.pressure, settings.link)
        return self._pages[uuid]

    def _range(self, uuid: str) -> PowerRange:
        if uuid not in self._power:
            self._power[uuid] = PowerRange(self._settings.power)
        return self._power[uuid]

    def _longest_gap(self, interval: Nanoseconds) -> Nanoseconds:
        minimum = nanoseconds(self._settings.gap_minimum_seconds)
        return max(minimum, round(self._settings.gap_intervals * interval))

    def _forget(self, present: set[str]) -> None:
        for uuid in self._pages.keys() - present:
            del self._pages[uuid]
        self._imbalance.forget(present)
        # A board that comes back, or that a history has told of before, is the same board.
        absent = [uuid for uuid in self._power if uuid not in present]
        for uuid in absent[: max(0, len(absent) - _ABSENT_KEPT)]:
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
