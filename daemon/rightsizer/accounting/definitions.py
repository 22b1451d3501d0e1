"""The definitions of accounting: derived signals, states, conditions, use, waste and pressure.

Each is a row over named signals, facts and settings, read by `float_interpreter` for the agent's
readings and by the fleet for columns of a store; `docs/definitions.md` explains them.
"""

from typing import Final

from msgspec import Struct

from rightsizer.accounting.expressions import (
    ALWAYS,
    UNKNOWN,
    Choice,
    Claim,
    Clipped,
    Constant,
    FirstKnown,
    Flag,
    HasBits,
    Highest,
    Known,
    Lowest,
    Name,
    Setting,
    Stronger,
    Term,
    Unless,
    When,
    at_least,
    below,
    highest,
    rests,
    share,
)
from rightsizer.model.values import (
    MEDIA_ENGINES,
    PIPES,
    Cause,
    ClockEvent,
    Condition,
    Resource,
    Signal,
    State,
    Tier,
    UnknownReason,
)

COUNTERS: Final = (Signal.SM_ACTIVE, Signal.DRAM_ACTIVE, *PIPES)
"""Profiling counters."""
PCIE: Final = (Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT)
NVLINK: Final = (Signal.NVLINK_RECEIVE, Signal.NVLINK_TRANSMIT)
_ENGINES: Final = (*MEDIA_ENGINES, Signal.OFA)
_PORTS: Final = (Signal.INFINIBAND_RECEIVE, Signal.INFINIBAND_TRANSMIT)
_ALL: Final = Constant(1.0)

CLOCK_RATIO: Final = FirstKnown((share("sm_clock_hertz", "sm_clock_capacity_hertz"), _ALL))
RATIOS: Final[tuple[tuple[Signal, Term], ...]] = (
    (Signal.MEMORY_USED, share("memory_used_bytes", "memory_capacity_bytes")),
    # The highest draw is no limit: of seven GPUs that only spin, it is the draw of spinning.
    (
        Signal.POWER,
        share(
            Name("power_watts") - Name("idle_watts"),
            Name("power_capacity_watts") - Name("idle_watts"),
        ),
    ),
    *((signal, share(f"{signal}_bytes_per_second", "pcie_bytes_per_second")) for signal in PCIE),
    *(
        (signal, share(f"{signal}_bytes_per_second", "nvlink_bytes_per_second"))
        for signal in NVLINK
    ),
)
"""Signals of a device's capacity, where they are not read themselves."""
DEAD_COUNTERS: Final = at_least("gpu_busy", "suspect_busy_ratio") & at_least(
    "power", "suspect_power_ratio"
)
"""Where profiling counters that all read 0 are not believed (dcgm-exporter#662)."""

DERIVED: Final[dict[str, Term]] = {
    "counters": highest(*COUNTERS),
    "pipes": highest(*PIPES),
    # Media engines may work while the SMs are idle.
    "engines": highest(*_ENGINES),
    "media": highest(*MEDIA_ENGINES),
    "pcie": highest(*PCIE),
    "nvlink": highest(*NVLINK),
    "ports": highest(*_PORTS),
    "work": highest("gpu_busy", *PIPES, *_ENGINES),
    "traffic": highest("dram_active", *PCIE, *NVLINK),
    # A busy encoder leaves no gaps, even with idle SMs.
    "kept_busy": Choice(Known("gpu_busy"), highest("gpu_busy", *_ENGINES), UNKNOWN),
    "covered": Name("sm_active") / Name("gpu_busy"),
    # Boards with displays read memory while idle, which takes a third of the time at their low
    # idle clock.
    "memory_work": FirstKnown(
        (
            Name("memory_controller_busy")
            * share("memory_clock_hertz", "memory_clock_maximum_hertz"),
            Name("memory_controller_busy"),
        )
    ),
    "memory_in_use_bytes": FirstKnown(
        (Name("memory_used_bytes"), Name("memory_used") * Name("memory_total_bytes"))
    ),
}
"""Terms that several rows share, in order of use."""

SM_WORK: Final = Name("sm_active") * Name("clock_ratio")
TIERS: Final[tuple[tuple[Tier, Claim], ...]] = (
    (Tier.PROFILING, Known("counters")),
    (Tier.POWER, Known("gpu_busy") & Known("power")),
    (Tier.BASIC, Known("gpu_busy")),
    (Tier.NONE, ALWAYS),
)
"""Tier of telemetry, first match."""

