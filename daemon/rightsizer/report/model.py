"""Model of the report: what every format shows and what JSON has as keys."""

from collections.abc import Iterable, Mapping

from rightsizer.model.finding import Instruction
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import HOUR_SECONDS, JOULES_PER_KILOWATT_HOUR
from rightsizer.report.facts import Gap, PriceRate, ReportDeviceFacts, RuleFacts


@dataclass(frozen=True, slots=True)
class UsageAmount:
    """Hours of a whole GPU, and what they took; `None` where it is not known of all of them."""

    gpu_hours: float
    kilowatt_hours: float | None
    """At the GPUs; a building takes more."""
    dollars_low: float | None
    dollars_high: float | None
    dollars_typical: float | None
    """At the median of prices."""


def priced(gpu_hours: float, joules: float | None, rate: PriceRate | None) -> UsageAmount:
    """An amount of one device."""
    return UsageAmount(
        gpu_hours=gpu_hours,
        kilowatt_hours=None if joules is None else joules / JOULES_PER_KILOWATT_HOUR,
        dollars_low=None if rate is None else gpu_hours * rate.dollars_per_hour_low,
        dollars_high=None if rate is None else gpu_hours * rate.dollars_per_hour_high,
        dollars_typical=None if rate is None else gpu_hours * rate.dollars_per_hour_typical,
    )


def summed(amounts: Iterable[UsageAmount]) -> UsageAmount:
    """All of them together. Prices rise and fall together: the low with the low."""
    parts = [each for each in amounts if each.gpu_hours or each.kilowatt_hours]
    return UsageAmount(
        gpu_hours=sum(each.gpu_hours for each in parts),
        kilowatt_hours=_sum(each.kilowatt_hours for each in parts),
        dollars_low=_sum(each.dollars_low for each in parts),
        dollars_high=_sum(each.dollars_high for each in parts),
        dollars_typical=_sum(each.dollars_typical for each in parts),
    )


def energy_of(facts: ReportDeviceFacts, joules: float) -> float | None:
    """Joules of a device, `None` where its energy was not measured."""
    return joules if facts.window.energy_joules > 0.0 else None


def amount_of(facts: ReportDeviceFacts, seconds: float, joules: float) -> UsageAmount:
    """Some time of a device as its part of a GPU, and what it took."""
    hours = seconds * facts.device.capacity_ratio / HOUR_SECONDS
    return priced(hours, energy_of(facts, joules), facts.rate)


def _sum(values: Iterable[float | None]) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None


@dataclass(frozen=True, slots=True)
class ReportSpan:
    """What the report is of."""

    start: float
    end: float
    timezone: str
    days: int
    history_start: float
    history_end: float
    coverage_ratio: float
    """Known GPU time over all of it."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures that matter."""

    devices: int
    total: UsageAmount
    """All GPU time of the span, known or not: it is paid for either way."""
    known_hours: float
    groups: Mapping[str, float]
    """Hours by group of states, `no_data` included; they sum to the total."""
    states: Mapping[str, float]
    used: UsageAmount
    wasted: UsageAmount
    unattributed_hours: float
    """Known time of which it is not known how much was used."""
    open_advice: int
    savings: "SavingsSummary"
    """Of all open advice; of pieces that exclude each other the one that saves most."""
    realized_gpu_hours: float | None
    realized_dollars_low: float | None
    realized_dollars_high: float | None


@dataclass(frozen=True, slots=True)
class ReportDay:
    """A day of all devices, by the calendar of the report's time zone."""

    date: str
    groups: Mapping[str, float]
    states: Mapping[str, float]
    """Hours by state; what was not recorded is in `groups` alone."""


@dataclass(frozen=True, slots=True)
class CauseRow:
    """GPU time that was not used, by why."""

    cause: str
    wasted: UsageAmount
    share_ratio: float
    """Of the known time."""


@dataclass(frozen=True, slots=True)
class FitRow:
    """A resource of a device against what is asked of it."""

    resource: str
    demand: float | None
    need: float | None
    overprovisioned: float | None
    saturated: float | None
    underprovisioned: float | None


