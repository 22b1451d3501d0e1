"""View of a node's page: GPUs, workloads, advice."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer import __version__
from rightsizer.model.values import (
    ACTIVE_STATES,
    JOULES_PER_KILOWATT_HOUR,
    Advice,
    Blocks,
    Device,
    DeviceSpan,
    Nanoseconds,
    Report,
    Span,
    State,
    Totals,
    WorkloadClass,
    WorkloadReport,
    dollars_text,
    elapsed_text,
    format_duration,
    percent_text,
    seconds,
)
from rightsizer.report.freshness import FreshnessSettings, fresh_devices
from rightsizer.report.labels import MomentLabel, display_name, moment_label
from rightsizer.report.rows import WorkloadRow
from rightsizer.web.page_query import NodePast, PageQuery, is_unknown, selected_uuids
from rightsizer.web.settings import FitSettings
from rightsizer.web.view.device import DeviceContext, DevicePast
from rightsizer.web.view.overview import OverviewRow, OverviewTable, advised
from rightsizer.web.view.signals import DrawnPast, SignalChart, drawn_past, signal_charts
from rightsizer.web.view.strip import COARSE, FINE, Share, shares_of, spans_of_report, state_times
from rightsizer.web.view.topology import TopologyView, topology_view
from rightsizer.web.view.totals import (
    DeviceCounts,
    Spending,
    WasteView,
    device_counts,
    waste_view,
)


class WorkloadView(WorkloadRow, frozen=True, kw_only=True):
    """Row of a workload, which may be gone."""

    opened: tuple[Advice, ...] = ()
    """Open advice, most urgent first."""
    ended: None = None
    """Only rows of GPUs tell what is over."""
    left: MomentLabel | None
    """When it was last seen, `None` if present."""


def workload_rows(
    report: Report, names: Mapping[str, str], now: Nanoseconds
) -> tuple[WorkloadView, ...]:
    """Return all workloads active since the agent started, most time first."""
    held = _held(report)
    workload_reports = [
        workload
        for workload in report.workloads
        if _known_seconds(workload) or workload.workload.key in held
    ]
    total = sum(map(_known_seconds, workload_reports))
    workload_reports.sort(
        key=lambda workload_report: (
            workload_report.workload.key not in held,
            -_known_seconds(workload_report),
        )
    )
    return tuple(
        _row(workload_report, report.advice, held, names, total, now)
        for workload_report in workload_reports
    )


def _row(  # noqa: PLR0913, PLR0917 - what the rows of a report share.
    report: WorkloadReport,
    advice: Iterable[Advice],
    held: Mapping[str, Mapping[str, float]],
    names: Mapping[str, str],
    total_seconds: float,
    now: Nanoseconds,
) -> WorkloadView:
    workload = report.workload
    totals = report.totals
    known_seconds = _known_seconds(report)
    busy = sum(totals.state_seconds.get(state, 0.0) for state in ACTIVE_STATES)
    joules = totals.used_joules + sum(totals.waste_joules.values())
    waste = waste_view([Spending(totals)])
    is_unknown_class = workload.workload_class is WorkloadClass.UNKNOWN
    about = (piece for piece in advice if piece.finding.workload == workload.key)
    opened = sorted(
        (piece for piece in about if piece.is_open), key=lambda piece: piece.finding.rank
    )
    return WorkloadView(
        title=workload.key,
        gpus=_devices(report, held.get(workload.key, {}), names),
        workload_class="" if is_unknown_class else display_name(workload.workload_class),
        busy_ratio=busy / known_seconds if known_seconds else None,
        held_ratio=known_seconds / total_seconds if total_seconds else None,
        kilowatt_hours=joules / JOULES_PER_KILOWATT_HOUR if joules else None,
        opened=tuple(opened),
        left=None if workload.key in held else moment_label(report.last_seen, now),
        use=waste.use,
        **(advised(opened, names) if opened else {}),
    )


def _known_seconds(report: WorkloadReport) -> float:
    states = report.totals.state_seconds
    return sum(states.values()) - states.get(State.UNKNOWN, 0.0)


def _held(report: Report) -> dict[str, dict[str, float]]:
    held: dict[str, dict[str, float]] = {}
    for device in report.devices:
        for holding in device.holdings:
            shares = held.setdefault(holding.workload.key, {})
            shares[device.device.uuid] = holding.share_ratio
    return held


def _devices(report: WorkloadReport, shares: Mapping[str, float], names: Mapping[str, str]) -> str:
    parts = []
    gone = 0
    for uuid in shares or report.devices:
        if uuid not in names:
            gone += 1
            continue
        name = names[uuid]
        share = shares.get(uuid, 1.0)
        parts.append(name if share >= 1 else f"{name} ({percent_text(share)})")
    return ", ".join([*parts, f"{gone} gone"] if gone else parts)


_HARDLY_KNOWN_RATIO: Final = 0.5
"""Share of a span, below which the headline states how much of it is known."""
_CARDS_MOST: Final = 2
"""More devices than this are table rows; each has a card on its own page."""
_FINE_MOST: Final = 12
"""More devices than this have coarse strips, to limit the size of the page."""
_NOTHING: Final = DeviceSpan(())


class NodeView(Struct, frozen=True):
    """Values for the template."""

    report: Report | None
    version: str
    headline: str
    trouble: str = ""
    is_unknown: bool = False
    """Whether the selected GPU or workload is none of the node's."""
    interval: str = ""
    time: MomentLabel | None = None
    counts: DeviceCounts | None = None
    shares: tuple[Share, ...] = ()
    """Of the span, over all devices."""
    waste: WasteView | None = None
    waste_since: str = ""
    """Time over which the waste is summed."""
    names: Mapping[str, str] = {}
    """Device titles, by uuid."""
    advice: tuple[Advice, ...] = ()
    closed: tuple[Advice, ...] = ()
    overview: tuple[OverviewRow, ...] = ()
    cards: tuple[OverviewRow, ...] = ()
    """Devices shown in detail: a selected GPU, or those of a small node."""
    topology: TopologyView | None = None
    workloads: tuple[WorkloadView, ...] = ()
    selected: str = ""
    """The selected GPU or workload; empty for all."""
    past: DrawnPast | None = None
    signals: tuple[SignalChart, ...] = ()
    """Of all devices of a selected workload together."""