HAS_UTILIZATION: Final = Known("counters") | Known("gpu_busy")
SEES_COMPUTE: Final = Known("gpu_busy") | Known("sm_active")
"""Whether a kernel would be visible; one idle pipe does not rule out the others."""
_HAS_COUNTERS: Final = Known("pipes") | Known("dram_active")
ACTIVE: Final = (
    at_least("work", "active_ratio")
    | at_least("sm_active", "active_sm_ratio")
    | at_least("traffic", "active_traffic_ratio")
)
"""A device is idle only if no signal shows any activity."""
HELD: Final = Flag("process_count") | When(
    Known("memory_used"),
    at_least(
        "memory_used",
        Highest(
            (
                Setting("empty_memory_ratio"),
                Setting("empty_memory_bytes") / Name("memory_total_bytes"),
            )
        ),
    ),
    # Of what is unmeasured a part may be held.
    When(
        Known("memory_used_bytes"),
        at_least("memory_used_bytes", "empty_memory_bytes"),
        ~Known("process_count"),
    ),
)
_WAKING: Final = (
    # Logs of only utilization and memory may sample the two at different times.
    When(Known("process_count"), ~Flag("process_count"), Known("power_watts"))
    & below("memory_in_use_bytes", "context_memory_bytes")
    # Counters of SMs, pipes and memory are reliable here.
    & rests("sm_active", "active_sm_ratio")
    & rests("pipes", "active_ratio")
    & rests("dram_active", "active_traffic_ratio")
)
"""Busy without cause, as a GPU reads while waking up."""
_COPY_CONTROLLER: Final = Lowest(
    (Setting("stall_memory_controller_ratio"), Setting("stall_copy_controller_ratio"))
)
_SPINS: Final = (
    rests("engines", "stall_engine_ratio")
    # NVML counts a copy as utilization; GPM does not.
    & rests("pcie", "stall_link_ratio")
    & rests("nvlink", "stall_link_ratio")
    & When(
        _HAS_COUNTERS,
        rests("pipes", "stall_pipe_ratio") & rests("dram_active", "stall_dram_ratio"),
        When(
            Known("pcie"),
            rests("memory_work", "stall_memory_controller_ratio"),
            rests("memory_work", _COPY_CONTROLLER),
        ),
    )
)
"""A resident kernel is the only activity."""
MAY_STALL: Final = ~Known("power") & _SPINS & at_least("gpu_busy", "stall_busy_ratio")
"""A stall that cannot be ruled out without power."""
_SLOWED_POWER: Final = Setting("stall_power_ratio") * Name("clock_ratio")
LOOKS_STALLED: Final = at_least("gpu_busy", "stall_busy_ratio") & below("power", _SLOWED_POWER)
"""Two such devices of a workload confirm a hidden stall."""
_HIDDEN_STALL: Final = (
    When(
        _HAS_COUNTERS,
        at_least("gpu_busy", "stall_busy_ratio") & below("power", "stall_power_ratio"),
        When(
            Flag("peer_stalls"),
            at_least("gpu_busy", "stall_busy_ratio"),
            at_least("gpu_busy", "stall_busy_alone_ratio"),
        )
        # Work at a low clock draws little as well; do not report possible work as a stall.
        & below("power", _SLOWED_POWER),
    )
    & _SPINS
)
_MEMORY_BANDWIDTH: Final = at_least("dram_active", "dram_ratio") | (
    at_least("dram_active", "dram_alone_ratio")
    # Only with tensor cores, which do most of the work, can pipes be ruled out as the limit.
    & Known("tensor_active")
    & below("pipes", "pipe_ratio")
)
_LAUNCH: Final = (
    at_least("gpu_busy", "launch_busy_ratio")
    & below("sm_active", "launch_sm_ratio")
    & below("covered", "launch_coverage_ratio")
) | (
    # A process that launches without rest leaves gaps as a lightly used service does, but no CPU.
    at_least("gpu_busy", "sparse_launch_busy_ratio")
    & below("covered", "sparse_launch_coverage_ratio")
    & at_least("process_cpu", "sparse_launch_cpu_ratio")
    # Under pressure, the gaps are the host's or the storage's.
    & rests("cpu_pressure", "cpu_pressure_ratio")
    & rests("io_pressure", "io_pressure_ratio")
)
_GAPS: Final = below("kept_busy", "gap_busy_ratio")
_STORAGE: Final = _GAPS & at_least("io_pressure", "io_pressure_ratio")
_HOST: Final = _GAPS & (
    at_least("cpu", "cpu_ratio") | at_least("cpu_pressure", "cpu_pressure_ratio")
)


class StateRow(Struct, frozen=True):
    """State of a device if a claim holds and none of the rows before it."""

    state: State
    claim: Claim
    unknown_reason: UnknownReason | None = None
    """Set only for the state `unknown`."""


