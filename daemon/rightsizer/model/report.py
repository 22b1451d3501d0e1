"""What the agent publishes at one tick, immutable, and what stretches of the past show."""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias

from rightsizer.model.advice import Advice
from rightsizer.model.block import Blocks
from rightsizer.model.device import Device
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.histogram import Histogram
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import CollectorOutcome, Down
from rightsizer.model.state import Cause, Condition, State, Tier
from rightsizer.model.topology import FabricPort, Topology
from rightsizer.model.units import DAY, HOUR, NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.window import EnergySource, Provisioning
from rightsizer.model.workload import Holding, Workload

_MINUTE: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters of one device since the agent started; they only grow."""

    state_seconds: Mapping[State, float]
    condition_seconds: Mapping[Condition, float]
    waste_seconds: Mapping[Cause, float]
    waste_joules: Mapping[Cause, float]
    used_seconds: float
    used_joules: float
    distributions: Mapping[Signal, Histogram]
    """Of all the seconds whose signal is known; weights are nanoseconds."""
    signal_seconds: Mapping[Signal, float] = field(default_factory=dict)
    """The exact integral of each of these signals over time; a distribution knows bins only."""
    energy_joules: Mapping[EnergySource, float] = field(default_factory=dict)
    """Of the known time, by how it was measured; used and wasted joules sum to all of it."""


@dataclass(frozen=True, slots=True)
class StripCell:
    """A slice of a device's day: how its time divides into states."""

    start: Nanoseconds
    end: Nanoseconds
    states: Mapping[State, Nanoseconds]


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """One device as it stands."""

    device: Device
    down: Down | None
    """`None` where the device answers."""
    last_sample: Nanoseconds | None
    """Wall time of the last reading."""
    reading: Reading | None
    signals: Mapping[Signal, float]
    """The last reading's signals with the derived ratios."""
    state: State
    conditions: frozenset[Condition]
    tier: Tier
    totals: Totals
    provisioning: Mapping[str, Provisioning]
    """By window: `24h`, `7d`, `current`."""
    strip: tuple[StripCell, ...] = ()
    """The last day, oldest first."""
    holdings: tuple[Holding, ...] = ()
    xids: XidLog | None = None


@dataclass(frozen=True, slots=True)
class WorkloadReport:
    """What a workload did since the agent started, over all the devices that it held."""

    workload: Workload
    devices: tuple[str, ...]
    """The devices that it holds, or held when it was last seen, by uuid."""
    last_seen: Nanoseconds
    """Wall time."""
    totals: Totals
    """Summed over its devices, of a shared device its part; without distributions."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What the devices share."""

    signals: Mapping[Signal, float] = field(default_factory=dict)
    """The host's own."""
    driver: Mapping[str, str] = field(default_factory=dict)
    """Versions: `driver_version`, `cuda_version`, `nvml_version`."""
    topology: Topology | None = None
    ports: tuple[FabricPort, ...] = ()
    released: str | None = None
    """What was let go on request, `None` where nothing was."""


@dataclass(frozen=True, slots=True)
class JobReport:
    """A scheduled job's last run. Times are wall time."""

    name: str
    runs: int = 0
    failures: int = 0
    skipped: int = 0
    """Runs left out because the one before was still under way."""
    last_start: Nanoseconds | None = None
    last_success: Nanoseconds | None = None
    last_duration_seconds: float | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The agent itself."""

    version: str
    source: str
    """What is read: `nvml`, `simulated (eight-gpu-node)`."""
    started: Nanoseconds
    interval_seconds: float
    collectors: Mapping[str, CollectorOutcome] = field(default_factory=dict)
    jobs: tuple[JobReport, ...] = ()
    trouble: str | None = None
    """Why there are no devices, `None` where there are."""
    counters: Mapping[str, float] = field(default_factory=dict)
    """The agent's own counters, by the name of their metric."""
    gauges: Mapping[str, float] = field(default_factory=dict)
    """The agent's own gauges, by the name of their metric."""


@dataclass(frozen=True, slots=True)
class Report:
    """The node at one tick."""

    generation: int
    """Grows with every tick; outputs cache by it."""
    wall_time: Nanoseconds
    devices: tuple[DeviceReport, ...]
    advice: tuple[Advice, ...]
    """Open advice first, then what was closed of late."""
    agent: AgentReport
    node: NodeReport = field(default_factory=NodeReport)
    workloads: tuple[WorkloadReport, ...] = ()
    """Seen longest ago first; a minute old at most."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time that ends now, and the cells that it is divided into."""

    name: str
    """Empty for one that ends at another time than now."""
    text: str
    """In a sentence: `the last` and this."""
    length: Nanoseconds
    cell: Nanoseconds

    @property
    def words(self) -> str:
        """In a sentence."""
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
"""A day: what people mean by now."""


def span_named(name: str) -> Span | None:
    """The span of a name, `None` where there is none."""
    return next((span for span in SPANS if span.name == name), None)


_FINE_DETAIL: Final = Span("2d-detail", "2 days", 2 * DAY, 5 * _MINUTE)
_COARSE_DETAIL: Final = Span("30d-detail", "30 days", 30 * DAY, HOUR)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A stretch of the past that someone looks at more closely."""

    start: Nanoseconds
    end: Nanoseconds

    def detail(self, now: Nanoseconds) -> Span:
        """The span that has it in the shortest cells that are kept so far back."""
        return _FINE_DETAIL if now - self.start < _FINE_DETAIL.length else _COARSE_DETAIL

    @property
    def span(self) -> Span:
        """What is drawn of it, where the end stands for now."""
        begin, end = (datetime.fromtimestamp(at / NANOSECONDS_PER_SECOND, UTC) for at in self)
        time_format = "%H:%M" if begin.date() == end.date() else "%-d %b %H:%M"
        text = f"{begin:%-d %b %H:%M} to {end.strftime(time_format)}"
        return Span("", text, self.end - self.start, 5 * _MINUTE)

    def __iter__(self) -> Iterator[Nanoseconds]:
        return iter((self.start, self.end))


@dataclass(frozen=True, slots=True)
class DeviceSpan:
    """What a device did over a span: its cells, oldest first, and the sums over all of them."""

    cells: tuple[StripCell, ...]
    states: Mapping[State, Nanoseconds] = field(default_factory=dict)
    used_seconds: float = 0.0
    used_joules: float = 0.0
    waste_seconds: Mapping[Cause, float] = field(default_factory=dict)
    waste_joules: Mapping[Cause, float] = field(default_factory=dict)


PastOf: TypeAlias = Callable[[Span], Mapping[str, DeviceSpan]]
"""Answers what each device did over a span, by uuid."""

BlocksOf: TypeAlias = Callable[[Collection[str], TimeRange], Mapping[str, Blocks]]
"""Answers what was measured of some devices in a stretch of the past, by uuid."""
