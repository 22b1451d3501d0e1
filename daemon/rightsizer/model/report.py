"""Report published by the agent each tick, immutable, and views of past time ranges."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from rightsizer.model.advice import Advice
from rightsizer.model.block import Blocks
from rightsizer.model.device import Device
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.histogram import Histogram
from rightsizer.model.reading import Reading
from rightsizer.model.served_load import ServedLoad, ServedNeed
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import CollectorOutcome, Down
from rightsizer.model.state import Cause, Condition, State, Tier
from rightsizer.model.topology import FabricPort, Topology
from rightsizer.model.units import DAY, HOUR, NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.window import EnergySource, Provisioning, Window
from rightsizer.model.workload import Holding, Workload

_MINUTE: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND


class Totals(Struct, frozen=True):
    """Counters of one device since the agent started."""

    state_seconds: Mapping[State, float]
    condition_seconds: Mapping[Condition, float]
    waste_seconds: Mapping[Cause, float]
    waste_joules: Mapping[Cause, float]
    used_seconds: float
    used_joules: float
    distributions: Mapping[Signal, Histogram]
    """Over all seconds with a known signal; weights are nanoseconds."""
    signal_seconds: Mapping[Signal, float] = {}
    """Exact integral of each signal over time; a distribution only has bins."""
    energy_joules: Mapping[EnergySource, float] = {}
    """By source, over known and unknown time; used plus wasted joules are those of known time."""


class StripCell(Struct, frozen=True):
    """Slice of a device's day: time by state."""

    start: Nanoseconds
    end: Nanoseconds
    states: Mapping[State, Nanoseconds]


class DeviceReport(Struct, frozen=True):
    """Current state of one device."""

    device: Device
    down: Down | None
    """`None` if the device responds."""
    last_sample: Nanoseconds | None
    """Wall time of the last reading."""
    reading: Reading | None
    signals: Mapping[Signal, float]
    """Signals of the last reading with derived ratios."""
    state: State
    conditions: frozenset[Condition]
    tier: Tier
    totals: Totals
    provisioning: Mapping[str, Provisioning]
    """By window: `24h`, `7d`, `current`."""
    strip: tuple[StripCell, ...] = ()
    """Last day, oldest first."""
    holdings: tuple[Holding, ...] = ()
    xids: XidLog | None = None


class WorkloadReport(Struct, frozen=True):
    """Totals of a workload since the agent started, over all devices that it held."""

    workload: Workload
    devices: tuple[str, ...]
    """Uuids of the devices that it holds, or last held."""
    last_seen: Nanoseconds
    """Wall time."""
    totals: Totals
    """Summed over its devices, shared ones by its share; without distributions."""


class NodeReport(Struct, frozen=True):
    """Data of the node as a whole."""

    signals: Mapping[Signal, float] = {}
    """Signals of the host."""
    driver: Mapping[str, str] = {}
    """Versions: `driver_version`, `cuda_version`, `nvml_version`."""
    topology: Topology | None = None
    ports: tuple[FabricPort, ...] = ()
    released: str | None = None
    """Resource released on request, or `None`."""


class JobReport(Struct, frozen=True):
    """Last run of a scheduled job. Times are wall time."""

    name: str
    runs: int = 0
    failures: int = 0
    skipped: int = 0
    """Runs skipped because the previous one was still running."""
    last_start: Nanoseconds | None = None
    last_success: Nanoseconds | None = None
    last_duration_seconds: float | None = None
    last_error: str | None = None


class AgentReport(Struct, frozen=True):
    """State of the agent itself."""

    version: str
    source: str
    """Telemetry source: `nvml`, `simulated (eight-gpu-node)`."""
    started: Nanoseconds
    interval_seconds: float
    collectors: Mapping[str, CollectorOutcome] = {}
    jobs: tuple[JobReport, ...] = ()
    trouble: str | None = None
    """Why there are no devices, or `None` if there are."""
    metrics: Mapping[str, float] = {}
    """The agent's own counters and gauges by series."""
    served_needs: tuple[ServedNeed, ...] = ()
    """What each engine would need; empty unless the planner may run here."""


