"""Builder of entries from snapshots; each device's time is accounted for exactly once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from rightsizer.accounting.classification import StateMatch, classify, looks_stalled
from rightsizer.accounting.conditions import ConditionInput, ImbalanceDetector, conditions, job_of
from rightsizer.accounting.device_state import DeviceState
from rightsizer.accounting.power import LearnedPower, PowerRange
from rightsizer.accounting.settings import EntrySettings
from rightsizer.accounting.signals import (
    DeviceUsage,
    StateEvidence,
    clock_ratio,
    derive_signals,
    has_dead_counters,
    usage,
    waste,
)
from rightsizer.model.members import members
from rightsizer.model.values import (
    Allocator,
    Condition,
    Device,
    Entry,
    Holding,
    Nanoseconds,
    Observation,
    Reading,
    Signal,
    Snapshot,
    State,
    nanoseconds,
)

_Signal = members(Signal)
_State = members(State)
_Allocator = members(Allocator)

_NONE: Final[frozenset[Observation]] = frozenset()
_NO_CONDITIONS: Final[frozenset[Condition]] = frozenset()
_OBSERVED: Final = {
    (False, False): _NONE,
    (True, False): frozenset({Observation.LOAD_CYCLES}),
    (False, True): frozenset({Observation.RANKS}),
    (True, True): frozenset({Observation.LOAD_CYCLES, Observation.RANKS}),
}
"""Observations by whether load cycles were resolved and ranks were compared."""
_ABSENT_KEPT: Final = 64
"""Maximum power ranges of absent boards; MIG reconfiguration creates new uuids each time."""


class _Interval(NamedTuple):
    start: Nanoseconds
    end: Nanoseconds
    steady_end: Nanoseconds
    """`end` as monotonic time; the others are wall time."""


class EntryBuilder:
    """Turns snapshots into entries; keeps each device's last reading and power range."""

    def __init__(self, settings: EntrySettings | None = None) -> None:
        self._settings = settings or EntrySettings()
        self._posted_devices: Sequence[Device] | None = None
        self._devices: Sequence[Device] = ()
        """Those with states of their own."""
        self._states: dict[str, DeviceState] = {}
        self._power: dict[str, PowerRange] = {}
        self._imbalance = ImbalanceDetector(self._settings.imbalance)

    def restore_power(self, uuid: str, learned: LearnedPower | None) -> None:
        """Restore a device's learned power range from the history."""
        if learned is not None:
            self._power_range(uuid).restore(learned)

    def learned_power(self, uuid: str) -> LearnedPower | None:
        """Learned power range of a device, or `None`."""
        return self._power[uuid].learned() if uuid in self._power else None

    def integral_joules(self, uuid: str) -> float | None:
        """Energy by power of a device without a counter, since its first reading, or `None`."""
        state = self._states.get(uuid)
        return None if state is None else state.meter.integral_joules

    def post(self, snapshot: Snapshot) -> list[Entry]:
        """Account for one snapshot; return its entries in device order.

        A reading accounts for the time since the device's previous one; anything beyond the
        maximum gap is `unknown`. A device that is down is `unknown` from its last reading on, or
        from the first snapshot if the driver is away, without a minimum gap. A silent device
        becomes `unknown` only when it is read again, so that a recording's device ends with its
        last reading. The first reading of a device accounts for nothing.
        """
        if snapshot.devices is not self._posted_devices:
            self._posted_devices = snapshot.devices
            self._devices = [device for device in snapshot.devices if not device.has_mig_instances]
            self._forget({device.uuid for device in self._devices})
        devices = self._devices
        self._imbalance.judge(snapshot.time)
        evidences = {
            device.uuid: self._evidence(snapshot, device, reading)
            for device in devices
            if (reading := snapshot.readings.get(device.uuid)) is not None
        }
        self._mark_stalled_peers(snapshot, evidences)
        minimum = nanoseconds(self._settings.gap_minimum_seconds)
        entries: list[Entry] = []
        for device in devices:
            interval = snapshot.intervals.get(device.uuid, snapshot.interval)
            longest_gap = max(minimum, round(self._settings.gap_intervals * interval))
            entries += self._post_device(snapshot, device, evidences.get(device.uuid), longest_gap)
        return entries

    def _post_device(
        self,
        snapshot: Snapshot,
        device: Device,
        evidence: StateEvidence | None,
        longest_gap: Nanoseconds,
    ) -> Iterator[Entry]:
        uuid = device.uuid
        reading = snapshot.readings.get(uuid)
        state = self._state(uuid)
        now = snapshot.time if reading is None else reading.time
        down = snapshot.down.get(uuid)
        if reading is None and down is None:
            return
        if state.accounted is None:
            # A driver that is away has no first reading; one that begins will have it soon.
            if reading is not None or (down is not None and down.is_of_driver):
                state.accounted = now
            if reading is not None:
                state.meter.restart(reading.get(_Signal.ENERGY_JOULES))
            return
        known_from = now if reading is None else max(state.accounted, now - longest_gap)
        start = snapshot.wall_time_of(known_from)
        if known_from > state.accounted:
            yield Entry(uuid, snapshot.wall_time_of(state.accounted), start)
            state.accounted = known_from
            state.meter.interrupt()
        if evidence is not None and now > known_from:
            interval = _Interval(start, start + now - known_from, now)
            yield self._entry(snapshot, device, state, interval, evidence)
            state.accounted = now

    def _entry(
        self,
        snapshot: Snapshot,
        device: Device,
        state: DeviceState,
        interval: _Interval,
        evidence: StateEvidence,
    ) -> Entry:
        uuid = device.uuid
        signals = evidence.signals
        duration = interval.end - interval.start
        match, used = self._classification(device, state, evidence)
        is_known = match.state is not _State.UNKNOWN
        holdings = snapshot.holdings.get(uuid, ())
        present = _NO_CONDITIONS
        if is_known:
            present = self._conditions(device, state, holdings, interval, evidence)
        watts = signals.get(_Signal.POWER_WATTS)
        energy = state.meter.measure(
            duration,
            watts,
            signals.get(_Signal.ENERGY_JOULES),
            signals.get(_Signal.POWER_LIMIT_WATTS, device.power_limit_watts),
        )
        pressed = state.pressure.update(
            interval.steady_end, signals, used.saturated, present, snapshot.xids.get(uuid)
        )
        if watts is not None:
            self._power_range(uuid).account(watts, match.state, duration)
        return Entry(
            uuid=uuid,
            start=interval.start,
            end=interval.end,
            state=match.state,
            unknown_reason=match.unknown_reason,
            second_cause=match.second_cause,
            score=match.score,
            conditions=present,
            tier=evidence.layout.tier,
            signals=signals,
            shares=used.shares,
            compute_at_least=used.compute_at_least,
            saturated=used.saturated if is_known else frozenset(),
            pressed=pressed if is_known else frozenset(),
            used_ratio=used.used_ratio if is_known else None,
            waste=waste(match.state, present, used.used_ratio, evidence.clock_ratio, evidence.busy),
            energy_joules=None if energy is None else energy.joules,
            energy_source=None if energy is None else energy.source,
            cycle=state.cycles.update(duration, evidence.busy if is_known else None),
            observed=self._observed(state, evidence, uuid, duration) if is_known else _NONE,
        )

    def _observed(
        self, state: DeviceState, evidence: StateEvidence, uuid: str, duration: Nanoseconds
    ) -> frozenset[Observation]:
        sees_cycles = evidence.busy is not None and state.cycles.resolves(duration)
        return _OBSERVED[sees_cycles, self._imbalance.compares(uuid)]

    def _conditions(
        self,
        device: Device,
        state: DeviceState,
        holdings: tuple[Holding, ...],
        interval: _Interval,
        evidence: StateEvidence,
    ) -> frozenset[Condition]:
        settings = self._settings.conditions
        signals = evidence.signals
        end = interval.steady_end
        duration = interval.end - interval.start
        job = job_of(device, holdings)
        link_generation = state.link.update(
            end,
            duration,
            signals.get(_Signal.PCIE_LINK_GENERATION),
            is_loaded=(evidence.busy or 0.0) >= settings.load_busy_ratio,
        )
        is_out_of_balance = job is not None and self._imbalance.holds(device.uuid)
        self._imbalance.add(device, job, end, duration, signals)
        allocator = _allocator(holdings)
        return conditions(
            ConditionInput(evidence, device, allocator, link_generation, is_out_of_balance),
            settings,
        )

    def _evidence(self, snapshot: Snapshot, device: Device, reading: Reading) -> StateEvidence:
        power = self._power_range(device.uuid)
        if (watts := reading.get(_Signal.POWER_WATTS)) is not None:
            power.observe(watts)
        limit = device.power_limit_watts or reading.get(_Signal.POWER_LIMIT_WATTS)
        idle_watts = power.idle_watts(limit)
        state = self._state(device.uuid)
        read = (reading.values, device, snapshot.host, idle_watts, state.has_dead_counters)
        # Readings repeat, especially of idle devices: reuse the evidence.
        if state.read is not None and state.read[0] == read:
            return state.read[1]
        signals = derive_signals(
            reading,
            device,
            snapshot.host,
            idle_watts,
            self._settings.signals,
            counters_were_dead=state.has_dead_counters,
        )
        state.has_dead_counters = has_dead_counters(reading, signals)
        total = signals.get(_Signal.MEMORY_TOTAL_BYTES, device.memory_total_bytes)
        evidence = StateEvidence(signals, total, clock_ratio=clock_ratio(signals, device))
        state.read = read, evidence
        return evidence

    def _classification(
        self, device: Device, state: DeviceState, evidence: StateEvidence
    ) -> tuple[StateMatch, DeviceUsage]:
        peer_stalls = evidence.values["peer_stalls"]
        if (judged := state.judged) is None or judged[:2] != (evidence, peer_stalls):
            match = classify(evidence, self._settings.classify)
            used = usage(evidence, device, self._settings.usage)
            state.judged = judged = (evidence, peer_stalls, match, used)
        return judged[2:]

    def _mark_stalled_peers(
        self, snapshot: Snapshot, evidence_by_uuid: Mapping[str, StateEvidence]
    ) -> None:
        by_workload: dict[str, set[str]] = {}
        for uuid, evidence in evidence_by_uuid.items():
            if looks_stalled(evidence, self._settings.classify):
                for holding in snapshot.holdings.get(uuid, ()):
                    by_workload.setdefault(holding.workload.key, set()).add(uuid)
        groups = (uuids for uuids in by_workload.values() if len(uuids) > 1)
        stalled = frozenset().union(*groups)
        for uuid, evidence in evidence_by_uuid.items():
            evidence.values["peer_stalls"] = uuid in stalled

    def _state(self, uuid: str) -> DeviceState:
        if uuid not in self._states:
            self._states[uuid] = DeviceState(self._settings)
        return self._states[uuid]

    def _power_range(self, uuid: str) -> PowerRange:
        if uuid not in self._power:
            self._power[uuid] = PowerRange(self._settings.power)
        return self._power[uuid]

    def _forget(self, present: set[str]) -> None:
        for uuid in self._states.keys() - present:
            del self._states[uuid]
        self._imbalance.forget(present)
        # Keep ranges of absent boards: a board may return, or be known from the history.
        absent = [uuid for uuid in self._power if uuid not in present]
        for uuid in absent[: max(0, len(absent) - _ABSENT_KEPT)]:
            del self._power[uuid]


def _allocator(holdings: tuple[Holding, ...]) -> Allocator:
    """Memory allocation strategy on a device; preallocating if any holder preallocates."""
    if len(holdings) == 1:
        return holdings[0].workload.allocator
    kinds = {holding.workload.allocator for holding in holdings}
    if _Allocator.PREALLOCATING in kinds:
        return _Allocator.PREALLOCATING
    return _Allocator.GROWING if kinds == {_Allocator.GROWING} else _Allocator.UNKNOWN
