"""AccountsSnapshot: the node's accounts at one moment, read into cases for the rules."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from itertools import repeat
from operator import gt
from typing import Final

from rightsizer.accounting.load_patterns import effective_samples, grid, load_trend, shape_of
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.rings import WindowReader
from rightsizer.accounting.rollup_store import WindowQuery
from rightsizer.accounting.settings import AccountingSettings, LoadPatternSettings
from rightsizer.model.block import Blocks, Measure
from rightsizer.model.device import Device
from rightsizer.model.finding import Case, Node
from rightsizer.model.frozen import dataclass, replace
from rightsizer.model.pattern import Exceedance, Past, Shape, Trend
from rightsizer.model.state import Resource
from rightsizer.model.units import DAY, Nanoseconds, nanoseconds
from rightsizer.model.window import Provisioning, Window
from rightsizer.model.workload import Allocator, Workload


class LoadHistory:
    """All that is remembered of a workload, or of an only device; all spans share it."""

    def __init__(
        self,
        window_query: WindowQuery | None,
        since: Nanoseconds,
        end: Nanoseconds,
        settings: LoadPatternSettings,
        reader: WindowReader | None = None,
    ) -> None:
        self._window_query, self._settings = window_query, settings
        self._since, self._end, self._reader = since, end, reader or WindowReader()
        self._shapes: dict[Measure, Shape | None] = {}
        self._trends: dict[Measure, Trend | None] = {}
        # Each worked out once, for one option after the other asks for another capacity.
        self.effective_samples, self.known_peaks = cache(_effective_samples), cache(_known_peaks)

    def window(self, start: Nanoseconds, end: Nanoseconds) -> Window | None:
        """What was done over a span of time."""
        if self._window_query is None:
            return None
        return self._window_query.window(max(start, self._since), end, self._reader)

    def shape(self, measure: Measure) -> Shape | None:
        """How it repeats itself."""
        if measure not in self._shapes:
            self._shapes[measure] = shape_of(self.blocks().series(measure), self._settings.shape)
        return self._shapes[measure]

    def trend(self, measure: Measure) -> Trend | None:
        """Where it is heading."""
        if measure not in self._trends:
            self._trends[measure] = load_trend(self.blocks(), measure, self._settings.trend)
        return self._trends[measure]

    def blocks(self) -> Blocks:
        """All of them."""
        if self._window_query is None:
            return Blocks()
        return self._reader.month(self._window_query.remembered, self._since, self._end)


class CaseHistory:
    """A `Past` over one span of what was remembered at one moment."""

    def __init__(self, load: LoadHistory, start: Nanoseconds, end: Nanoseconds) -> None:
        self._load, self._start, self._end = load, start, end
        self.blocks, self.shape, self.trend = load.blocks, load.shape, load.trend
        self.effective_samples = load.effective_samples

    @cached_property
    def window(self) -> Window | None:
        """What the workload did over all its devices, over the case's span."""
        return self._load.window(self._start, self._end)

    def exceedance(self, blocks: Blocks, measure: Measure, capacity: float) -> Exceedance | None:
        """In how many of some blocks the peak was beyond a capacity; `None` without any."""
        known, effective = self._load.known_peaks(blocks, measure)
        if not known:
            return None
        return Exceedance(
            share=sum(map(gt, known, repeat(capacity))) / len(known),
            blocks=len(known),
            effective_blocks=effective,
        )


def _effective_samples(blocks: Blocks, measure: Measure) -> float:
    """How many independent means of five minutes some blocks are worth."""
    series = blocks.series(measure)
    return effective_samples(grid(series, series.means))


def _known_peaks(blocks: Blocks, measure: Measure) -> tuple[Sequence[float], float]:
    """Those that are known, and how many independent ones they are worth."""
    series = blocks.series(measure)
    effective = effective_samples(grid(series, series.peaks)) if series.peaks else 0.0
    # An array, for there are many: a float of its own for each would take four times that.
    return array("d", series.peaks), effective


Windows = tuple[Window, ...]
Provisionings = tuple[Provisioning, ...]


class CachedCase(Case):
    """A case over a span that most rules never ask about; elsewhere it is as any other.

    `windows` and `provisioning` are calls, and shared with the same case on its node.
    """

    __slots__ = ("_known_seconds", "_provisioning", "_span_facts", "_windows")
    _windows: Callable[[], Windows]
    _provisioning: Callable[[], Provisionings]
    _known_seconds: float | None
    _span_facts: Mapping[str, object] | None

    def __init__(  # noqa: PLR0913, PLR0917 # The fields of a case.
        self,
        key: str,
        workload: Workload | None,
        devices: tuple[Device, ...],
        windows: Callable[[], Windows],
        provisioning: Callable[[], Provisionings],
        past: Past | None,
        node: Node | None = None,
    ) -> None:
        fields: dict[str, object]
        fields = {"key": key, "workload": workload, "devices": devices, "past": past, "node": node}
        fields |= {"_windows": windows, "_provisioning": provisioning}
        fields |= {"_known_seconds": None, "_span_facts": None}
        for name, value in fields.items():
            object.__setattr__(self, name, value)  # As a frozen dataclass does it.

    @property
    def windows(self) -> Windows:
        """One for each device, in the same order."""
        return self._windows()

    @property
    def provisioning(self) -> Provisionings:
        """One for each device, in the same order."""
        return self._provisioning()

    @property
    def known_seconds(self) -> float:
        """The known time of the device that least is known of; most rules ask for it."""
        if self._known_seconds is None:
            object.__setattr__(self, "_known_seconds", super().known_seconds)
        return self._known_seconds or 0.0

    @property
    def span_facts(self) -> Mapping[str, object]:
        """What each finding says of the span that it rests on."""
        if self._span_facts is None:
            object.__setattr__(self, "_span_facts", super().span_facts)
        return self._span_facts or {}

    def on(self, node: Node | None) -> "CachedCase":
        """The same on a node."""
        sums = self._windows, self._provisioning
        return CachedCase(self.key, self.workload, self.devices, *sums, self.past, node)