class Report(Struct, frozen=True):
    """State of the node at one tick."""

    generation: int
    """Incremented each tick; output caches use it as their key."""
    wall_time: Nanoseconds
    devices: tuple[DeviceReport, ...]
    advice: tuple[Advice, ...]
    """Open recommendations first, then recently closed ones."""
    agent: AgentReport
    node: NodeReport = NodeReport()
    workloads: tuple[WorkloadReport, ...] = ()
    """Least recently seen first; up to a minute old."""
    served: tuple[ServedLoad, ...] = ()
    """Models of serving engines, in the last five to ten minutes."""


class Span(Struct, frozen=True):
    """Time range that ends now, and the length of its cells."""

    name: str
    """Empty for a range that does not end now."""
    text: str
    """Wording after `the last`."""
    length: Nanoseconds
    cell: Nanoseconds

    @property
    def words(self) -> str:
        """Wording for use in a sentence."""
        return f"the last {self.text}" if self.name else self.text


SPANS: Final = (
    Span("1h", "hour", HOUR, 5 * _MINUTE),
    Span("6h", "6 hours", 6 * HOUR, 5 * _MINUTE),
    Span("24h", "24 hours", DAY, 10 * _MINUTE),
    Span("7d", "7 days", 7 * DAY, HOUR),
    Span("30d", "30 days", 30 * DAY, 4 * HOUR),
)
"""Shortest first."""

DEFAULT_SPAN: Final = SPANS[2]
"""A day: what people mean by the present."""


def span_named(name: str) -> Span | None:
    """Span by name, or `None`."""
    return next((span for span in SPANS if span.name == name), None)


_FINE_DETAIL: Final = Span("2d-detail", "2 days", 2 * DAY, 5 * _MINUTE)
_COARSE_DETAIL: Final = Span("30d-detail", "30 days", 30 * DAY, HOUR)


class TimeRange(Struct, frozen=True):
    """Past time range selected for a closer look."""

    start: Nanoseconds
    end: Nanoseconds

    def detail(self, now: Nanoseconds) -> Span:
        """Span with the shortest cells that are kept that far back."""
        return _FINE_DETAIL if now - self.start < _FINE_DETAIL.length else _COARSE_DETAIL

    @property
    def span(self) -> Span:
        """Span to draw, with its end in place of now."""
        begin, end = (datetime.fromtimestamp(at / NANOSECONDS_PER_SECOND, UTC) for at in self)
        time_format = "%H:%M" if begin.date() == end.date() else "%-d %b %H:%M"
        text = f"{begin:%-d %b %H:%M} to {end.strftime(time_format)}"
        return Span("", text, self.end - self.start, 5 * _MINUTE)

    def __iter__(self) -> Iterator[Nanoseconds]:
        return iter((self.start, self.end))


class DeviceSpan(Struct, frozen=True):
    """Activity of a device over a span: cells, oldest first, and their sums."""

    cells: tuple[StripCell, ...]
    states: Mapping[State, Nanoseconds] = {}
    used_seconds: float = 0.0
    used_joules: float = 0.0
    waste_seconds: Mapping[Cause, float] = {}
    waste_joules: Mapping[Cause, float] = {}


PastOf: TypeAlias = Callable[[Span], Mapping[str, DeviceSpan]]
"""Returns the activity of each device over a span, by uuid."""


class ServedLoads(Protocol):
    """Returns the load of each served model since a wall time."""

    def __call__(
        self, since: Nanoseconds, until: Nanoseconds | None = None, /
    ) -> Sequence[ServedLoad]:
        """By whole hours, which begin before `until` if it is given."""


WholeAccounts: TypeAlias = Callable[[Nanoseconds], Sequence[tuple[Device, Window]]]
"""Returns each device with its window over the whole history, up to a wall time."""

BlocksOf: TypeAlias = Callable[[Collection[str], TimeRange], Mapping[str, Blocks]]
"""Returns the blocks of some devices in a past time range, by uuid."""
