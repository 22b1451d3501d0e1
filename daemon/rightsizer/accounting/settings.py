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
_STATES: Final = "docs/definitions.md, states"
_SOURCES: Final = "docs/definitions.md, sources"
_PROVISIONING: Final = "docs/definitions.md, provisioning"
_SIGNALS: Final = "docs/definitions.md, signals"
_CONDUCT: Final = "docs/definitions.md, conduct"


@dataclass(frozen=True, slots=True)
class DecaySettings:
    """How fast the past fades, and which quantile of it counts."""

    fast_half_life_seconds: float = setting(
        21600.0, help="Half-life of the quick memory.", within=(60, None), source=_SOURCES
    )
    fast_quantile_ratio: float = setting(
        0.995,
        help="Quantile of the quick memory.",
        within=(0.5, 1),
        source="on neither half of a serving fleet's pods has a rule of others both fewer "
        "violations and less slack (docs/benchmarks.md)",
    )
    slow_half_life_seconds: float = setting(
        259200.0, help="Half-life of the slow memory.", within=(60, None), source=_SOURCES
    )
    slow_quantile_ratio: float = setting(
        0.97, help="Quantile of the slow memory.", within=(0.5, 1), source=_SOURCES
    )


@dataclass(frozen=True, slots=True)
class EnergySettings:
    """When the driver's counter of energy is not believed."""

    plausible_limit_ratio: float = setting(
        2.0,
        help="Mean draw by the energy counter, of the power limit, above which it has jumped.",
        within=(1, None),
        source="a counter that falls to 0 and comes back would book its whole life at once",
    )


@dataclass(frozen=True, slots=True)
class ImbalanceSettings:
    """From when on the GPUs of a job are out of balance."""

    spread_ratio: float = setting(
        0.25,
        help="Difference of mean busy share or power between a job's GPUs that is an imbalance.",
        source="docs/definitions.md, sources; SageMaker Debugger's LoadBalancing has .5",
    )
    window_seconds: float = setting(
        600.0,
        help="How long the difference must last, with the same GPU at the end of the range.",
        within=(10, 86400),
        source="docs/definitions.md, sources: 10 min",
    )
    coverage_ratio: float = setting(
        0.5,
        help="Part of either half of that time for which a GPU's signal must be known.",
        source="one reading in 100 s leaves two of a half's three",
    )


@dataclass(frozen=True, slots=True)
class LoadCycleSettings:
    """From when on work and pauses that take turns are cycles of one pace."""

    coarsest_seconds: float = setting(
        2.0,
        help="Distance between readings up to which cycles are told, or that there are none.",
        within=(0.01, 60),
        source="NVML's utilization is that of the last second at most; readings further apart "
        "show a pace that is not the load's (aliasing)",
    )
    longest_seconds: float = setting(
        120.0,
        help="The longest cycle; what takes longer is phases of a job.",
        within=(1, 3600),
        source="loaders, steps and evaluations take turns within seconds to a minute",
    )
    swing_ratio: float = setting(
        0.3,
        help="Difference between high and low utilization from which on they are work and pause.",
        within=(0.05, 1),
        source="steady work at one sample a second varies by a tenth or two",
    )
    tolerance_ratio: float = setting(
        0.25,
        help="How far the length of a cycle may be from that of the cycles before.",
        within=(0, 1),
        source="one sample in four; requests that come by chance vary by as much as their mean",
    )


@dataclass(frozen=True, slots=True)
class PcieLinkSettings:
    """How long a link is watched before its generation is believed."""

    window_seconds: float = setting(
        60.0,
        help="How far back the highest generation under load counts.",
        within=(1, 3600),
        source="telemetry of real boards: a link trains up some time after the load begins",
    )
    loaded_seconds: float = setting(
        5.0,
        help="Time under load in that window before the generation is judged.",
        within=(0, 3600),
        source="a link that trains down at rest is slow when a short burst finds it so",
    )