@dataclass(frozen=True, slots=True)
class CaseDevice:
    """A device of a case."""

    device: Device
    window_query: WindowQuery
    whole: Window
    """Everything that was posted."""
    since: Nanoseconds
    """From when on it is held as it is now."""
    demands: Mapping[Resource, float]
    """What is needed of it now."""


@dataclass(frozen=True, slots=True)
class CaseInput:
    """What a case is made of; it does not change."""

    key: str
    workload: Workload | None
    devices: tuple[CaseDevice, ...]
    group: WindowQuery | None
    """Of the workload, where one is known."""


def _lasting(view: CaseInput, since: Nanoseconds) -> CaseInput:
    """With the devices that something was accounted of since a time, or nothing yet."""
    lasting = (each for each in view.devices if not each.whole.end or each.whole.end >= since)
    return replace(view, devices=tuple(lasting))


def allocator_of(workload: Workload | None) -> Allocator:
    """How a device's holder takes memory."""
    return Allocator.UNKNOWN if workload is None else workload.allocator


_EVER: Final[Nanoseconds] = 2**63


class AccountsSnapshot:
    """The accounts at one moment, which gives the cases of any span up to then.

    What spans have in common is read once and kept for as long as the look; for one thread.
    """

    def __init__(
        self,
        views: Sequence[CaseInput],
        node: Node,
        now: Nanoseconds,
        settings: AccountingSettings,
        reader: WindowReader,
    ) -> None:
        self._settings = settings
        self._views, self._node, self._now = tuple(views), node, now
        latest = max((each.whole.end for view in views for each in view.devices), default=0)
        gap = nanoseconds(settings.holder_gap_seconds)
        self._present = tuple(_lasting(view, latest - gap) for view in views)
        self._reader = reader
        self._loads: dict[tuple[str, Nanoseconds], LoadHistory] = {}
        self._whole_cases = cache(self._cases)

    def cases(self, span: Nanoseconds | None) -> tuple[CachedCase, ...]:
        """The case of each holder over a span back from now; `None` for all that was posted.

        A pod of a recording whose readings ended long before those of others is judged no more.
        All spans that go back before what is remembered have the same cases.
        """
        if span is None or self._now - span > self._first:
            return self._cases(span)
        return self._whole_cases(self._now - self._first + self._first % DAY)

    @cached_property
    def _first(self) -> Nanoseconds:
        """When what is remembered begins; days of it are whole from the beginning of that day."""
        devices = (each.window_query for view in self._views for each in view.devices)
        groups = (view.group for view in self._views if view.group is not None)
        return min((each.first for each in (*devices, *groups)), default=self._now)

    def _cases(self, span: Nanoseconds | None) -> tuple[CachedCase, ...]:
        views = self._views if span is None else self._present
        cases = tuple(self._case(view, span) for view in views if view.devices)
        around = replace(self._node, cases=cases)
        return tuple(case.on(around) for case in cases)

    def _case(self, view: CaseInput, span: Nanoseconds | None) -> CachedCase:
        start, end = (0, _EVER) if span is None else (self._now - span, self._now)
        allocator, settings = allocator_of(view.workload), self._settings.provisioning
        devices = tuple(each.device for each in view.devices)

        @cache
        def windows() -> Windows:
            return tuple(
                replace(each.whole, blocks=each.window_query.blocks(0, _EVER))
                if span is None
                # At most since the device is held as it is.
                else each.window_query.window(max(start, each.since), self._now, self._reader)
                for each in view.devices
            )

        @cache
        def provisioning() -> Provisionings:
            return tuple(
                provision(window, allocator, settings, each.demands)
                for each, window in zip(view.devices, windows(), strict=True)
            )

        past = CaseHistory(self._load(view, end), start, end)
        return CachedCase(view.key, view.workload, devices, windows, provisioning, past)

    def _load(self, view: CaseInput, end: Nanoseconds) -> LoadHistory:
        """Of the group; without one of the only device, as far as it is its present holder's."""
        key = view.key, end
        if key not in self._loads:
            first, *others = view.devices
            found, since = view.group, 0
            # Of a workload nothing may be remembered, as in a history of former times.
            if found is None and not others:
                found, since = first.window_query, 0 if end == _EVER else first.since
            self._loads[key] = LoadHistory(found, since, end, self._settings.past, self._reader)
        return self._loads[key]
