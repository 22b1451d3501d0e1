"""Settings of accounting and its history: gaps, power, pressure, provisioning, retention."""

from typing import Annotated, Final

from msgspec import Struct

from rightsizer.accounting.classification_settings import (
    ClassificationSettings,
    ConditionSettings,
    SignalSettings,
    UsageSettings,
)
from rightsizer.model.values import CONSTANT, Spec

MAXIMUM_BYTES: Final = 256 * 2**20
"""Default size limit of a history."""
_STATES: Final = "docs/definitions.md, states"
_SOURCES: Final = "docs/definitions.md, sources"
_PROVISIONING: Final = "docs/definitions.md, provisioning"
_SIGNALS: Final = "docs/definitions.md, signals"
_CONDUCT: Final = "docs/definitions.md, conduct"


class DecaySettings(Struct, frozen=True):
    """Half-lives and quantiles of the decaying demand histograms.

    Attributes:
        fast_half_life_seconds: Half-life of the fast histogram.
        fast_quantile_ratio: Quantile of the fast histogram.
            Source: on neither half of a serving fleet's pods has a rule of others both fewer
            violations and less slack (evaluation/RESULTS.md, sizing by rolling replay)
        slow_half_life_seconds: Half-life of the slow histogram.
        slow_quantile_ratio: Quantile of the slow histogram.
    """

    fast_half_life_seconds: Annotated[float, Spec(within=(60, None), source=_SOURCES)] = 21600.0
    fast_quantile_ratio: Annotated[float, Spec(within=(0.5, 1))] = 0.995
    slow_half_life_seconds: Annotated[float, Spec(within=(60, None), source=_SOURCES)] = 259200.0
    slow_quantile_ratio: Annotated[float, Spec(within=(0.5, 1), source=_SOURCES)] = 0.97


class EnergySettings(Struct, frozen=True):
    """Plausibility of the driver's energy counter.

    Attributes:
        plausible_limit_ratio: Mean power by the energy counter, of the limit, above which it has
            jumped.
            Source: a counter that falls to 0 and comes back would book its whole life at once
    """

    plausible_limit_ratio: Annotated[float, Spec(within=(1, None))] = 2.0


class ImbalanceSettings(Struct, frozen=True):
    """Imbalance between the GPUs of a job.

    Attributes:
        spread_ratio: Difference of mean utilization or power between a job's GPUs that is an
            imbalance.
            Source: docs/definitions.md, sources: imbalance .25 over 10 min
        window_seconds: How long the difference must last, with the same GPU extreme.
            Source: docs/definitions.md, sources: imbalance .25 over 10 min
        coverage_ratio: Share of each half of that window with a known signal of a GPU.
            Source: one reading in 100 s leaves two of a half's three
    """

    spread_ratio: float = 0.25
    window_seconds: Annotated[float, Spec(within=(10, 86400))] = 600.0
    coverage_ratio: float = 0.5


class LoadCycleSettings(Struct, frozen=True):
    """Detection of periodic cycles of work and pause.

    Attributes:
        coarsest_seconds: Maximum time between readings for cycles to be detected, or ruled out.
            Source: NVML's utilization is that of the last second at most; readings further apart
            show a pace that is not the load's (aliasing)
        longest_seconds: Maximum length of a cycle; longer ones are phases of a job.
            Source: loaders, steps and evaluations take turns within seconds to a minute
        swing_ratio: Minimum difference between high and low utilization for work and pause.
            Source: steady work at one sample a second varies by a tenth or two
        tolerance_ratio: Maximum deviation of a cycle's length from that of the previous cycles.
            Source: one sample in four; requests that come by chance vary by as much as their mean
    """

    coarsest_seconds: Annotated[float, Spec(within=(0.01, 60))] = 2.0
    longest_seconds: Annotated[float, Spec(within=(1, 3600))] = 120.0
    swing_ratio: Annotated[float, Spec(within=(0.05, 1))] = 0.3
    tolerance_ratio: Annotated[float, Spec(within=(0, 1))] = 0.25


class PcieLinkSettings(Struct, frozen=True):
    """Observation of a PCIe link before its generation is judged.

    Attributes:
        window_seconds: Window over which the highest generation under load is taken.
            Source: telemetry of real boards: a link trains up some time after the load begins
        loaded_seconds: Time under load within the window required to judge the generation.
            Source: a link that trains down at rest is slow when a short burst finds it so
    """

    window_seconds: Annotated[float, Spec(within=(1, 3600))] = 60.0
    loaded_seconds: Annotated[float, Spec(within=(0, 3600))] = 5.0


