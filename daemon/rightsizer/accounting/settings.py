"""Settings of accounting and its history: gaps, power, pressure, provisioning, retention."""

from typing import Final

from rightsizer.accounting.classification_settings import (
    ClassificationSettings,
    ConditionSettings,
    SignalSettings,
    UsageSettings,
)
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting

MAXIMUM_BYTES: Final = 256 * 2**20
"""The default limit of a history."""


@dataclass(frozen=True, slots=True)
class DecaySettings:
    """How fast the past fades, and which quantile of it counts."""

    fast_half_life_seconds: float = setting(21600.0, within=(60, None))
    fast_quantile_ratio: float = setting(0.995, within=(0.5, 1))
    slow_half_life_seconds: float = setting(259200.0, within=(60, None))
    slow_quantile_ratio: float = setting(0.97, within=(0.5, 1))


@dataclass(frozen=True, slots=True)
class EnergySettings:
    """When the driver's counter of energy is not believed."""

    plausible_limit_ratio: float = setting(2.0, within=(1, None))


@dataclass(frozen=True, slots=True)
class ImbalanceSettings:
    """From when on the GPUs of a job are out of balance."""

    spread_ratio: float = setting(0.25)
    window_seconds: float = setting(600.0, within=(10, 86400))
    coverage_ratio: float = setting(0.5)


@dataclass(frozen=True, slots=True)
class LoadCycleSettings:
    """From when on work and pauses that take turns are cycles of one pace."""

    coarsest_seconds: float = setting(2.0, within=(0.01, 60))
    longest_seconds: float = setting(120.0, within=(1, 3600))
    swing_ratio: float = setting(0.3, within=(0.05, 1))
    tolerance_ratio: float = setting(0.25, within=(0, 1))


@dataclass(frozen=True, slots=True)
class PcieLinkSettings:
    """How long a link is watched before its generation is believed."""

    window_seconds: float = setting(60.0, within=(1, 3600))
    loaded_seconds: float = setting(5.0, within=(0, 3600))


@dataclass(frozen=True, slots=True)
class PowerSettings:
    """How the idle draw is learned."""

    idle_quantile_ratio: float = setting(0.05)
    idle_minimum_seconds: float = setting(60.0, within=(1, None))
    idle_limit_ratio: float = setting(0.15)
    idle_memory_seconds: float = setting(14400.0, within=(60, None))


@dataclass(frozen=True, slots=True)
class PressureSettings:
    """What an application says when it is short of GPU, and how long that counts."""

    requests_waiting: float = setting(1.0, within=(1, None))
    kv_cache_ratio: float = setting(0.9)
    preemption_hold_seconds: float = setting(60.0)
    time_to_first_token_maximum_seconds: float | None = setting(None)
    time_per_output_token_maximum_seconds: float | None = setting(None)
    request_latency_maximum_seconds: float | None = setting(None)
    memory_xids: tuple[int, ...] = setting(())
    memory_xid_hold_seconds: float = setting(300.0)


@dataclass(frozen=True, slots=True)
class EntrySettings:
    """How time is accounted for."""

    gap_minimum_seconds: float = setting(5.0)
    gap_intervals: float = setting(3.0, within=(1, None))
    signals: SignalSettings = field(default_factory=SignalSettings)
    power: PowerSettings = field(default_factory=PowerSettings)
    classify: ClassificationSettings = field(default_factory=ClassificationSettings)
    conditions: ConditionSettings = field(default_factory=ConditionSettings)
    link: PcieLinkSettings = field(default_factory=PcieLinkSettings)
    imbalance: ImbalanceSettings = field(default_factory=ImbalanceSettings)
    usage: UsageSettings = field(default_factory=UsageSettings)
    energy: EnergySettings = field(default_factory=EnergySettings)
    pressure: PressureSettings = field(default_factory=PressureSettings)
    cycles: LoadCycleSettings = field(default_factory=LoadCycleSettings)


@dataclass(frozen=True, slots=True)
class ProvisioningSettings:
    """How much room a device should have, and from when on it has too little."""

    demand_quantile_ratio: float = setting(0.99, within=(0.5, 1))
    minimum_active_seconds: float = setting(600.0)
    margin_ratio: float = setting(0.15, within=(0, 2))
    memory_margin_ratio: float = setting(0.10, within=(0, 2))
    underprovisioned_ratio: float = setting(0.05)
    preallocated_ratio: float = setting(0.6)
    preallocated_quantile_ratio: float = setting(0.05, within=(0, 0.5))
    preallocated_spread_ratio: float = setting(0.02)


@dataclass(frozen=True, slots=True)
class ShapeSettings:
    """When a load counts as one that repeats itself."""

    autocorrelation_ratio: float = setting(0.3)
    weekly_margin_ratio: float = setting(0.1)
    covered_ratio: float = setting(0.9)


@dataclass(frozen=True, slots=True)
class TrendSettings:
    """What a trend must rest on."""

    minimum_days: int = setting(7, within=(4, 30))
    day_coverage_ratio: float = setting(0.5)
    level_ratio: float = setting(0.9, within=(0.5, 0.999))


@dataclass(frozen=True, slots=True)
class LoadPatternSettings:
    """How a load's past is read."""

    shape: ShapeSettings = field(default_factory=ShapeSettings)
    trend: TrendSettings = field(default_factory=TrendSettings)


@dataclass(frozen=True, slots=True)
class WorkloadAccountSettings:
    """How much is remembered of workloads."""

    most: int = setting(64, within=(1, 1000))


@dataclass(frozen=True, slots=True)
class AccountingSettings:
    """How time becomes states, and states become gauges."""

    holder_gap_seconds: float = setting(600.0, within=(0, 86400))
    books: EntrySettings = field(default_factory=EntrySettings)
    decay: DecaySettings = field(default_factory=DecaySettings)
    provisioning: ProvisioningSettings = field(default_factory=ProvisioningSettings)
    workloads: WorkloadAccountSettings = field(default_factory=WorkloadAccountSettings)
    past: LoadPatternSettings = field(default_factory=LoadPatternSettings)


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """What is kept on disk."""

    path: str = setting("/var/lib/rightsizer/history.db")
    retention: float = setting(
        30 * 86400.0, unit="seconds", within=(86400.0, 366 * 86400.0), is_live=True
    )
    fine_retention: float = setting(
        48 * 3600.0, unit="seconds", within=(86400.0, 366 * 86400.0), is_live=True
    )
    maximum_size_bytes: int = setting(MAXIMUM_BYTES, within=(2**20, None))
    flush_interval: float = setting(60.0, unit="seconds", within=(1.0, 3600.0), is_live=True)
