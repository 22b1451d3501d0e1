"""Thresholds of signals, states, conditions, pressure and usage."""

from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.units import MIB


@dataclass(frozen=True, slots=True)
class ClassificationSettings:
    """Where one state ends and another begins."""

    active_ratio: float = setting(0.01)
    active_sm_ratio: float = setting(0.005)
    active_traffic_ratio: float = setting(0.05)
    empty_memory_ratio: float = setting(0.01)
    empty_memory_bytes: float = setting(512 * MIB)
    context_memory_bytes: float = setting(64 * MIB)
    idle_power_ratio: float = setting(0.5)
    stall_busy_ratio: float = setting(0.8)
    stall_power_ratio: float = setting(0.25)
    stall_engine_ratio: float = setting(0.05)
    stall_pipe_ratio: float = setting(0.02)
    stall_dram_ratio: float = setting(0.05)
    stall_busy_alone_ratio: float = setting(0.98)
    stall_memory_controller_ratio: float = setting(0.05)
    link_ratio: float = setting(0.6)
    link_pipe_ratio: float = setting(0.3)
    dram_ratio: float = setting(0.65)
    dram_alone_ratio: float = setting(0.5)
    pipe_ratio: float = setting(0.5)
    launch_busy_ratio: float = setting(0.5)
    launch_sm_ratio: float = setting(0.25)
    launch_coverage_ratio: float = setting(0.4)
    gap_busy_ratio: float = setting(0.7)
    io_pressure_ratio: float = setting(0.2)
    cpu_pressure_ratio: float = setting(0.2)
    cpu_ratio: float = setting(0.9)
    second_cause_score: float = setting(0.25, unit="ratio")


@dataclass(frozen=True, slots=True)
class SignalSettings:
    """When profiling counters are not believed."""

    suspect_busy_ratio: float = setting(0.5)
    suspect_power_ratio: float = setting(0.25)
    stand_in_limit_ratio: float = setting(2.0, within=(1, None))


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """From when on the network is what a GPU waits for."""

    port_ratio: float = setting(0.6)
    busy_ratio: float = setting(0.1)
    pipe_ratio: float = setting(0.3)
    dram_ratio: float = setting(0.5)
    power_ratio: float = setting(0.6)
    gap_busy_ratio: float = setting(0.7)


@dataclass(frozen=True, slots=True)
class NumaPlacementSettings:
    """From when on processes count as being on the wrong NUMA node."""

    memory_local_ratio: float = setting(0.5)
    cpu_local_ratio: float = setting(0.1)
    traffic_ratio: float = setting(0.02)


@dataclass(frozen=True, slots=True)
class ConditionSettings:
    """From when on a condition holds."""

    throttle_busy_ratio: float = setting(0.5)
    throttle_clock_ratio: float = setting(0.9)
    load_busy_ratio: float = setting(0.1)
    near_out_of_memory_ratio: float = setting(0.95)
    no_tensor_sm_ratio: float = setting(0.5)
    no_tensor_fp32_ratio: float = setting(0.2)
    no_tensor_ratio: float = setting(0.02)
    placement: NumaPlacementSettings = field(default_factory=NumaPlacementSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """What counts as all of a resource."""

    working_power_ratio: float = setting(0.6, within=(0.1, 1))
    link_achievable_ratio: float = setting(0.9, within=(0.1, 1))
    compute_saturated_ratio: float = setting(0.9)
    memory_saturated_ratio: float = setting(0.95)
    bandwidth_saturated_ratio: float = setting(0.65)
    link_saturated_ratio: float = setting(0.6)
