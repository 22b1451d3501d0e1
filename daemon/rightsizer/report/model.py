"""Model of the report: content of every format, and keys of its JSON."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from rightsizer.model.values import HOUR_SECONDS, JOULES_PER_KILOWATT_HOUR, Evidence, Instruction
from rightsizer.report.facts import Gap, PriceRate, ReportDeviceFacts, RuleFacts


class UsageAmount(Struct, frozen=True):
    """GPU-hours with energy and cost; `None` unless known for all parts."""

    gpu_hours: float
    kilowatt_hours: float | None
    """At the GPUs, without the building's overhead."""
    dollars_low: float | None
    dollars_high: float | None
    dollars_typical: float | None
    """At median prices."""


def priced(gpu_hours: float, joules: float | None, rate: PriceRate | None) -> UsageAmount:
    """Return an amount of one device."""
    return UsageAmount(
        gpu_hours=gpu_hours,
        kilowatt_hours=None if joules is None else joules / JOULES_PER_KILOWATT_HOUR,
        dollars_low=None if rate is None else gpu_hours * rate.dollars_per_hour_low,
        dollars_high=None if rate is None else gpu_hours * rate.dollars_per_hour_high,
        dollars_typical=None if rate is None else gpu_hours * rate.dollars_per_hour_typical,
    )


def summed(amounts: Iterable[UsageAmount]) -> UsageAmount:
    """Sum amounts. Prices are correlated, so low and high ends add up."""
    parts = [amount for amount in amounts if amount.gpu_hours or amount.kilowatt_hours]
    return UsageAmount(
        gpu_hours=sum(part.gpu_hours for part in parts),
        kilowatt_hours=_sum(part.kilowatt_hours for part in parts),
        dollars_low=_sum(part.dollars_low for part in parts),
        dollars_high=_sum(part.dollars_high for part in parts),
        dollars_typical=_sum(part.dollars_typical for part in parts),
    )


def energy_of(facts: ReportDeviceFacts, joules: float) -> float | None:
    """Return joules of a device, or `None` if its energy was not measured."""
    return joules if facts.window.energy_joules > 0.0 else None


def amount_of(facts: ReportDeviceFacts, seconds: float, joules: float) -> UsageAmount:
    """Return an amount for some time of a device, scaled by its capacity."""
    hours = seconds * facts.device.capacity_ratio / HOUR_SECONDS
    return priced(hours, energy_of(facts, joules), facts.rate)


def _sum(values: Iterable[float | None]) -> float | None:
    all_values = list(values)
    numbers = [value for value in all_values if value is not None]
    return sum(numbers) if len(numbers) == len(all_values) else None


class ReportSpan(Struct, frozen=True):
    """Span of the report."""

    start: float
    end: float
    timezone: str
    days: int
    history_start: float
    history_end: float
    coverage_ratio: float
    """Known share of all GPU time."""


class Summary(Struct, frozen=True):
    """Main figures."""

    devices: int
    total: UsageAmount
    """All GPU time of the span, known or not: it is paid for either way."""
    known_hours: float
    groups: Mapping[str, float]
    """Hours by group of states, including `no_data`; they sum to the total."""
    states: Mapping[str, float]
    used: UsageAmount
    wasted: UsageAmount
    """Idle, stalled or held up."""
    left_over: UsageAmount
    """Headroom: what work leaves of its GPUs, not wasted, yet smaller ones may do."""
    unattributed_hours: float
    """Known time without a known use."""
    open_advice: int
    savings: "SavingsSummary"
    """Over all open advice; of mutually exclusive advice the largest."""
    realized_gpu_hours: float | None
    realized_dollars_low: float | None
    realized_dollars_high: float | None


class ReportDay(Struct, frozen=True):
    """A day over all devices, in the report's time zone."""

    date: str
    groups: Mapping[str, float]
    states: Mapping[str, float]
    """Hours by state; unrecorded time is only in `groups`."""