class PowerSettings(Struct, frozen=True):
    """Learning of the idle power.

    Attributes:
        idle_quantile_ratio: Quantile of the power during empty seconds that counts as the idle
            power.
        idle_minimum_seconds: Empty seconds required before that quantile is used.
        idle_limit_ratio: Maximum idle power until learned, of the power limit.
            Source: docs/definitions.md, signals; idle H100 70 of 700 W, H200 78 of 700 W
        idle_memory_seconds: Half-life of the observed empty seconds, counted in empty seconds.
            Source: dcgm-exporter#464: profiling takes an idle A100 from 50 to 100 W; a night of
            rest teaches that
    """

    idle_quantile_ratio: Annotated[float, Spec(source=_SIGNALS)] = 0.05
    idle_minimum_seconds: Annotated[float, Spec(within=(1, None), source=_SIGNALS)] = 60.0
    idle_limit_ratio: float = 0.15
    idle_memory_seconds: Annotated[float, Spec(within=(60, None))] = 14400.0


class PressureSettings(Struct, frozen=True):
    """Application signals of GPU shortage, and how long they count.

    Attributes:
        requests_waiting: Queued requests of a serving engine from which its users wait.
            Source: docs/definitions.md, provisioning; an engine that keeps up has no queue
        kv_cache_ratio: Key-value cache utilization from which a serving engine is short of memory.
        preemption_hold_seconds: How long a preemption counts as pressure.
            Source: engines are read every 5 s, and preempted requests are recomputed
        time_to_first_token_maximum_seconds: Promised mean time to first token; null for none.
        time_per_output_token_maximum_seconds: Promised mean time per output token; null for none.
        request_latency_maximum_seconds: Promised mean latency of a whole request; null for none.
        memory_xids: Xids that indicate out of memory.
            Source: none by default: only the program is told; vGPUs use 31 and 43
        memory_xid_hold_seconds: How long such an Xid counts as pressure.
            Source: a block of five minutes, in which risk is counted too
    """

    requests_waiting: Annotated[float, Spec(within=(1, None)), CONSTANT] = 1.0
    kv_cache_ratio: Annotated[float, Spec(source=_PROVISIONING)] = 0.9
    preemption_hold_seconds: Annotated[float, CONSTANT] = 60.0
    time_to_first_token_maximum_seconds: float | None = None
    time_per_output_token_maximum_seconds: float | None = None
    request_latency_maximum_seconds: float | None = None
    memory_xids: tuple[int, ...] = ()
    memory_xid_hold_seconds: Annotated[float, CONSTANT] = 300.0


class EntrySettings(Struct, frozen=True):
    """Accounting of time.

    Attributes:
        gap_minimum_seconds: Minimum time without a reading that is a gap.
        gap_intervals: Usual intervals without a reading that count as a gap.
    """

    gap_minimum_seconds: Annotated[float, Spec(source=_STATES), CONSTANT] = 5.0
    gap_intervals: Annotated[float, Spec(within=(1, None), source=_STATES), CONSTANT] = 3.0
    signals: Annotated[SignalSettings, CONSTANT] = SignalSettings()
    power: Annotated[PowerSettings, CONSTANT] = PowerSettings()
    classify: ClassificationSettings = ClassificationSettings()
    conditions: ConditionSettings = ConditionSettings()
    link: Annotated[PcieLinkSettings, CONSTANT] = PcieLinkSettings()
    imbalance: Annotated[ImbalanceSettings, CONSTANT] = ImbalanceSettings()
    usage: Annotated[UsageSettings, CONSTANT] = UsageSettings()
    energy: Annotated[EnergySettings, CONSTANT] = EnergySettings()
    pressure: PressureSettings = PressureSettings()
    cycles: Annotated[LoadCycleSettings, CONSTANT] = LoadCycleSettings()


class ProvisioningSettings(Struct, frozen=True):
    """Demand, margins, and thresholds of under-provisioning.

    Attributes:
        demand_quantile_ratio: Quantile of the active seconds that counts as demand.
        minimum_active_seconds: Minimum active time for demand to be known.
        margin_ratio: Margin added to the demand for compute, memory bandwidth and links.
        memory_margin_ratio: Margin added to the demand for memory.
        underprovisioned_ratio: Share of time under pressure from which a device is
            under-provisioned.
        preallocated_ratio: Memory utilization from which a constant amount looks preallocated.
            Source: JAX takes 75%, vLLM 90% of the card
        preallocated_quantile_ratio: Quantile of memory in use that counts as its minimum, to ignore
            start-up.
            Source: a start-up of a day and a half in a month
        preallocated_spread_ratio: Range of the memory in use within which it counts as constant.
            Source: a bin of the histogram either way
    """

    demand_quantile_ratio: Annotated[
        float, Spec(within=(0.5, 1), source=_PROVISIONING), CONSTANT
    ] = 0.99
    minimum_active_seconds: Annotated[float, Spec(source=_PROVISIONING), CONSTANT] = 600.0
    margin_ratio: Annotated[float, Spec(within=(0, 2), source=_PROVISIONING)] = 0.15
    memory_margin_ratio: Annotated[float, Spec(within=(0, 2), source=_PROVISIONING)] = 0.10
    underprovisioned_ratio: Annotated[float, Spec(source=_PROVISIONING), CONSTANT] = 0.05
    preallocated_ratio: Annotated[float, CONSTANT] = 0.6
    preallocated_quantile_ratio: Annotated[float, Spec(within=(0, 0.5)), CONSTANT] = 0.05
    preallocated_spread_ratio: Annotated[float, CONSTANT] = 0.02


