"""Facts of a report, read from a history on disk while an agent may be writing it."""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer import __version__
from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.accounting.history import HistoryRepository, HolderPeriod
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.advice.engine import actionable
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.market import Market
from rightsizer.advice.service import configured_market
from rightsizer.advice.storage import Storage
from rightsizer.agent.offline_advice import findings_over, run_offline
from rightsizer.agent.settings import Settings
from rightsizer.model.values import (
    JOULES_PER_KILOWATT_HOUR,
    NANOSECONDS_PER_SECOND,
    Advice,
    Allocator,
    HistoryError,
    Nanoseconds,
    State,
    UsageError,
    Window,
    seconds,
)
from rightsizer.report.facts import (
    Gap,
    ReportDeviceFacts,
    ReportFacts,
    RuleFacts,
    Slice,
    WorkloadFacts,
    price_rate,
)

_HOUR: Final = 3600 * NANOSECONDS_PER_SECOND
_USUAL_SPAN: Final = 7 * 24 * _HOUR
_LONGEST_SPAN: Final = 366 * 24 * _HOUR
_LEAST_GAP: Final = 60 * NANOSECONDS_PER_SECOND
"""Shorter gaps are not reported: two clocks are read between windows, and a start takes time."""


class ReportQuery(Struct, frozen=True):
    """Span of a history, and its calendar."""

    since: Nanoseconds | None = None
    until: Nanoseconds | None = None
    """`None` for the end of the history."""
    last: Nanoseconds | None = None
    """Length of the span before its end, instead of `since`."""
    timezone: dt.tzinfo = dt.UTC
    timezone_name: str = "UTC"


@dataclass(slots=True)
class _Sums:
    windows: dict[str, WindowBuilder] = field(default_factory=dict)
    """By device, or by the key of a workload."""
    slices: dict[str, dict[Nanoseconds, Counter[State]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Counter))
    )
    gaps: list[Gap] = field(default_factory=list)


def report_facts(path: Path, settings: Settings, query: ReportQuery) -> ReportFacts:
    """Return all facts of a report.

    Raises:
        HistoryError: there is no history, it is empty, or it cannot be read.
        UsageError: the span ends before it begins, or is longer than any history can be.
    """
    with closing(Storage(str(path), read_only=True)) as storage:
        history = storage.kept_history
        if (extent := history.extent()) is None:
            what = f"history '{path}' is empty; let the agent run for a while first"
            raise HistoryError(f"{what}, or name it with --url")
        since, until = _span(query, *extent)
        sums = _read(history, since, until)
        devices = history.devices()
        tenures = history.tenures()
        is_latest = until >= extent[1]
        read_then = devices if is_latest else tuple(map(_without_reading, devices))
        findings = findings_over(read_then, history.load(since, until), settings)
        ledger = storage.ledger(settings.recommender.ledger)
    tenures = tuple(tenure for tenure in tenures if tenure.since < until and tenure.seen > since)
    advice, is_judged_now = _advice(path, settings, ledger, is_latest=is_latest)
    return ReportFacts(
        since=since,
        until=until,
        history_start=extent[0],
        history_end=extent[1],
        devices=_devices(devices, tenures, sums, settings),
        workloads=tuple(_workloads(tenures, sums)),
        advice=advice,
        findings=actionable(findings),
        rules=tuple(_rules(ledger)),
        gaps=tuple(sums.gaps),
        timezone=query.timezone,
        timezone_name=query.timezone_name,
        is_judged_now=is_judged_now,
        version=__version__,
    )


def _without_reading(record: DeviceRecord) -> DeviceRecord:
    """Remove the last reading, which says nothing about an earlier span."""
    return replace(record, reading=None, xids=None, holdings=(), topology=None)


