"""Replay of a recording through the chain of a live node, optionally into a history on disk."""

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.accounting.accounts_snapshot import allocator_of
from rightsizer.accounting.device_record import DeviceRecord, read_with
from rightsizer.accounting.history import HistoryRepository
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.accounting.provisioning import provision
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.policy import PolicySet, apply_policies
from rightsizer.advice.rules.idle import RULE as IDLE
from rightsizer.advice.service import Recommender, configured_rules
from rightsizer.advice.settings import LedgerSettings
from rightsizer.advice.storage import Storage
from rightsizer.agent.settings import Settings
from rightsizer.io.clock import SystemClock
from rightsizer.io.files import Ownership
from rightsizer.model.values import (
    IDLE_STATES,
    NANOSECONDS_PER_SECOND,
    Advice,
    AdviceEvent,
    AdviceEventKind,
    Device,
    Entry,
    Evidence,
    EvidenceKind,
    Finding,
    HistoryError,
    Nanoseconds,
    Provisioning,
    Reason,
    Resource,
    Signal,
    State,
    Tier,
    Totals,
    Window,
    nanoseconds,
    percent_text,
    seconds,
)
from rightsizer.report.advice_document import advice_document, finding_document
from rightsizer.report.evidence import assumed_capacities
from rightsizer.telemetry.source import SnapshotSource

_FOR_EVER: Final = 100 * 365 * 86400.0
_HOLDERS: Final = {Signal.MEMORY_USED_BYTES, Signal.MEMORY_USED, Signal.PROCESS_COUNT}
_WORTH_TELLING: Final = 0.01
"""Share of the known time from which a suspected limit is told."""
_NO_TIME: Final = Window("", 0, 0)
_MAGIC: Final = b"SQLite format 3\0"
_COMPANIONS: Final = ("", "-wal", "-shm", ".lock")


class DeviceSummary(Struct, frozen=True):
    """Summary of one device of a recording."""

    device: Device
    window: Window
    totals: Totals
    provisioning: Provisioning
    assumed: tuple[str, ...] = ()
    """Capacities that neither the recording's facts nor its readings state."""
    caveats: tuple[str, ...] = ()
    """What the recording's columns cannot tell."""


class Replay(Struct, frozen=True):
    """Result of a replay."""

    devices: tuple[DeviceSummary, ...]
    """Each accounted for from its own first to its own last reading."""
    findings: tuple[Finding, ...]
    """Every rule's finding over the whole recording."""
    advice: tuple[Advice, ...]
    """Advice that the ledger would have opened, including what has closed since."""
    interval: Nanoseconds = 0
    """Time between readings."""
    evidence: tuple[Evidence, ...] = ()
    """What the result rests on."""
    needed_seconds: Mapping[str, float] = {}
    """Known time by rule that advice on what was seen takes, where a GPU has less."""

    @property
    def span(self) -> tuple[Nanoseconds, Nanoseconds]:
        """Start and end over all devices, from the first reading to the last."""
        windows = [device.window for device in self.devices if device.window.accounted] or [
            _NO_TIME
        ]
        return min(window.start for window in windows), max(window.end for window in windows)

    @property
    def coverage_ratio(self) -> float:
        """Known share of the span, over all devices together.

        Time before a device's first reading and after its last counts as unknown.
        """
        start, end = self.span
        known_seconds = total = 0.0
        for device in self.devices:
            part = device.device.capacity_ratio
            known_seconds += device.window.known_seconds * part
            total += seconds(max(end - start, device.window.accounted)) * part
        return known_seconds / total if total else 0.0