AT_REST: Final = (
    StateRow(State.UNKNOWN, ~SEES_COMPUTE, UnknownReason.PARTIAL_COUNTERS),
    StateRow(State.UNKNOWN, at_least("power", "idle_power_ratio"), UnknownReason.DRAWS_POWER),
    StateRow(State.IDLE_EMPTY, ~HELD),
    StateRow(State.IDLE_HELD, ALWAYS),
)
"""States of a device that is not active."""
LIMITS: Final = (
    StateRow(State.HIDDEN_STALL, _HIDDEN_STALL),
    StateRow(State.PCIE_BOUND, at_least("pcie", "link_ratio") & rests("pipes", "link_pipe_ratio")),
    StateRow(State.MEMORY_BANDWIDTH_BOUND, _MEMORY_BANDWIDTH),
    StateRow(State.COMPUTE_BOUND, at_least("pipes", "pipe_ratio")),
    # A spinning kernel covers as few SMs; without power the two cannot be told apart.
    StateRow(State.LAUNCH_BOUND, Unless(_LAUNCH, MAY_STALL)),
    StateRow(State.STORAGE_BOUND, Unless(_STORAGE, Stronger(_HOST, _STORAGE))),
    StateRow(State.HOST_BOUND, _HOST),
)
"""What keeps an active device from more."""
AT_WORK: Final = (
    StateRow(State.UNKNOWN, _WAKING, UnknownReason.NO_HOLDER),
    *LIMITS,
    # A limit shows in its own signal; that there is none takes all of the work.
    StateRow(State.UNKNOWN, ~SEES_COMPUTE, UnknownReason.PARTIAL_COUNTERS),
    StateRow(State.PRODUCTIVE, ALWAYS),
)
"""States of an active device."""
SUSPECTED: Final = (
    StateRow(
        State.MEMORY_BANDWIDTH_BOUND,
        ~Known("counters") & at_least("memory_controller_busy", "controller_bound_ratio"),
    ),
)
"""Second cause of work that no limit explains, by a signal that suggests and does not prove."""
WAITS: Final = frozenset({State.STORAGE_BOUND, State.HOST_BOUND})
"""States that explain gaps or complete inactivity."""

# Plain ints: operators of flags create members, for each device and second.
_SLOWDOWN: Final = int(ClockEvent.HW_SLOWDOWN | ClockEvent.HW_POWER_BRAKE_SLOWDOWN)
_THERMAL: Final = int(ClockEvent.SW_THERMAL_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN)
_COSTS_WORK: Final = at_least("gpu_busy", "throttle_busy_ratio", if_unknown=True) & (
    ~Known("sm_clock_hertz") | below("clock_ratio", "throttle_clock_ratio")
)
CONDITIONS: Final[tuple[tuple[Condition, Claim], ...]] = (
    (
        Condition.POWER_THROTTLED,
        HasBits("clock_event_reasons", int(ClockEvent.SW_POWER_CAP)) & _COSTS_WORK,
    ),
    (Condition.THERMAL_THROTTLED, HasBits("clock_event_reasons", _THERMAL) & _COSTS_WORK),
    (Condition.HARDWARE_SLOWDOWN, HasBits("clock_event_reasons", _SLOWDOWN)),
    # By the limit of device and slot; the board alone may promise more.
    (
        Condition.PCIE_LINK_DEGRADED,
        (Flag("pcie_link_width") & below("pcie_link_width", Name("pcie_width_stated")))
        | (
            Flag("loaded_link_generation")
            & below("loaded_link_generation", Name("pcie_generation_stated"))
            & at_least("gpu_busy", "load_busy_ratio")
        ),
    ),
    # Processes free to run anywhere are not misplaced: the scheduler knows better. They are if
    # most of their memory, or their CPU affinity, is on another node while data moves.
    (
        Condition.NUMA_MISPLACED,
        at_least("pcie", "placement.traffic_ratio")
        & (
            below("host_memory_local", "placement.memory_local_ratio")
            | below("cpu_affinity_local", "placement.cpu_local_ratio")
        ),
    ),
    (
        Condition.NEAR_OUT_OF_MEMORY,
        at_least("memory_used", "near_out_of_memory_ratio") & ~Flag("is_preallocated"),
    ),
    (
        Condition.NO_TENSOR_CORES,
        below("tensor_active", "no_tensor_ratio")
        & at_least("sm_active", "no_tensor_sm_ratio")
        & at_least("fp32_active", "no_tensor_fp32_ratio"),
    ),
    (Condition.RANK_IMBALANCE, Flag("is_out_of_balance")),
    # Limited to ports with a known rate; other interfaces do not report their capacity.
    (
        Condition.NETWORK_BOUND,
        at_least("ports", "network.port_ratio")
        & at_least("gpu_busy", "network.busy_ratio")
        # By the best signal available: a collective's kernels keep a waiting GPU busy.
        & When(
            Known("pipes"),
            below("pipes", "network.pipe_ratio") & rests("dram_active", "network.dram_ratio"),
            When(
                Known("power"),
                below("power", "network.power_ratio"),
                below("gpu_busy", "network.gap_busy_ratio"),
            ),
        ),
    ),
)
"""All conditions; one with missing signals does not hold."""

