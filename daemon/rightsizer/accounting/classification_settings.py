"""Thresholds of signals, states, conditions, pressure and usage."""

from typing import Annotated, Final

from msgspec import Struct

from rightsizer.model.values import CONSTANT, MIB, Spec

_STATES: Final = "docs/definitions.md, states"
_SOURCES: Final = "docs/definitions.md, sources"


class ClassificationSettings(Struct, frozen=True):
    """Thresholds between states. Power is a share of the range from idle power to power limit.

    Attributes:
        active_ratio: Busy share of any engine from which a device is active.
            Source: docs/definitions.md, states
        active_sm_ratio: SM activity from which a device is active.
            Source: execution idle of arXiv:2604.04745
        active_traffic_ratio: Memory, PCIe or NVLink traffic from which a device is active.
            Source: above the idle noise of profiling counters
        empty_memory_ratio: Memory utilization below which the device is empty.
            Source: docs/definitions.md, states
        empty_memory_bytes: The same as a size; the larger applies.
            Source: docs/definitions.md, states
        context_memory_bytes: Memory in use below which no program can run; a busy device without
            processes is then waking.
            Source: nvidia-smi on an L40S without persistence: 100% with no process and 0 MiB; a
            CUDA context takes more than 64 MiB
        idle_power_ratio: Power from which counters that read idle are not trusted.
            Source: dcgm-exporter#662: counters that read 0 under load; a context alone draws up to
            .3 (L4: 33 of 72 W, idle 17)
        stall_busy_ratio: Minimum utilization of a hidden stall.
            Source: docs/definitions.md, states; NVIDIA/nccl#968
        stall_power_ratio: Power below which a busy device does no work; without profiling counters,
            at the highest clock, and in proportion at lower ones.
            Source: docs/definitions.md, states; NVIDIA/nccl#968
        stall_engine_ratio: Media engine utilization from which a busy device works.
            Source: above the noise of idle engines; video encoding does not use SMs
        stall_link_ratio: Utilization of a PCIe or NVLink direction from which a busy device copies.
            Source: an H200 that only copies reads 100% utilization at 9% power and .93 of its link;
            a waiting collective moves nothing
        stall_pipe_ratio: Activity of all pipes below which a busy device does no work.
            Source: docs/definitions.md, states
        stall_dram_ratio: Memory traffic below which a busy device does no work.
            Source: docs/definitions.md, states
        stall_busy_alone_ratio: Utilization that by itself shows a hidden stall without profiling
            counters.
            Source: docs/definitions.md, states
        stall_memory_controller_ratio: Memory controller utilization, at the highest memory clock,
            from which a busy device at low power works.
            Source: as for memory traffic; an H100 at its full 632 W reads no more than .11
        stall_copy_controller_ratio: The same where PCIe traffic is unknown: from it the device may
            be copying.
            Source: H100 and H200 that only copy read .02, one that waits for a collective 0
        link_ratio: Utilization of a PCIe direction from which it is the limit.
            Source: docs/definitions.md, states
        link_pipe_ratio: Pipe activity from which PCIe is not the limit.
            Source: KempnerPulse's class of PCIe-bound work
        dram_ratio: Memory traffic from which memory is the limit, regardless of the pipes.
            Source: docs/definitions.md, states
        dram_alone_ratio: Memory traffic from which memory is the limit if no pipe is.
            Source: docs/definitions.md, states; KempnerPulse
        controller_bound_ratio: Memory controller utilization from which, without profiling
            counters, memory is likely the limit.
            Source: evaluation/RESULTS.md, memory limits of logs: halfway between programs
            that memory limits and others
        pipe_ratio: Activity of a pipe from which it is the limit.
            Source: docs/definitions.md, states
        launch_busy_ratio: Minimum utilization of a launch-bound device.
            Source: KempnerPulse's class of launch-bound work has .4 to .6
        launch_sm_ratio: SM activity below which a busy device waits for launches.
            Source: docs/definitions.md, states
        launch_coverage_ratio: SM activity during busy time from which a device has gaps, not small
            kernels.
            Source: activity is a mean that gaps lower as well; NVIDIA calls less than .5
            ineffective
        sparse_launch_busy_ratio: Minimum utilization of a launch-bound device with gaps between its
            kernels.
            Source: docs/benchmarks.md, on real GPUs: launches from Python read 15% to 37%
        sparse_launch_coverage_ratio: SM activity during busy time from which such a device has
            large kernels.
            Source: docs/benchmarks.md, on real GPUs: at most 10% where launches limit, 75% where
            a loader does
        sparse_launch_cpu_ratio: CPU time of the device's busiest process, of one CPU, from which it
            launches without rest.
            Source: docs/benchmarks.md, on real GPUs: 1 where launches limit, at most .1 where
            demand or other processes do
        gap_busy_ratio: Utilization below which a device has gaps.
            Source: SageMaker Debugger's LowGPUUtilization: P95 below 70%
        io_pressure_ratio: I/O pressure that explains gaps.
            Source: docs/definitions.md, sources: host: CPU 90% of quota, PSI 20%
        cpu_pressure_ratio: CPU pressure that explains gaps.
            Source: docs/definitions.md, sources: host: CPU 90% of quota, PSI 20%
        cpu_ratio: CPU usage, as a share of the quota, that explains gaps.
            Source: docs/definitions.md, sources: host: CPU 90% of quota
        second_cause_score: Score from which another state is reported as the second cause.
            Source: half a match
    """

    active_ratio: Annotated[float, CONSTANT] = 0.01
    active_sm_ratio: Annotated[float, CONSTANT] = 0.005
    active_traffic_ratio: Annotated[float, CONSTANT] = 0.05
    empty_memory_ratio: Annotated[float, CONSTANT] = 0.01
    empty_memory_bytes: Annotated[float, CONSTANT] = 512 * MIB
    context_memory_bytes: Annotated[float, CONSTANT] = 64 * MIB
    idle_power_ratio: Annotated[float, CONSTANT] = 0.5
    stall_busy_ratio: Annotated[float, CONSTANT] = 0.8
    stall_power_ratio: Annotated[float, CONSTANT] = 0.25
    stall_engine_ratio: Annotated[float, CONSTANT] = 0.05
    stall_link_ratio: Annotated[float, CONSTANT] = 0.2
    stall_pipe_ratio: Annotated[float, CONSTANT] = 0.02
    stall_dram_ratio: Annotated[float, CONSTANT] = 0.05
    stall_busy_alone_ratio: Annotated[float, CONSTANT] = 0.98
    stall_memory_controller_ratio: Annotated[float, CONSTANT] = 0.05
    stall_copy_controller_ratio: Annotated[float, CONSTANT] = 0.015
    link_ratio: Annotated[float, CONSTANT] = 0.6
    link_pipe_ratio: Annotated[float, CONSTANT] = 0.3
    dram_ratio: Annotated[float, CONSTANT] = 0.65
    dram_alone_ratio: Annotated[float, CONSTANT] = 0.5
    controller_bound_ratio: Annotated[float, CONSTANT] = 0.67
    pipe_ratio: Annotated[float, CONSTANT] = 0.5
    launch_busy_ratio: Annotated[float, CONSTANT] = 0.5
    launch_sm_ratio: Annotated[float, CONSTANT] = 0.25
    launch_coverage_ratio: Annotated[float, CONSTANT] = 0.4
    sparse_launch_busy_ratio: Annotated[float, CONSTANT] = 0.05
    sparse_launch_coverage_ratio: Annotated[float, CONSTANT] = 0.2
    sparse_launch_cpu_ratio: Annotated[float, CONSTANT] = 0.9
    gap_busy_ratio: Annotated[float, CONSTANT] = 0.7
    io_pressure_ratio: Annotated[float, CONSTANT] = 0.2
    cpu_pressure_ratio: Annotated[float, CONSTANT] = 0.2
    cpu_ratio: Annotated[float, CONSTANT] = 0.9
    second_cause_score: Annotated[float, Spec(unit="ratio"), CONSTANT] = 0.25