def node_view(  # noqa: PLR0913, PLR0917 - the report, the clock, and display settings.
    report: Report | None,
    now: Nanoseconds,
    freshness: FreshnessSettings,
    fit: FitSettings,
    query: PageQuery,
    past: NodePast | None = None,
) -> NodeView:
    """Return the page of a report, or of its selected GPU or workload."""
    if report is None:
        return NodeView(
            report=None,
            version=__version__,
            headline="Starting",
            trouble="No sample has been taken yet; the page will fill within seconds.",
        )
    if is_unknown(report, query):
        name = f"workload '{query.workload}'" if query.workload else f"GPU '{query.gpu}'"
        return NodeView(
            report=None,
            version=report.agent.version,
            headline="Not found",
            trouble=f"There is no {name} here.",
            is_unknown=True,
        )
    past = past or NodePast(spans_of_report(report, query.span))
    return _NodePage(report, now, freshness, fit, query, past).view()


class _NodePage:
    def __init__(  # noqa: PLR0913, PLR0917 - as of the function above.
        self,
        report: Report,
        now: Nanoseconds,
        freshness: FreshnessSettings,
        fit: FitSettings,
        query: PageQuery,
        past: NodePast,
    ) -> None:
        self._report = report
        self._now = now
        self._past = past
        self._query = query
        self._fresh = fresh_devices(report, now, freshness)
        self._names = {device.device.uuid: device.device.title for device in report.devices}
        self._chosen = selected_uuids(report, query)
        self._workload = query.workload if self._chosen else ""
        shown = (e for e in report.devices if not self._chosen or e.device.uuid in self._chosen)
        self._shown = replace(report, devices=tuple(shown))
        self._counted = [
            device for device in self._shown.devices if not device.device.has_mig_instances
        ]
        is_dense = len(report.devices) > _FINE_MOST and not self._chosen
        grain = COARSE if is_dense else FINE
        zoom = query.zoom if self._chosen and past.detail is not None else None
        self._context = DeviceContext(now, query.span, fit, grain, zoom)

    def view(self) -> NodeView:
        report = self._report
        context = self._context
        counts = device_counts(self._shown, self._fresh)
        shares = self._shares()
        open_advice = self._advice(is_open=True)
        closed = self._advice(is_open=False)
        waste, since = self._waste()
        rows = workload_rows(report, self._names, self._now)
        overview = OverviewTable(
            report,
            self._names,
            self._fresh,
            context,
            self._device_past,
            self._spending,
        ).rows(self._shown.devices)
        devices = tuple(chain.from_iterable((row, *row.instances) for row in overview))
        is_one_gpu = bool(self._chosen) and not self._workload
        return NodeView(
            report=report,
            version=report.agent.version,
            headline=_headline(counts, waste if shares else None, context.span, self._selected),
            trouble="" if report.devices else report.agent.trouble or "There are no GPUs here.",
            interval=format_duration(report.agent.interval_seconds),
            time=moment_label(report.wall_time, self._now),
            counts=counts,
            shares=shares,
            waste=waste,
            waste_since=since,
            names=self._names,
            advice=open_advice,
            closed=closed,
            overview=overview,
            cards=devices if is_one_gpu or len(devices) <= _CARDS_MOST else (),
            topology=topology_view(report, self._names, self._fresh),
            workloads=tuple(row for row in rows if self._workload in {"", row.title}),
            signals=self._signals(),
            selected=self._selected,
            past=drawn_past(
                self._query,
                context.stretch(report.wall_time),
                report.wall_time,
                context.drawn,
                (*open_advice, *closed) if self._chosen else None,
            ),
        )

    def _signals(self) -> tuple[SignalChart, ...]:
        """Return charts of a workload's devices together, if too many for cards."""
        if not self._workload or len(self._chosen) <= _CARDS_MOST:
            return ()
        drawn = self._context.stretch(self._report.wall_time)
        return signal_charts(tuple(self._past.blocks.values()), drawn)

    def _shares(self) -> tuple[Share, ...]:
        times: defaultdict[State, float] = defaultdict(float)
        for device_report in self._counted:
            for state, time in self._past_of(device_report.device.uuid).states.items():
                times[state] += time * device_report.device.capacity_ratio
        return shares_of(times)

    def _waste(self) -> tuple[WasteView, str]:
        """Of the span; since the agent started if the span is unknown."""
        of_span = waste_view(
            self._spending(device_report.device) for device_report in self._counted
        )
        if of_span.parts:
            return of_span, f"in the last {self._context.span.text}"
        totals = (
            self._spending(device_report.device, device_report.totals)
            for device_report in self._counted
        )
        since = elapsed_text(seconds(self._report.wall_time - self._report.agent.started))
        return waste_view(totals), f"in the {since} since the agent started"

    def _spending(self, device: Device, spent: Totals | None = None) -> Spending:
        """Of the span, or the given one."""
        of_span = self._past_of(device.uuid)
        return Spending(spent or of_span, device.capacity_ratio, self._past.rate_of(device))

    def _advice(self, *, is_open: bool) -> tuple[Advice, ...]:
        pieces = [piece for piece in self._report.advice if piece.is_open == is_open]
        if self._workload:
            pieces = [piece for piece in pieces if piece.finding.workload == self._workload]
        elif self._chosen:
            pieces = [piece for piece in pieces if self._chosen & {*piece.finding.devices}]
        return tuple(sorted(pieces, key=lambda p: p.finding.rank) if is_open else pieces)

    def _past_of(self, uuid: str) -> DeviceSpan:
        return self._past.spans.get(uuid, _NOTHING)

    def _device_past(self, uuid: str) -> DevicePast:
        span = self._past_of(uuid)
        zoom = self._context.zoom
        blocks = self._past.blocks.get(uuid, Blocks())
        if zoom is None or self._past.detail is None:
            return DevicePast(span, span, blocks)
        whole = self._past.detail.get(uuid, _NOTHING)
        cells = tuple(c for c in whole.cells if zoom.start <= c.start < zoom.end)
        return DevicePast(span, DeviceSpan(cells, state_times(cells)), blocks)

    @property
    def _selected(self) -> str:
        if self._workload:
            return self._workload
        return self._names.get(self._query.gpu, "") if self._chosen else ""


def _headline(counts: DeviceCounts, waste: WasteView | None, span: Span, selected: str) -> str:
    if not counts.counted:
        return f"{selected}: No GPUs" if selected else "No GPUs"
    gpus = f"{counts.gpus} GPU" if counts.gpus == 1 else f"{counts.gpus} GPUs"
    text = f"nothing known of the last {span.text} yet"
    if waste is not None:
        whole = seconds(span.length) * max(1, counts.gpus)
        is_young = waste.known_seconds < _HARDLY_KNOWN_RATIO * whole
        span_text = waste.known_text if is_young else f"the last {span.text}"
        text = f"{percent_text(waste.wasted_ratio)} of {span_text} wasted"
        if waste.wasted.dollars_typical:
            text += f": {dollars_text(waste.wasted.dollars_typical)}"
    if counts.silent:
        text = f"{counts.silent} not answering; {text}"
    return f"{selected}: {text}" if selected else f"{gpus}, {text}"