USED_COMPUTE: Final[dict[str, Term]] = {
    # The busiest pipe over its achievable share, by the clock.
    "compute_at_least": share("pipes", "achievable_compute_ratio") * Name("clock_ratio"),
    "compute_at_most": FirstKnown((Name("sm_work"), Name("gpu_busy") * Name("clock_ratio"))),
    "compute": Choice(
        Known("counters"),
        Choice(Known("compute_at_most"), highest("compute_at_most", "compute_at_least"), UNKNOWN),
        Name("gpu_busy") * Lowest((_ALL, Name("power") / Setting("working_power_ratio"))),
    ),
    "compute_at_work": FirstKnown((Name("compute_at_least"), Name("compute"))),
}
"""Bounds of the compute in use, in order of use."""
USED: Final[tuple[tuple[Resource, Term], ...]] = (
    (Resource.COMPUTE, Name("compute")),
    (Resource.MEMORY, Name("memory_used")),
    (Resource.MEMORY_BANDWIDTH, Name("dram_active")),
    (Resource.PCIE, Name("pcie")),
    (Resource.NVLINK, Name("nvlink")),
    # Few GPUs ever use media engines; for others this would export series of zeros.
    (Resource.MEDIA, Choice(Flag("media"), Name("media"), UNKNOWN)),
)
"""Share in use of each resource."""
SATURATED: Final[tuple[tuple[Resource, Claim], ...]] = (
    (Resource.COMPUTE, at_least("compute_at_work", "compute_saturated_ratio")),
    (Resource.MEMORY, at_least("memory_used", "memory_saturated_ratio")),
    (Resource.MEMORY_BANDWIDTH, at_least("dram_active", "bandwidth_saturated_ratio")),
    (Resource.PCIE, at_least("pcie", "link_saturated_ratio")),
    (Resource.NVLINK, at_least("nvlink", "link_saturated_ratio")),
    (Resource.MEDIA, Flag("media") & at_least("media", "compute_saturated_ratio")),
)
"""Whether each resource is at its limit."""
USED_RATIO: Final = Clipped(
    highest(
        "compute_at_work",
        Name("dram_active") / Name("achievable_bandwidth_ratio"),
        Name("pcie") / Setting("link_achievable_ratio"),
        Name("nvlink") / Setting("link_achievable_ratio"),
        Choice(Flag("media"), Name("media"), UNKNOWN),
    )
)
"""Of the busiest resource's achievable part; memory capacity does not count as work."""

Losses = tuple[tuple[Cause, Term], ...]
"""Causes with the most that each explains; what is left goes on to the next."""
_BY_LIMIT: Final[Losses] = (
    (Cause.THROTTLED, Choice(Flag("is_throttled"), _ALL - Name("clock_ratio"), Constant(0.0))),
    (Cause.HEADROOM, _ALL),
)
LOSSES: Final[dict[State, Losses]] = {
    State.PRODUCTIVE: _BY_LIMIT,
    State.COMPUTE_BOUND: _BY_LIMIT,
    State.MEMORY_BANDWIDTH_BOUND: _BY_LIMIT,
    State.IDLE_EMPTY: ((Cause.IDLE, _ALL),),
    State.IDLE_HELD: ((Cause.IDLE, _ALL),),
    State.HIDDEN_STALL: ((Cause.STALLED, _ALL),),
    State.HOST_BOUND: ((Cause.HOST, _ALL),),
    State.STORAGE_BOUND: ((Cause.STORAGE, _ALL),),
    State.PCIE_BOUND: ((Cause.PCIE, _ALL),),
    # Launches cost the time without a kernel; what a small kernel leaves of the GPU is headroom.
    State.LAUNCH_BOUND: (
        (Cause.LAUNCH, FirstKnown((_ALL - Name("gpu_busy"), _ALL))),
        (Cause.HEADROOM, _ALL),
    ),
}
"""Where the unused part of a state's time goes."""

_HAS_QUEUE: Final = at_least("requests_waiting", "requests_waiting")
_IS_CACHE_FULL: Final = at_least("kv_cache_used", "kv_cache_ratio")
USERS_WAIT: Final = Flag("has_preempted") | _HAS_QUEUE | _IS_CACHE_FULL | Flag("is_late")
"""Whether a saturated resource other than memory is short."""
MEMORY_SHORT: Final = (
    Flag("is_out_of_memory")
    | Flag("is_near_out_of_memory")
    # Whatever memory an engine allocated, requests wait for its full cache.
    | (_HAS_QUEUE & _IS_CACHE_FULL)
)