class SignalSettings(Struct, frozen=True):
    """Plausibility of profiling counters. Power is a share from idle to limit.

    Attributes:
        suspect_busy_ratio: Utilization from which profiling counters that all read 0 may be dead.
            Source: dcgm-exporter#662
        suspect_power_ratio: Power from which such counters are dead; below it a stall is possible.
            Source: docs/definitions.md, states: the power of a hidden stall
    """

    suspect_busy_ratio: float = 0.5
    suspect_power_ratio: float = 0.25


class NetworkSettings(Struct, frozen=True):
    """Detection of GPUs that wait for the network.

    Attributes:
        port_ratio: Utilization of the nearest fabric ports in one direction from which they are the
            limit.
            Source: as for PCIe: exchanges alternate with work, so that the mean stays below the
            peak
        busy_ratio: Utilization from which a GPU takes part in the exchange; others share the ports.
            Source: as for the PCIe generation: a load
        pipe_ratio: Pipe activity from which a GPU does not wait.
            Source: docs/definitions.md, states: as for PCIe
        dram_ratio: Memory traffic from which a GPU does not wait.
            Source: docs/definitions.md, states: memory traffic that limits
        power_ratio: Power, from idle to limit, from which a GPU without profiling counters does not
            wait.
            Source: docs/definitions.md, sources: power .6 of a GPU that works fully
        gap_busy_ratio: Utilization below which a GPU waits where neither counters nor power are
            known.
            Source: docs/definitions.md, states: gaps
    """

    port_ratio: float = 0.6
    busy_ratio: float = 0.1
    pipe_ratio: float = 0.3
    dram_ratio: float = 0.5
    power_ratio: float = 0.6
    gap_busy_ratio: float = 0.7