def replay(
    source: SnapshotSource,
    settings: Settings,
    *,
    sinks: Sequence[Callable[[Entry], None]] = (),
    into: Storage | None = None,
    evidence: Iterable[Evidence] = (),
) -> Replay:
    """Account for a whole recording; pass each entry in time order to `sinks`.

    `into` stores the windows, and the advice as an agent would have left it; `evidence` is that of
    reading the source.
    """
    history = None if into is None else _history(into)
    run = _ReplayRun(settings)
    policies = settings.policies_here
    while (snapshot := source.read()) is not None:
        snapshot = apply_policies(snapshot, policies)
        for entry in run.accounts.post(snapshot):
            for sink in sinks:
                sink(entry)
        closed = run.accounts.drain_closed()
        if history is not None and closed:
            history.save(closed, run.accounts.device_records())
        run.recommend(snapshot.wall_time, snapshot.interval)
    if history is not None:
        history.save(run.accounts.open_windows(), run.accounts.device_records())
    result = run.result(evidence)
    if into is not None:
        into.save_ledger(run.ledger, run.pending_events())
    return result


class _ReplayRun:
    def __init__(self, settings: Settings) -> None:
        self.accounts = NodeAccounts(settings.accounting, is_often_judged=True)
        self._provisioning = settings.accounting.provisioning
        self._rules = configured_rules(settings)
        guidance = PolicySet(settings.policies_here)
        self._recommender = Recommender(self.accounts, self._rules, guidance, SystemClock())
        # No limit: advice opened at any time of a long recording stays in the result.
        kept = replace(settings.recommender.ledger, closed_kept_seconds=_FOR_EVER)
        self.ledger = Ledger((), kept)
        self._settings = settings.recommender
        self._interval = nanoseconds(self._settings.interval)
        self._reading_interval: Nanoseconds = 0
        self._due: Nanoseconds | None = None
        self._now: Nanoseconds = 0
        self._opened: list[AdviceEvent] = []

    def recommend(self, now: Nanoseconds, interval: Nanoseconds) -> None:
        """Judge as often as an agent would; less often if readings are far apart."""
        self._now = now
        if self._reading_interval != interval:
            self._reading_interval = interval
            sparse = self._settings.readings_per_run * interval
            longest = nanoseconds(self._settings.longest_interval)
            self._interval = max(nanoseconds(self._settings.interval), min(sparse, longest))
        if self._due is None:
            self._due = now + self._interval
        if now >= self._due:
            self._judge(now)

    def _judge(self, now: Nanoseconds) -> None:
        self._due = now + self._interval
        judgements = self._recommender.run(self.ledger.advice(), now).judgements
        self._opened += [
            event
            for event in self.ledger.update(judgements, now)
            if event.kind is AdviceEventKind.OPENED
        ]

    def pending_events(self) -> tuple[AdviceEvent, ...]:
        """Return the opening events of still open advice, for the next program to deliver."""
        still_open = {advice.id for advice in self.ledger.advice() if advice.is_open}
        latest = {event.advice.id: event for event in self._opened}
        return tuple(event for event in latest.values() if event.advice.id in still_open)

    def result(self, evidence: Iterable[Evidence]) -> Replay:
        """Return the result after the last snapshot; the end of the recording is always judged."""
        if self._due != self._now + self._interval:
            self._judge(self._now)
        records = {record.device.uuid: record for record in self.accounts.device_records()}
        devices = tuple(
            self._summary(device, records.get(device.uuid))
            for device in self.accounts.devices
            if not device.has_mig_instances
        )
        judged = (
            item
            for device in devices
            for item in _evidence(device, records.get(device.device.uuid))
        )
        return Replay(
            devices=devices,
            findings=self._recommender.over_all(self._now),
            advice=self.ledger.advice(),
            interval=self._reading_interval,
            evidence=(
                *evidence,
                *assumed_capacities((device.device, device.assumed) for device in devices),
                *judged,
            ),
            needed_seconds=self._needed_seconds(devices),
        )

    def _needed_seconds(self, devices: Iterable[DeviceSummary]) -> dict[str, float]:
        """Return what opening advice takes by rule, where less is known of a GPU.

        Of an idle GPU only its idleness matters, else what could not be judged for lack of time.
        """
        idle = {summary.device.uuid for summary in devices if _is_mostly_idle(summary.window)}
        return {
            judgement.finding.rule: judgement.conduct.minimum_known_seconds
            for judgement in self._recommender.judgements
            if judgement.known_seconds < judgement.conduct.minimum_known_seconds
            and (
                judgement.finding.rule == IDLE.name
                if idle.issuperset(judgement.finding.devices)
                else Reason.INSUFFICIENT_DATA in judgement.finding.reasons
            )
        }

    def _summary(self, device: Device, record: DeviceRecord | None) -> DeviceSummary:
        """Return the account of a device, and what its last reading did not state."""
        account = self.accounts.device(device.uuid)
        reading = None if record is None else record.reading
        signals = {} if reading is None else reading.values
        assumed = read_with(device, signals).assumed
        window = account.whole.window()
        totals = account.totals.totals()
        # Over the whole recording, as in a report; current needs are for the rules.
        fit = provision(window, allocator_of(account.tenancy.holder), self._provisioning)
        has_holder = account.tenancy.holder is not None
        caveats = tuple(_caveats(device, window, signals, has_holder=has_holder))
        return DeviceSummary(device, window, totals, fit, assumed, caveats)


