"""Query of the page: span, range within it, selected GPU or workload."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.values import (
    BLOCK_SPAN,
    DEFAULT_SPAN,
    NANOSECONDS_PER_SECOND,
    SPANS,
    Blocks,
    DeviceSpan,
    Nanoseconds,
    Report,
    Span,
    TimeRange,
)
from rightsizer.report.facts import RateOf, no_rate

_LEAST: Final[Nanoseconds] = 6 * BLOCK_SPAN
_MOST: Final[Nanoseconds] = SPANS[-1].length


class PageQuery(Struct, frozen=True):
    """View settings of the page."""

    span: Span = DEFAULT_SPAN
    is_paused: bool = False
    gpu: str = ""
    """Uuid of the selected device; empty for all."""
    workload: str = ""
    """Key of the selected workload; empty for all."""
    zoom: TimeRange | None = None
    """Range shown by charts of the selection; `None` for the span."""
    may_act: bool = False
    """Whether the reader may claim, snooze and dismiss advice here."""

    @property
    def address(self) -> str:
        """Query string of the page's address."""
        parts = {} if self.span == DEFAULT_SPAN else {"span": self.span.name}
        parts |= self._chosen
        if self.zoom is not None:
            start, end = (at // NANOSECONDS_PER_SECOND for at in self.zoom)
            parts |= {"from": str(start), "to": str(end)}
        return urlencode(parts)

    @property
    def selection(self) -> str:
        """Query string of the selection, to append to an address with a query."""
        return f"&{urlencode(self._chosen)}" if self._chosen else ""

    @property
    def _chosen(self) -> dict[str, str]:
        return {name: value for name in ("gpu", "workload") if (value := getattr(self, name))}

    def zoomed(self, start: Nanoseconds, end: Nanoseconds, now: Nanoseconds) -> "PageQuery":
        """Return the query for another range, limited to what can be drawn and to the present."""
        length = min(_MOST, max(_LEAST, end - start))
        middle = (start + end) // 2
        end = min(now, middle + length // 2)
        return replace(self, zoom=TimeRange(max(now - _MOST, end - length), end))


class NodePast(Struct, frozen=True):
    """Past of devices for a page."""

    spans: Mapping[str, DeviceSpan] = {}
    """For the query's span, by uuid."""
    detail: Mapping[str, DeviceSpan] | None = None
    """In the finest cells; only with a zoom range."""
    blocks: Mapping[str, Blocks] = {}
    """Measurements of the selected GPU, or of a workload's GPUs, in the drawn range."""
    rate_of: RateOf = no_rate


def zoom_of(query: Mapping[str, Sequence[str]], now: Nanoseconds) -> TimeRange | None:
    """Return the range of `from` and `to`, or `None` if it cannot be drawn."""
    try:
        start, end = (
            int(float(query[name][-1]) * NANOSECONDS_PER_SECOND) for name in ("from", "to")
        )
    except (KeyError, ValueError, OverflowError):
        return None
    if not now - _MOST <= start < end or start >= now:
        return None
    return PageQuery().zoomed(start, min(end, now), now).zoom


def is_unknown(report: Report, query: PageQuery) -> bool:
    """Whether a GPU or a workload is selected that a node with GPUs does not have."""
    is_selected = bool(query.selection and report.devices)
    return is_selected and not selected_uuids(report, query)


def selected_uuids(report: Report, query: PageQuery) -> frozenset[str]:
    """Return the uuids of the selected GPU with its instances, or of a workload; empty for all."""
    if query.workload:
        held = (
            device.device.uuid
            for device in report.devices
            if any(holding.workload.key == query.workload for holding in device.holdings)
        )
        of = (workload for workload in report.workloads if workload.workload.key == query.workload)
        had = (uuid for workload_report in of for uuid in workload_report.devices)
        uuids = {device.device.uuid for device in report.devices}
        return frozenset(held) or frozenset(had) & uuids
    return frozenset(
        device.device.uuid
        for device in report.devices
        if query.gpu
        and query.gpu in {device.device.uuid, device.device.mig and device.device.mig.parent_uuid}
    )