class NumaPlacementSettings(Struct, frozen=True):
    """Detection of processes on the wrong NUMA node.

    Attributes:
        memory_local_ratio: Share of host memory on the GPU's NUMA node below which most is remote.
            Source: docs/definitions.md, sources: NUMA: more than half
        cpu_local_ratio: Share of allowed CPUs on the GPU's NUMA node below which processes are kept
            on others.
            Source: docs/definitions.md, sources: NUMA; eight nodes are the most that a server has
        traffic_ratio: Utilization of a PCIe direction from which the placement matters.
            Source: KempnerPulse calls 1 GB/s input and output: 1.6% of a PCIe 5 link
    """

    memory_local_ratio: float = 0.5
    cpu_local_ratio: float = 0.1
    traffic_ratio: float = 0.02


class ConditionSettings(Struct, frozen=True):
    """Thresholds of conditions.

    Attributes:
        throttle_busy_ratio: Utilization from which reduced clocks cost work.
            Source: assumed
        throttle_clock_ratio: SM clock, of the maximum, below which a throttle reason matters.
            Source: assumed
        load_busy_ratio: Utilization from which the PCIe generation is judged; idle links train
            down.
            Source: NVSentinel#890: idle GPUs lower their PCIe generation
        near_out_of_memory_ratio: Memory utilization from which the next allocation may fail.
            Source: assumed
        no_tensor_sm_ratio: SM activity from which unused tensor cores are reported.
        no_tensor_fp32_ratio: FP32 activity from which unused tensor cores are reported.
        no_tensor_ratio: Tensor activity below which the tensor cores count as unused.
    """

    throttle_busy_ratio: Annotated[float, CONSTANT] = 0.5
    throttle_clock_ratio: Annotated[float, CONSTANT] = 0.9
    load_busy_ratio: Annotated[float, CONSTANT] = 0.1
    near_out_of_memory_ratio: Annotated[float, CONSTANT] = 0.95
    no_tensor_sm_ratio: Annotated[float, Spec(source=_SOURCES), CONSTANT] = 0.5
    no_tensor_fp32_ratio: Annotated[float, Spec(source=_SOURCES), CONSTANT] = 0.2
    no_tensor_ratio: Annotated[float, Spec(source=_SOURCES), CONSTANT] = 0.02
    placement: Annotated[NumaPlacementSettings, CONSTANT] = NumaPlacementSettings()
    network: Annotated[NetworkSettings, CONSTANT] = NetworkSettings()


class UsageSettings(Struct, frozen=True):
    """Full use of each resource.

    Attributes:
        working_power_ratio: Power, from idle to limit, of a busy, fully used device without
            profiling.
            Source: docs/definitions.md, provisioning, tier N
        link_achievable_ratio: Share of a PCIe or NVLink direction's bandwidth that a copy achieves.
            Source: published copy benchmarks reach 85 to 92% of a PCIe link
        compute_saturated_ratio: Share of the achievable compute from which it is saturated.
            Source: KempnerPulse: tensor about 0.93 at saturation
        memory_saturated_ratio: Memory utilization from which it is saturated.
        bandwidth_saturated_ratio: Memory traffic from which the bandwidth is saturated.
            Source: docs/definitions.md, states; practical peak about 0.8
        link_saturated_ratio: Utilization of a link's direction from which it is saturated.
    """

    working_power_ratio: Annotated[float, Spec(within=(0.1, 1))] = 0.6
    link_achievable_ratio: Annotated[float, Spec(within=(0.1, 1))] = 0.9
    compute_saturated_ratio: float = 0.9
    memory_saturated_ratio: Annotated[float, Spec(source=_SOURCES)] = 0.95
    bandwidth_saturated_ratio: float = 0.65
    link_saturated_ratio: Annotated[float, Spec(source=_STATES)] = 0.6