class CauseRow(Struct, frozen=True):
    """Unused GPU time of one cause."""

    cause: str
    wasted: UsageAmount
    share_ratio: float
    """Share of the known time."""


class FitRow(Struct, frozen=True):
    """Capacity of a device's resource compared with its demand."""

    resource: str
    demand: float | None
    need: float | None
    overprovisioned: float | None
    saturated: float | None
    underprovisioned: float | None


class StripRow(Struct, frozen=True):
    """Dominant state groups of a device, in cells of equal length from the span's start."""

    cell_hours: int
    cells: tuple[str, ...]
    """A state group for each cell."""


class DeviceRow(Struct, frozen=True):
    """A GPU or MIG instance."""

    uuid: str
    index: int | None
    """`None` if no source stated it."""
    label: str
    model: str
    board: str | None
    """Key in the catalogue; `None` if unknown."""
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
    """Used share of the known time; `None` if unknown."""
    headroom_ratio: float | None
    """Unused capacity while active that has no cause of its own."""
    wasted: UsageAmount
    waste_hours: Mapping[str, float]
    fits: tuple[FitRow, ...]
    overprovisioned: float | None
    underprovisioned: float | None
    is_underprovisioned: bool
    memory_is_preallocated: bool
    strip: StripRow


class WorkloadUsage(Struct, frozen=True):
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
    """Of what was wasted."""


class SavingsSummary(Struct, frozen=True):
    """Possible savings; `reason` tells why figures are missing."""

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


class FindingRow(Struct, frozen=True):
    """A finding over the whole span without open advice."""

    id: str
    rule: str
    finding: str
    reasons: tuple[str, ...]
    action: str
    summary: str
    workload: str | None
    devices: tuple[str, ...]
    confidence: float


class AdviceRow(FindingRow, frozen=True):
    """Advice open at the end of the span."""

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


class OutcomeRow(Struct, frozen=True):
    """Advice closed or verified within the span."""

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


class ConditionRow(Struct, frozen=True):
    """Time of a condition on a device."""

    device: str
    condition: str
    hours: float
    """Wall time."""
    share_ratio: float
    """Share of the device's known time."""


class ReportHealth(Struct, frozen=True):
    """Hardware problems, and gaps in the data."""

    unknown_hours: float
    """Time in state `unknown`."""
    unknown_reasons: Mapping[str, float]
    """The same hours by reason, longest first; histories of older versions have none."""
    unrecorded_hours: float
    """Time without an agent, or deleted from the history."""
    conditions: tuple[ConditionRow, ...]
    gaps: tuple[Gap, ...]
    """Longest first."""
    further_gaps: int
    hardware: tuple[str, ...]
    """Ids of advice on failing hardware, links and heat that was open within the span."""


class PriceRow(Struct, frozen=True):
    """Hourly price applied to a GPU model."""

    model: str
    devices: int
    dollars_per_hour_low: float | None
    dollars_per_hour_high: float | None
    dollars_per_hour_typical: float | None
    billing: str
    source: str
    date: str
    basis: str
    """List prices, your prices, or assumed costs; empty without a price."""


class ReportModel(Struct, frozen=True):
    """The whole report."""

    version: str
    span: ReportSpan
    summary: Summary
    days: tuple[ReportDay, ...]
    devices: tuple[DeviceRow, ...]
    causes: tuple[CauseRow, ...]
    workloads: tuple[WorkloadUsage, ...]
    advice: tuple[AdviceRow, ...]
    advice_is_judged_now: bool
    findings: tuple[FindingRow, ...]
    """Most confident first."""
    outcomes: tuple[OutcomeRow, ...]
    rules: tuple[RuleFacts, ...]
    health: ReportHealth
    prices: tuple[PriceRow, ...]
    evidence: tuple[Evidence, ...] = ()
    """What the report rests on."""

    @property
    def has_data(self) -> bool:
        """Whether anything is known of the span."""
        return self.summary.known_hours > 0