@dataclass(frozen=True, slots=True)
class PowerSettings:
    """How the idle draw is learned."""

    idle_quantile_ratio: float = setting(
        0.05,
        help="Quantile of the draw over empty seconds that counts as the idle draw.",
        source=_SIGNALS,
    )
    idle_minimum_seconds: float = setting(
        60.0,
        help="Empty seconds that must be seen before their quantile is trusted.",
        within=(1, None),
        source=_SIGNALS,
    )
    idle_limit_ratio: float = setting(
        0.15,
        help="Part of the power limit that the idle draw is taken for until it is learned.",
        source="docs/definitions.md, signals; idle H100 70 of 700 W, H200 78 of 700 W",
    )
    idle_memory_seconds: float = setting(
        14400.0,
        help="Empty seconds after which older ones count by half, and again with each so many.",
        within=(60, None),
        source="dcgm-exporter#464: profiling takes an idle A100 from 50 to 100 W; a night of rest "
        "teaches that",
    )


@dataclass(frozen=True, slots=True)
class PressureSettings:
    """What an application says when it is short of GPU, and how long that counts."""

    requests_waiting: float = setting(
        1.0,
        help="Requests in a serving engine's queue from which on its users wait.",
        within=(1, None),
        source="docs/definitions.md, provisioning; an engine that keeps up has no queue",
    )
    kv_cache_ratio: float = setting(
        0.9,
        help="Key-value cache in use from which on a serving engine is short.",
        source=_PROVISIONING,
    )
    preemption_hold_seconds: float = setting(
        60.0,
        help="How long a request that was put back counts as pressure.",
        source="engines are asked every 5 s, and what was put back has to be computed again",
    )
    time_to_first_token_maximum_seconds: float | None = setting(
        None, help="Mean time to the first token that was promised; null where nothing was."
    )
    time_per_output_token_maximum_seconds: float | None = setting(
        None, help="Mean time between two tokens that was promised; null where nothing was."
    )
    request_latency_maximum_seconds: float | None = setting(
        None, help="Mean time of a whole request that was promised; null where nothing was."
    )
    memory_xids: tuple[int, ...] = setting(
        (),
        help="Xids that say that memory ran out.",
        source="none by itself: CUDA tells the program alone; vGPUs are known for 31 and 43",
    )
    memory_xid_hold_seconds: float = setting(
        300.0,
        help="How long such an Xid counts as pressure.",
        source="a block of five minutes, in which risk is counted too",
    )


@dataclass(frozen=True, slots=True)
class EntrySettings:
    """How time is accounted for."""

    gap_minimum_seconds: float = setting(
        5.0, help="The least time that a reading may be away before it is a gap.", source=_STATES
    )
    gap_intervals: float = setting(
        3.0,
        help="The usual intervals that a reading may be away before it is a gap.",
        within=(1, None),
        source=_STATES,
    )
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

    demand_quantile_ratio: float = setting(
        0.99,
        help="Quantile of the active seconds that counts as demand.",
        within=(0.5, 1),
        source=_PROVISIONING,
    )
    minimum_active_seconds: float = setting(
        600.0,
        help="Active seconds under which there is no demand to speak of.",
        source=_PROVISIONING,
    )
    margin_ratio: float = setting(
        0.15,
        help="Room above the demand for compute, memory bandwidth and links.",
        within=(0, 2),
        source=_PROVISIONING,
    )
    memory_margin_ratio: float = setting(
        0.10, help="Room above the demand for memory.", within=(0, 2), source=_PROVISIONING
    )
    underprovisioned_ratio: float = setting(
        0.05,
        help="Share of time under pressure from which on a device is under-provisioned.",
        source=_PROVISIONING,
    )
    preallocated_ratio: float = setting(
        0.6,
        help="Memory in use from which on an unchanging amount looks preallocated.",
        source="JAX takes 75 %, vLLM 90 % of the card",
    )
    preallocated_quantile_ratio: float = setting(
        0.05,
        help="Quantile of the memory in use that counts as its least, so that a start-up does not.",
        within=(0, 0.5),
        source="a start-up of a day and a half in a month",
    )
    preallocated_spread_ratio: float = setting(
        0.02,
        help="Range of the memory in use within which it counts as unchanging.",
        source="a bin of the histogram either way",
    )