def _is_mostly_idle(window: Window) -> bool:
    idle = sum(window.states.get(state, 0) for state in IDLE_STATES)
    return 2 * idle > window.accounted


def _evidence(summary: DeviceSummary, record: DeviceRecord | None) -> Iterator[Evidence]:
    """Yield what the account of a device rests on."""
    device = summary.device
    for caveat in summary.caveats:
        yield Evidence(EvidenceKind.ASSUMED, device.title, effect=caveat)
    power = None if record is None else record.power
    if power is not None and power.idle_watts is not None:
        reason = f"drawn in {power.empty_seconds:.0f} empty seconds"
        subject = f"{device.title}: idle power {power.idle_watts:.0f} W"
        yield Evidence(EvidenceKind.LEARNED, subject, reason)
    signals = ", ".join(sorted(summary.totals.distributions))
    count = len(summary.totals.distributions)
    yield Evidence(EvidenceKind.READ, f"{device.title}: {signals or 'nothing'}", count=count)


def _caveats(
    device: Device, window: Window, signals: Collection[Signal], *, has_holder: bool
) -> Iterator[str]:
    is_held = has_holder or Resource.MEMORY in window.demands
    if State.IDLE_HELD in window.states and not is_held and _HOLDERS.isdisjoint(signals):
        yield "held by what is not known: without memory and processes it may be empty"
    suspected = window.second_causes.get(State.MEMORY_BANDWIDTH_BOUND, 0)
    if window.tier is not Tier.PROFILING and suspected >= _WORTH_TELLING * window.known > 0:
        share = percent_text(suspected / window.accounted)
        yield (
            f"probably bound by memory bandwidth {share} of the time, by the memory controller's "
            f"utilization alone ({window.tier} tier)"
        )
    if window.tier is not Tier.BASIC or State.PRODUCTIVE not in window.states:
        return
    if Signal.POWER_WATTS not in signals:
        yield "without power a GPU that spins looks like one that works"
    elif device.power_limit_watts is None and Signal.POWER_LIMIT_WATTS not in signals:
        yield "power without its limit shows no stall: name the board with --board"


def replay_document(result: Replay) -> dict[str, object]:
    """Return the replay as one document."""
    start, end = map(seconds, result.span)
    return {
        "interval_seconds": seconds(result.interval),
        "span": {"start": start, "end": end, "coverage_ratio": result.coverage_ratio},
        "evidence": result.evidence,
        "devices": [*map(_device_document, result.devices)],
        "findings": [*map(finding_document, result.findings)],
        "advice": [*map(advice_document, result.advice)],
    }


def _device_document(summary: DeviceSummary) -> dict[str, object]:
    device = summary.device
    window = summary.window
    fit = summary.provisioning
    return {
        "uuid": device.uuid,
        "index": device.stated_index,
        "name": device.name or None,
        "tier": window.tier,
        "assumed": summary.assumed,
        "caveats": summary.caveats,
        "seconds": seconds(window.accounted),
        "states": _times(window.states),
        "second_causes": _times(window.second_causes),
        "unknown_reasons": _times(window.unknown_reasons),
        "conditions": _times(window.conditions),
        "waste": dict(sorted(window.waste_seconds.items())),
        "used_seconds": window.used_seconds,
        "effective_utilization": window.effective_utilization,
        "headroom_ratio": window.headroom_ratio,
        **_energy(summary),
        "signals": _signals(summary.totals),
        "needs": _by_resource(fit, "need"),
        "overprovisioned": fit.overprovisioned,
        "saturated": _by_resource(fit, "saturated"),
        "underprovisioned": fit.underprovisioned,
    }