@dataclass(frozen=True, slots=True)
class StripRow:
    """What a device mostly did, in cells of equal length from the start of the span."""

    cell_hours: int
    cells: tuple[str, ...]
    """A group of states each."""


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A GPU or MIG instance."""

    uuid: str
    index: int | None
    """`None` where no source stated it."""
    label: str
    model: str
    capacity_ratio: float
    workloads: tuple[str, ...]
    tier: str
    total: UsageAmount
    coverage_ratio: float
    groups: Mapping[str, float]
    states: Mapping[str, float]
    unrecorded_hours: float
    used_hours: float
    effective_utilization: float | None
    """What was used of the known time; `None` where it is unknown."""
    headroom_ratio: float | None
    """What was left of it while at work, for no cause of its own."""
    wasted: UsageAmount
    waste_hours: Mapping[str, float]
    fits: tuple[FitRow, ...]
    overprovisioned: float | None
    underprovisioned: float | None
    is_underprovisioned: bool
    memory_is_preallocated: bool
    strip: StripRow


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """A workload over all its devices."""

    workload: str
    devices: tuple[str, ...]
    held: UsageAmount
    coverage_ratio: float
    groups: Mapping[str, float]
    used_hours: float
    wasted: UsageAmount
    waste_hours: Mapping[str, float]
    main_cause: str | None


@dataclass(frozen=True, slots=True)
class SavingsSummary:
    """What acting would save; `reason` says why there is no figure."""

    gpus_low: float | None
    gpus_high: float | None
    dollars_per_month_low: float | None
    dollars_per_month_high: float | None
    dollars_per_month_typical: float | None
    gpu_hours_per_month_low: float | None
    gpu_hours_per_month_high: float | None
    kilowatt_hours_per_month_low: float | None
    kilowatt_hours_per_month_high: float | None
    price_source: str
    price_date: str
    reason: str


@dataclass(frozen=True, slots=True)
class FindingRow:
    """What a rule says of the span as a whole, and no advice says yet."""

    id: str
    rule: str
    finding: str
    reasons: tuple[str, ...]
    action: str
    summary: str
    workload: str | None
    devices: tuple[str, ...]
    confidence: float


@dataclass(frozen=True, slots=True)
class AdviceRow(FindingRow):
    """Advice that is open at the end of the span."""

    confidence_word: str
    confidence_factors: Mapping[str, float]
    risk: str
    severity: str
    state: str
    opened: float
    savings: SavingsSummary
    options: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    exclusive_group: str | None


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """Advice that ended or was verified within the span."""

    id: str
    rule: str
    reasons: tuple[str, ...]
    action: str
    workload: str | None
    summary: str
    state: str
    opened: float
    closed: float | None
    verified: float | None
    realized_gpu_hours: float | None
    realized_dollars_low: float | None
    realized_dollars_high: float | None
    actor: str | None
    why: str


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """For how long a condition held on a device."""

    device: str
    condition: str
    hours: float
    """Of wall time."""
    share_ratio: float
    """Of the device's known time."""


@dataclass(frozen=True, slots=True)
class ReportHealth:
    """What was wrong with the hardware, and what is not known."""

    unknown_hours: float
    """The state is `unknown`."""
    unknown_reasons: Mapping[str, float]
    """The same hours by why, the most first; those of a former version's history are left out."""
    unrecorded_hours: float
    """No agent ran, or the history has forgotten."""
    conditions: tuple[ConditionRow, ...]
    gaps: tuple[Gap, ...]
    """The longest first."""
    further_gaps: int
    hardware: tuple[str, ...]
    """Ids of advice on failing hardware, links and heat that stood within the span."""


@dataclass(frozen=True, slots=True)
class PriceRow:
    """The price that an hour of a kind of GPU was reckoned at."""

    model: str
    devices: int
    dollars_per_hour_low: float | None
    dollars_per_hour_high: float | None
    dollars_per_hour_typical: float | None
    billing: str
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class ReportModel:
    """All of it."""

    version: str
    span: ReportSpan
    summary: Summary
    days: tuple[ReportDay, ...]
    devices: tuple[DeviceRow, ...]
    causes: tuple[CauseRow, ...]
    workloads: tuple[WorkloadRow, ...]
    advice: tuple[AdviceRow, ...]
    advice_is_judged_now: bool
    findings: tuple[FindingRow, ...]
    """The surest first."""
    outcomes: tuple[OutcomeRow, ...]
    rules: tuple[RuleFacts, ...]
    health: ReportHealth
    prices: tuple[PriceRow, ...]

    @property
    def has_data(self) -> bool:
        """Whether anything is known of the span."""
        return self.summary.known_hours > 0