@dataclass(frozen=True, slots=True)
class ShapeSettings:
    """When a load counts as one that repeats itself."""

    autocorrelation_ratio: float = setting(
        0.3,
        help="Likeness of hours with those a day, or a week, before that makes a cycle.",
        source="chance alone gives 0.15 over a week of hours",
    )
    weekly_margin_ratio: float = setting(
        0.1,
        help="By how much weeks must resemble each other more than days do.",
        source="a load of equal days has none",
    )
    covered_ratio: float = setting(
        0.9,
        help="Hours of the week that must have been seen before a week counts as covered.",
        source=_CONDUCT,
    )


@dataclass(frozen=True, slots=True)
class TrendSettings:
    """What a trend must rest on."""

    minimum_days: int = setting(
        7,
        help="Days under which there is no trend to speak of.",
        within=(4, 30),
        source="a week, so that its end is no trend",
    )
    day_coverage_ratio: float = setting(
        0.5,
        help="Part of a day that must be known for it to count.",
        source="half a day has its busy hours or its quiet ones",
    )
    level_ratio: float = setting(
        0.9, help="How sure the interval of the slope is.", within=(0.5, 0.999), source=_CONDUCT
    )


@dataclass(frozen=True, slots=True)
class LoadPatternSettings:
    """How a load's past is read."""

    shape: ShapeSettings = field(default_factory=ShapeSettings)
    trend: TrendSettings = field(default_factory=TrendSettings)


@dataclass(frozen=True, slots=True)
class WorkloadAccountSettings:
    """How much is remembered of workloads."""

    most: int = setting(
        64,
        help="Workloads that are remembered; the one seen longest ago is forgotten first.",
        within=(1, 1000),
        source=_SOURCES,
    )


@dataclass(frozen=True, slots=True)
class AccountingSettings:
    """How time becomes states, and states become gauges."""

    holder_gap_seconds: float = setting(
        600.0,
        help="How long a GPU may stand empty before its holder has left it.",
        within=(0, 86400),
        source="a restart of a service is no end of it",
    )
    books: EntrySettings = field(default_factory=EntrySettings)
    decay: DecaySettings = field(default_factory=DecaySettings)
    provisioning: ProvisioningSettings = field(default_factory=ProvisioningSettings)
    workloads: WorkloadAccountSettings = field(default_factory=WorkloadAccountSettings)
    past: LoadPatternSettings = field(default_factory=LoadPatternSettings)


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """What is kept on disk."""

    path: str = setting(
        "/var/lib/rightsizer/history.db", help="The database; empty to keep nothing over a restart."
    )
    retention: float = setting(
        30 * 86400.0,
        help="How long windows are kept.",
        unit="seconds",
        within=(86400.0, 366 * 86400.0),
        source="the longest window that a rule asks for, twice",
        is_live=True,
    )
    fine_retention: float = setting(
        48 * 3600.0,
        help="How long five-minute windows are kept before they are merged into hours.",
        unit="seconds",
        within=(86400.0, 366 * 86400.0),
        source="the 24 h that are answered from five-minute windows, twice",
        is_live=True,
    )
    maximum_size_bytes: int = setting(
        MAXIMUM_BYTES,
        help="What the database may take; beyond it the oldest windows are forgotten before "
        "their time. Its log takes up to 4 MiB more.",
        within=(2**20, None),
        source="docs/benchmarks.md: 64 devices for 30 days",
    )
    flush_interval: float = setting(
        60.0,
        help="Time between two writes; a crash loses no more than this.",
        unit="seconds",
        within=(1.0, 3600.0),
        is_live=True,
    )