def _times(spent: Mapping[Any, Nanoseconds]) -> dict[Any, float]:
    return {name: seconds(time) for name, time in sorted(spent.items())}


def _energy(summary: DeviceSummary) -> dict[str, object]:
    """Return joules; null if neither power nor energy was ever read."""
    window = summary.window
    is_measured = window.energy_joules > 0.0 or bool(summary.totals.energy_joules)
    return {
        "waste_joules": dict(sorted(window.waste_joules.items())) if is_measured else None,
        "used_joules": window.used_joules if is_measured else None,
        "energy_joules": window.energy_joules if is_measured else None,
    }


def _signals(totals: Totals) -> dict[Signal, object]:
    return {
        signal: {
            "mean": totals.signal_seconds[signal] * NANOSECONDS_PER_SECOND / histogram.total,
            "p50": histogram.quantile(0.5),
            "p95": histogram.quantile(0.95),
            "p99": histogram.quantile(0.99),
            "max": histogram.maximum(),
        }
        for signal, histogram in sorted(totals.distributions.items())
    }


def _by_resource(fit: Provisioning, what: str) -> dict[Resource, float]:
    values = {
        resource: getattr(provisioning, what) for resource, provisioning in fit.resources.items()
    }
    return {resource: value for resource, value in sorted(values.items()) if value is not None}


@contextlib.contextmanager
def filled_history(path: Path) -> Iterator[Storage]:
    """Yield a history written beside the file, which replaces or joins it once complete.

    An existing history keeps its windows and advice, and is locked against other processes
    meanwhile.

    Raises:
        HistoryError: the file is no history, is held by an agent, or cannot be written.
    """
    target = _unbounded(path) if _is_history(path) else None
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with contextlib.ExitStack() as stack:
        stack.callback(_clear, partial)
        if target is not None:
            stack.callback(target.close)
        try:
            # A partial file is discarded, so durability is not needed.
            storage = _unbounded(partial, is_durable=False)
        except HistoryError as error:
            raise HistoryError(str(error).replace(str(partial), str(path))) from None
        stack.callback(storage.close)
        if target is None:
            try:
                # Locked: an agent that created one here meanwhile would have its file replaced.
                stack.callback(Ownership(path).release, remove=True)
            except OSError as error:
                raise HistoryError(f"history '{path}' cannot be written: {error}") from None
        yield storage
        if target is not None:
            _history(target).replace(_history(storage))
            settings = LedgerSettings()
            if not target.ledger(settings).advice():
                ledger = storage.ledger(settings)
                target.save_ledger(ledger, storage.pending_events)
        storage.close()
        # A recording without devices leaves no file.
        if target is None and partial.exists():
            _to_disk(partial)
            partial.replace(path)


def _clear(partial: Path) -> None:
    for companion in _COMPANIONS:
        # Names too long for the file system do not exist either.
        with contextlib.suppress(OSError):
            partial.with_name(f"{partial.name}{companion}").unlink()


def _unbounded(path: Path, *, is_durable: bool = True) -> Storage:
    """Open a storage without size limit, for recordings of any length."""
    return Storage(str(path), is_durable=is_durable, maximum_bytes=None)


def _is_history(path: Path) -> bool:
    """Whether the file is a database; an agent would set aside what is none."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise HistoryError(
            f"history '{path}' cannot be read: {error.strerror}; name another file"
        ) from None
    if head != _MAGIC:
        raise HistoryError(f"'{path}' is there and is no history; name another file")
    return True


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _history(storage: Storage) -> HistoryRepository:
    if storage.history is None:  # Only for an empty path, and this one names a file.
        raise HistoryError("no history is kept; name a file")
    return storage.history
