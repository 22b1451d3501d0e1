"""Accounts of a node at one moment, turned into cases for the rules."""

from array import array
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.accounting.idle_gaps import idle_gaps
from rightsizer.accounting.load_patterns import effective_samples, grid, load_trend, shape_of
from rightsizer.accounting.provisioning import provision
from rightsizer.accounting.rings import WindowReader
from rightsizer.accounting.rollup_store import WindowQuery
from rightsizer.accounting.settings import AccountingSettings, LoadPatternSettings
from rightsizer.model.lazy import LazySequence
from rightsizer.model.values import (
    DAY,
    Allocator,
    Blocks,
    Case,
    Device,
    Exceedance,
    IdleGap,
    Measure,
    Nanoseconds,
    Node,
    Provisioning,
    Resource,
    Shape,
    Trend,
    Window,
    Workload,
    count_above,
    nanoseconds,
)


class LoadHistory:
    """History of a workload, or of a single device, shared by all spans."""

    def __init__(
        self,
        window_query: WindowQuery | None,
        since: Nanoseconds,
        end: Nanoseconds,
        settings: LoadPatternSettings,
        reader: WindowReader | None = None,
    ) -> None:
        self._window_query = window_query
        self._settings = settings
        self._since = since
        self._end = end
        self._reader = reader or WindowReader()
        self._shapes: dict[Measure, Shape | None] = {}
        self._trends: dict[Measure, Trend | None] = {}
        self._idle_gaps: dict[float, tuple[IdleGap, ...]] = {}
        # Cached, since options ask for the same blocks with different capacities.
        self.effective_samples = cache(_effective_samples)
        self.known_peaks = cache(_known_peaks)

    def window(self, start: Nanoseconds, end: Nanoseconds) -> Window | None:
        """Window over a time range."""
        if self._window_query is None:
            return None
        return self._window_query.window(max(start, self._since), end, self._reader)

    def shape(self, measure: Measure) -> Shape | None:
        """Periodicity of the load."""
        if measure not in self._shapes:
            self._shapes[measure] = shape_of(self.blocks().series(measure), self._settings.shape)
        return self._shapes[measure]

    def trend(self, measure: Measure) -> Trend | None:
        """Trend of the load."""
        if measure not in self._trends:
            self._trends[measure] = load_trend(self.blocks(), measure, self._settings.trend)
        return self._trends[measure]

    def idle_gaps(self, busy_ratio: float) -> tuple[IdleGap, ...]:
        """Times below a busy ratio."""
        if busy_ratio not in self._idle_gaps:
            series = self.blocks().series(Measure.BUSY)
            self._idle_gaps[busy_ratio] = idle_gaps(series, busy_ratio)
        return self._idle_gaps[busy_ratio]

    def blocks(self) -> Blocks:
        """All blocks in the history."""
        if self._window_query is None:
            return Blocks()
        return self._reader.month(self._window_query.stored_blocks, self._since, self._end)


class CaseHistory:
    """`Past` of a case over one span of a load history."""

    def __init__(self, load: LoadHistory, start: Nanoseconds, end: Nanoseconds) -> None:
        self._load = load
        self._start = start
        self._end = end
        self.blocks = load.blocks
        self.shape = load.shape
        self.trend = load.trend
        self.idle_gaps = load.idle_gaps
        self.effective_samples = load.effective_samples

    @cached_property
    def window(self) -> Window | None:
        """Window of the workload over all its devices and the case's span."""
        return self._load.window(self._start, self._end)

    def exceedance(self, blocks: Blocks, measure: Measure, capacity: float) -> Exceedance | None:
        """Share of blocks with a peak above a capacity; `None` without blocks."""
        peaks, effective = self._load.known_peaks(blocks, measure)
        if not peaks:
            return None
        return Exceedance(
            share=count_above(peaks, capacity) / len(peaks),
            blocks=len(peaks),
            effective_blocks=effective,
        )


def _effective_samples(blocks: Blocks, measure: Measure) -> float:
    """Number of independent five-minute means that the blocks are equivalent to."""
    series = blocks.series(measure)
    return effective_samples(grid(series, series.means))


def _known_peaks(blocks: Blocks, measure: Measure) -> tuple[Sequence[float], float]:
    """Known peaks, and the number of independent ones that they are equivalent to."""
    series = blocks.series(measure)
    effective = effective_samples(grid(series, series.peaks)) if series.peaks else 0.0
    # An array, since there are many: as float objects they would take four times the memory.
    return array("d", series.peaks), effective


class CaseDevice(Struct, frozen=True):
    """Device of a case."""

    device: Device
    window_query: WindowQuery
    whole: Window
    """Window over everything posted."""
    since: Nanoseconds
    """Start of the present tenancy."""
    demands: Mapping[Resource, float]
    """Current demands."""