class ShapeSettings(Struct, frozen=True):
    """Detection of daily and weekly load cycles.

    Attributes:
        autocorrelation_ratio: Minimum autocorrelation of hourly load, by day or week, for a cycle.
            Source: chance alone gives 0.15 over a week of hours
        weekly_margin_ratio: Minimum excess of the weekly over the daily autocorrelation.
            Source: a load of equal days has none
        covered_ratio: Share of the hours of a week that must have been seen.
    """

    autocorrelation_ratio: float = 0.3
    weekly_margin_ratio: float = 0.1
    covered_ratio: Annotated[float, Spec(source=_CONDUCT)] = 0.9


class TrendSettings(Struct, frozen=True):
    """Data required for a trend.

    Attributes:
        minimum_days: Minimum days for a trend.
            Source: a week, so that its end is no trend
        day_coverage_ratio: Known share of a day required for it to count.
            Source: half a day has its busy hours or its quiet ones
        level_ratio: Confidence level of the slope's interval.
    """

    minimum_days: Annotated[int, Spec(within=(4, 30))] = 7
    day_coverage_ratio: float = 0.5
    level_ratio: Annotated[float, Spec(within=(0.5, 0.999), source=_CONDUCT)] = 0.9


class LoadPatternSettings(Struct, frozen=True):
    """Cycles and trends of a load's history."""

    shape: ShapeSettings = ShapeSettings()
    trend: TrendSettings = TrendSettings()


class WorkloadAccountSettings(Struct, frozen=True):
    """Limits of per-workload accounts.

    Attributes:
        most: Maximum workloads kept; the least recently seen are dropped first.
    """

    most: Annotated[int, Spec(within=(1, 1000), source=_SOURCES)] = 64


class AccountingSettings(Struct, frozen=True):
    """Classification of time into states, and the gauges derived from it.

    Attributes:
        holder_gap_seconds: How long a GPU may be empty before its holder counts as gone.
            Source: longer than a restart of a service
    """

    holder_gap_seconds: Annotated[float, Spec(within=(0, 86400)), CONSTANT] = 600.0
    books: EntrySettings = EntrySettings()
    decay: Annotated[DecaySettings, CONSTANT] = DecaySettings()
    provisioning: ProvisioningSettings = ProvisioningSettings()
    workloads: WorkloadAccountSettings = WorkloadAccountSettings()
    past: Annotated[LoadPatternSettings, CONSTANT] = LoadPatternSettings()


class HistorySettings(Struct, frozen=True):
    """Storage of history on disk.

    Attributes:
        path: Path of the database; empty to keep no history across restarts.
        retention: How long windows are kept.
            Source: the longest window that a rule asks for, twice
        fine_retention: How long five-minute windows are kept before they are merged into hours.
            Source: the 24 h that are answered from five-minute windows, twice
        maximum_size_bytes: Maximum size of the database, without up to 4 MiB of write-ahead log;
            beyond it the oldest windows are deleted.
            Source: benchmarks/RESULTS.md, accounting and history: 64 devices for 30 days, twice
        flush_interval: Time between writes; a crash loses at most this much.
    """

    path: str = "/var/lib/rightsizer/history.db"
    retention: Annotated[
        float, Spec(unit="seconds", within=(86400.0, 366 * 86400.0), is_live=True)
    ] = 30 * 86400.0
    fine_retention: Annotated[
        float, Spec(unit="seconds", within=(86400.0, 366 * 86400.0), is_live=True)
    ] = 48 * 3600.0
    maximum_size_bytes: Annotated[int, Spec(within=(2**20, None))] = MAXIMUM_BYTES
    flush_interval: Annotated[float, Spec(unit="seconds", within=(1.0, 3600.0), is_live=True)] = (
        60.0
    )