def _span(
    query: ReportQuery, first: Nanoseconds, end: Nanoseconds
) -> tuple[Nanoseconds, Nanoseconds]:
    """Round to whole hours, the resolution of an old history; its own end stays exact."""
    until = end if query.until is None else -(-query.until // _HOUR) * _HOUR
    since = max(until - _USUAL_SPAN, first) if query.last is None else until - query.last
    since = since if query.since is None else query.since
    since -= since % _HOUR
    if since < first <= since + _HOUR:
        since = first  # The history begins within this hour, so nothing is missing.
    if until <= since:
        fault = "--to: is not after --from, so that nothing lies between them"
        late = "--from: lies after the end of the history; name an earlier time"
        raise UsageError(late if query.until is None else fault)
    if until - since > _LONGEST_SPAN:
        raise UsageError(
            "--from: lies more than 366 days before the end of the report; no history goes so far "
            "back, name a later time"
        )
    return since, until


def _read(history: HistoryRepository, since: Nanoseconds, until: Nanoseconds) -> _Sums:
    sums = _Sums()
    reached = since
    for window in history.load(since, until):
        if (builder := sums.windows.get(window.uuid)) is None:
            builder = sums.windows[window.uuid] = WindowBuilder(window.uuid, keeps_blocks=False)
        builder.merge(window)
        if window.workload_key is not None:
            continue
        hour = max(since, window.start - window.start % _HOUR)
        sums.slices[window.uuid][hour].update(window.states)
        if window.start - reached >= _LEAST_GAP:
            sums.gaps.append(Gap(seconds(reached), seconds(window.start)))
        reached = max(reached, window.end)
    if until - reached >= _LEAST_GAP:
        sums.gaps.append(Gap(seconds(reached), seconds(until)))
    return sums


def _devices(
    records: tuple[DeviceRecord, ...],
    tenures: tuple[HolderPeriod, ...],
    sums: _Sums,
    settings: Settings,
) -> tuple[ReportDeviceFacts, ...]:
    market = configured_market(settings)
    return tuple(
        _device(device, tenures, sums, settings, market)
        for device in records
        # A parent of MIG instances has no state, unless windows precede its division.
        if device.device.uuid in sums.windows or not device.device.has_mig_instances
    )


def _device(
    record: DeviceRecord,
    tenures: tuple[HolderPeriod, ...],
    sums: _Sums,
    settings: Settings,
    market: Market,
) -> ReportDeviceFacts:
    device = record.device_as_read
    builder = sums.windows.get(device.uuid)
    window = Window(device.uuid, 0, 0) if builder is None else builder.window()
    holders = [tenure.workload for tenure in tenures if tenure.uuid == device.uuid]
    is_same = record.holder is not None and set(holders) <= {record.holder.key}
    allocator = record.holder.allocator if record.holder and is_same else Allocator.UNKNOWN
    return ReportDeviceFacts(
        device=device,
        window=window,
        provisioning=provision(window, allocator, settings.accounting.provisioning),
        slices=tuple(
            Slice(start, dict(states)) for start, states in sorted(sums.slices[device.uuid].items())
        ),
        workloads=tuple(dict.fromkeys(holders)),
        rate=price_rate(market, device.board),
    )


def _workloads(tenures: tuple[HolderPeriod, ...], sums: _Sums) -> Iterator[WorkloadFacts]:
    for _, builder in sorted(sums.windows.items()):
        window = builder.window()
        if (key := window.workload_key) is not None:
            held = (tenure.uuid for tenure in tenures if tenure.workload == key)
            yield WorkloadFacts(key, window, tuple(dict.fromkeys(held)))


def _advice(
    path: Path, settings: Settings, ledger: Ledger, *, is_latest: bool
) -> tuple[tuple[Advice, ...], bool]:
    """Return the ledger's advice, or that of a run now if it is empty, as after a replay."""
    if (advice := ledger.advice()) or not is_latest:
        return advice, False
    return run_offline(path, settings).advice, True


def _rules(ledger: Ledger) -> Iterator[RuleFacts]:
    for tally in ledger.track_record.tallies:
        yield RuleFacts(
            tally.rule,
            tally.reason,
            dict(tally.outcomes),
            tally.realized_gpu_hours,
            tally.realized_joules / JOULES_PER_KILOWATT_HOUR,
        )