class CaseInput(Struct, frozen=True):
    """Immutable input of a case."""

    key: str
    workload: Workload | None
    devices: tuple[CaseDevice, ...]
    group: WindowQuery | None
    """Query of the workload, if known."""


def _with_recent_devices(case_input: CaseInput, since: Nanoseconds) -> CaseInput:
    """Keep devices with accounts since a time, or without any yet."""
    lasting = (
        device for device in case_input.devices if not device.whole.end or device.whole.end >= since
    )
    return replace(case_input, devices=tuple(lasting))


def allocator_of(workload: Workload | None) -> Allocator:
    """Memory allocation strategy of a device's holder."""
    return Allocator.UNKNOWN if workload is None else workload.allocator


_END_OF_TIME: Final[Nanoseconds] = 2**63


class AccountsSnapshot:
    """Accounts at one moment, providing the cases of any span up to then.

    Data shared by several spans is read once and cached for the snapshot's life. Not thread-safe.
    """

    def __init__(
        self,
        inputs: Sequence[CaseInput],
        node: Node,
        now: Nanoseconds,
        settings: AccountingSettings,
        reader: WindowReader,
    ) -> None:
        self._settings = settings
        self._inputs = tuple(inputs)
        self._node = node
        self._now = now
        latest = max(
            (device.whole.end for case_input in inputs for device in case_input.devices), default=0
        )
        gap = nanoseconds(settings.holder_gap_seconds)
        self._present = tuple(
            _with_recent_devices(case_input, latest - gap) for case_input in inputs
        )
        self._reader = reader
        self._loads: dict[tuple[str, Nanoseconds], LoadHistory] = {}
        self._whole_cases: tuple[Case, ...] = ()

    def cases(self, span: Nanoseconds | None) -> tuple[Case, ...]:
        """Cases of all holders over a span up to now; `None` for everything posted.

        Omits pods of a recording with readings that ended long before the others'. All spans that
        exceed the history share their cases.
        """
        if span is None or self._now - span > self._first:
            return self._cases(span)
        if not self._whole_cases:  # No `cache`, whose cycle would keep the snapshot in memory.
            self._whole_cases = self._cases(self._now - self._first + self._first % DAY)
        return self._whole_cases

    @cached_property
    def _first(self) -> Nanoseconds:
        """Start of the history; its days count in full from the start of the day."""
        devices = (
            device.window_query for case_input in self._inputs for device in case_input.devices
        )
        groups = (case_input.group for case_input in self._inputs if case_input.group is not None)
        return min((query.first for query in (*devices, *groups)), default=self._now)

    def _cases(self, span: Nanoseconds | None) -> tuple[Case, ...]:
        inputs = self._inputs if span is None else self._present
        cases = tuple(self._case(case_input, span) for case_input in inputs if case_input.devices)
        around = replace(self._node, wall_time=self._now, cases=cases)
        return tuple(replace(case, node=around) for case in cases)

    def _case(self, case_input: CaseInput, span: Nanoseconds | None) -> Case:
        start, end = (0, _END_OF_TIME) if span is None else (self._now - span, self._now)
        allocator = allocator_of(case_input.workload)
        settings = self._settings.provisioning
        devices = tuple(device.device for device in case_input.devices)

        def windows() -> tuple[Window, ...]:
            return tuple(
                replace(device.whole, blocks=device.window_query.blocks(0, _END_OF_TIME))
                if span is None
                # Limited to the present tenancy.
                else device.window_query.window(max(start, device.since), self._now, self._reader)
                for device in case_input.devices
            )

        lazy_windows = LazySequence(windows)

        def provisioning() -> tuple[Provisioning, ...]:
            return tuple(
                provision(window, allocator, settings, device.demands)
                for device, window in zip(case_input.devices, lazy_windows, strict=True)
            )

        past = CaseHistory(self._load(case_input, end), start, end)
        return Case(
            case_input.key,
            case_input.workload,
            devices,
            lazy_windows,
            LazySequence(provisioning),
            past,
        )

    def _load(self, case_input: CaseInput, end: Nanoseconds) -> LoadHistory:
        """History of the group, or of the only device, limited to its present holder."""
        key = case_input.key, end
        if key not in self._loads:
            first, *others = case_input.devices
            query = case_input.group
            since = 0
            # A workload may be unknown to the history, e.g. one of an earlier version.
            if query is None and not others:
                query = first.window_query
                since = 0 if end == _END_OF_TIME else first.since
            self._loads[key] = LoadHistory(query, since, end, self._settings.past, self._reader)
        return self._loads[key]
