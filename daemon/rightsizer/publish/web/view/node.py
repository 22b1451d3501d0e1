"""The page as a whole: headline, advice, devices."""

from collections.abc import Sequence
from dataclasses import dataclass

from rightsizer import __version__
from rightsizer.domain.report import DeviceReport, Report
from rightsizer.domain.state import IDLE_STATES, State
from rightsizer.domain.units import Nanoseconds, format_duration, seconds
from rightsizer.publish.freshness import FreshnessSettings, fresh_devices
from rightsizer.publish.web.view.advice import AdviceView, advice_view
from rightsizer.publish.web.view.device import DeviceView, device_title, device_view
from rightsizer.publish.web.view.fit import FitSettings
from rightsizer.publish.web.view.strip import Share, shares_of, state_times
from rightsizer.publish.web.view.waste import WasteView, waste_view
from rightsizer.publish.web.view.words import (
    SEVERITIES,
    STATE_MEANINGS,
    STATE_ORDER,
    Moment,
    moment,
    percent,
    spoken,
)

__all__ = ["NodeView", "Tile", "node_view"]


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure of the headline."""

    name: str
    value: str
    detail: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A state's color, name and meaning."""

    key: str
    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """What the template shows."""

    version: str
    source: str
    interval: str
    trouble: str
    time: Moment | None
    headline: str
    tiles: tuple[Tile, ...]
    waste: WasteView
    since: str
    """How long the agent has been counting."""
    advice: tuple[AdviceView, ...]
    closed: tuple[AdviceView, ...]
    devices: tuple[DeviceView, ...]
    legend: tuple[LegendEntry, ...]


def node_view(
    report: Report | None, now: Nanoseconds, freshness: FreshnessSettings, fit: FitSettings
) -> NodeView:
    """The page of a report; before the first one, a page that says so."""
    if report is None:
        return _empty()
    fresh = fresh_devices(report, now, freshness)
    names = {device.device.uuid: device_title(device) for device in report.devices}
    advice = [(piece, advice_view(piece, names, report.wall_time)) for piece in report.advice]
    opened = [view for piece, view in advice if piece.is_open]
    opened.sort(key=lambda view: (SEVERITIES.index(view.severity), -view.confidence_ratio))
    counted = [device for device in report.devices if not device.device.has_mig_instances]
    waste = waste_view((device.totals, device.device.capacity_ratio) for device in counted)
    shares = _day_shares(counted)
    return NodeView(
        version=report.agent.version,
        source=report.agent.source,
        interval=format_duration(report.agent.interval_seconds),
        trouble="" if report.devices else report.agent.trouble or "There are no GPUs here.",
        time=moment(report.wall_time, now),
        headline=_headline(report, shares),
        tiles=_tiles(report, fresh, shares, waste, len(opened)),
        waste=waste,
        since=format_duration(seconds(report.wall_time - report.agent.started)),
        advice=tuple(opened),
        closed=tuple(view for piece, view in advice if not piece.is_open),
        devices=tuple(
            device_view(device, report, now, fit, is_fresh=device.device.uuid in fresh)
            for device in report.devices
        ),
        legend=_legend(),
    )


def _empty() -> NodeView:
    nothing = waste_view([])
    trouble = "No sample has been taken yet; the page will fill within seconds."
    return NodeView(
        *(__version__, "", "", trouble, None, "Starting", (), nothing, ""),
        *((), (), (), _legend()),
    )


def _legend() -> tuple[LegendEntry, ...]:
    return tuple(LegendEntry(state, spoken(state), STATE_MEANINGS[state]) for state in STATE_ORDER)


def _day_shares(devices: Sequence[DeviceReport]) -> tuple[Share, ...]:
    times: dict[State, float] = {}
    for device in devices:
        for state, time in state_times(device.strip).items():
            times[state] = times.get(state, 0.0) + time * device.device.capacity_ratio
    return shares_of(times)


def _part(shares: Sequence[Share], *states: State) -> float:
    return sum(share.ratio for share in shares if share.key in states)


def _headline(report: Report, shares: Sequence[Share]) -> str:
    count = _gpu_count(report.devices)
    gpus = f"{count} GPU" if count == 1 else f"{count} GPUs"
    if not shares:
        return f"{gpus}, nothing known of the last 24 hours yet"
    lost = _part(shares, *IDLE_STATES, State.HIDDEN_STALL)
    return f"{gpus}, idle or stalled {percent(lost)} of the last 24 hours"


def _tiles(
    report: Report,
    fresh: frozenset[str],
    shares: Sequence[Share],
    waste: WasteView,
    open_count: int,
) -> tuple[Tile, ...]:
    silent = len(report.devices) - len(fresh)
    idle, stalled = _part(shares, *IDLE_STATES), _part(shares, State.HIDDEN_STALL)
    unknown = _part(shares, State.UNKNOWN)
    largest = waste.largest
    return (
        Tile(
            "GPUs",
            str(_gpu_count(report.devices)),
            f"{silent} without fresh readings" if silent else "all answer",
            "act" if silent else "",
        ),
        Tile(
            "At work, last 24 h",
            percent(max(0.0, 1 - idle - stalled - unknown)) if shares else "-",
            f"idle {percent(idle)}, stalled {percent(stalled)}, unknown {percent(unknown)}"
            if shares
            else "nothing known yet",
        ),
        Tile(
            "Put to use",
            waste.used_text or "-",
            f"most of the rest: {largest.name.lower()} {largest.text}" if largest else "",
        ),
        Tile(
            "Open advice",
            str(open_count),
            "see below" if open_count else "nothing to do",
            "tight" if open_count else "",
        ),
    )


def _gpu_count(devices: Sequence[DeviceReport]) -> int:
    return sum(device.device.mig is None for device in devices)
