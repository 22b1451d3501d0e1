"""How the page is looked at: a span, a stretch within it, one GPU or one workload."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from rightsizer.model.block import BLOCK_SPAN, Blocks
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.report import DEFAULT_SPAN, SPANS, DeviceSpan, Report, Span, TimeRange
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.report.facts import RateOf, no_rate

_LEAST: Final[Nanoseconds] = 6 * BLOCK_SPAN
_MOST: Final[Nanoseconds] = SPANS[-1].length


@dataclass(frozen=True, slots=True)
class PageQuery:
    """How the page is viewed."""

    span: Span = DEFAULT_SPAN
    is_paused: bool = False
    gpu: str = ""
    """The uuid of the one device to look at; empty for all."""
    workload: str = ""
    """The key of the one workload to look at; empty for all."""
    zoom: TimeRange | None = None
    """The stretch that drawings of one GPU or workload show; `None` for the span."""
    may_act: bool = False
    """Whether the reader may claim, snooze and dismiss advice here."""

    @property
    def address(self) -> str:
        """What the page's own address has to say of how it is looked at."""
        parts = {} if self.span == DEFAULT_SPAN else {"span": self.span.name}
        parts |= self._chosen
        if self.zoom is not None:
            start, end = (at // NANOSECONDS_PER_SECOND for at in self.zoom)
            parts |= {"from": str(start), "to": str(end)}
        return urlencode(parts)

    @property
    def selection(self) -> str:
        """What is added to an address that has something to say already."""
        return f"&{urlencode(self._chosen)}" if self._chosen else ""

    @property
    def _chosen(self) -> dict[str, str]:
        return {name: value for name in ("gpu", "workload") if (value := getattr(self, name))}

    def zoomed(self, start: Nanoseconds, end: Nanoseconds, now: Nanoseconds) -> "PageQuery":
        """The same of another stretch, no shorter than can be drawn and not beyond now."""
        length = min(_MOST, max(_LEAST, end - start))
        middle = (start + end) // 2
        end = min(now, middle + length // 2)
        return replace(self, zoom=TimeRange(max(now - _MOST, end - length), end))


@dataclass(frozen=True, slots=True)
class NodePast:
    """What is remembered for a page."""

    spans: Mapping[str, DeviceSpan] = field(default_factory=dict)
    """Of the query's span, by uuid."""
    detail: Mapping[str, DeviceSpan] | None = None
    """In the shortest cells there are; where there is a stretch to look at."""
    blocks: Mapping[str, Blocks] = field(default_factory=dict)
    """What was measured of the one GPU or of a workload's in what is drawn."""
    rate_of: RateOf = no_rate


def zoom_of(query: Mapping[str, Sequence[str]], now: Nanoseconds) -> TimeRange | None:
    """The stretch that `from` and `to` name; `None` where they name none that can be drawn."""
    try:
        start, end = (
            int(float(query[name][-1]) * NANOSECONDS_PER_SECOND) for name in ("from", "to")
        )
    except (KeyError, ValueError, OverflowError):
        return None
    if not now - _MOST <= start < end or start >= now:
        return None
    return PageQuery().zoomed(start, min(end, now), now).zoom


def selected_uuids(report: Report, query: PageQuery) -> frozenset[str]:
    """Uuids of the one GPU with its instances, or of a workload's; empty where all are shown."""
    if query.workload:
        held = (
            device.device.uuid
            for device in report.devices
            if any(holding.workload.key == query.workload for holding in device.holdings)
        )
        of = (each for each in report.workloads if each.workload.key == query.workload)
        had = (uuid for each in of for uuid in each.devices)
        known = {device.device.uuid for device in report.devices}
        return frozenset(held) or frozenset(had) & known
    return frozenset(
        each.device.uuid
        for each in report.devices
        if query.gpu
        and query.gpu in {each.device.uuid, each.device.mig and each.device.mig.parent_uuid}
    )
