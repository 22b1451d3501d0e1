"""Settings of the live source."""

from typing import Annotated

from msgspec import Struct

from rightsizer.model.values import CONSTANT, Spec


class LiveSettings(Struct, frozen=True):
    """Deadlines, intervals and collectors of the NVML source.

    Attributes:
        deadline_seconds: Time a sample waits for its devices. Calls that take over half of it are
            made less often, except essential ones.
            Source: a fifth of the default interval is left for everything else
        in_turn_seconds: Time one thread may take to read all GPUs in sequence; beyond it the rest
            get their own.
            Source: four times what eight simulated GPUs take that answer at once
        hung_after_seconds: Duration of a driver call after which its device is down, not slow.
            Source: Three default intervals: before the age at which a reading is stale
            (docs/definitions.md, states), so that no stale reading is shown.
        first_look_patience_seconds: Time the first sample waits for a GPU; less when several hang.
            Source: half of the default deadline, so that responding GPUs are read within two ticks
        slow_interval_seconds: Interval between reads of slow signals, valid for two: energy,
            violation times, errors, limits, links, fans.
            Source: dcgm-exporter reads all its fields every 30 s by default
        enumeration_interval_seconds: Interval between device enumerations, to detect hotplug and
            MIG changes.
        retry_first_seconds: Minimum delay between searches for a driver or GPU that is away; else a
            tenth of the time that it has been away.
        retry_longest_seconds: Maximum delay between searches for a driver or GPU that is away.
        unknown_errors_before_reopening: Consecutive samples with only unknown errors before NVML is
            reopened.
        abandon_after_seconds: Time until a new thread tries the device of a hung call.
        abandoned_threads_maximum: Maximum hung threads abandoned per device; then it stays down
            until one returns.
        lost_retention_seconds: How long a GPU that the driver no longer lists is reported as down.
        settling_seconds: How long utilization and power are ignored after NVML is opened on a GPU
            without persistence mode that no process uses: waking reads as load.
            Source: nvidia-smi on an L40S without persistence: 100% and 145 W with no process.
        plausible_limit_ratio: Power draw, of the highest limit, above which it is no reading.
            Source: above what laptops draw by dynamic boost, over their default limit; some boards
            answer 655 W, their sensor's maximum, once in a while
        gpm_shortest_seconds: Minimum time between GPM samples; a MIG instance needs 0.1 s.
            Source: NVML API reference, nvmlGpmMigSampleGet: samples more than 100 ms apart.
        gpm_overshoot_ratio: Excess of a GPM ratio over 1 that is read as 1, not as invalid.
            Source: DCGM issue 152: SM activity slightly above 100% on MIG.
        suspect_busy_ratio: Utilization from which GPM readings of 0 are ignored as invalid.
            Source: dcgm-exporter#662: profiling values silently 0 while utilization is not
        disabled_collectors: Disabled collectors; pcie_throughput blocks for 20 ms per direction,
            and is needed only without GPM.
    """

    deadline_seconds: Annotated[float, Spec(within=(0.01, 60.0))] = 0.8
    in_turn_seconds: Annotated[float, Spec(within=(0.001, 10.0)), CONSTANT] = 0.02
    hung_after_seconds: Annotated[float, Spec(within=(0.01, 3600.0))] = 3.0
    first_look_patience_seconds: Annotated[float, Spec(within=(0.01, 3600.0)), CONSTANT] = 0.4
    slow_interval_seconds: Annotated[float, Spec(within=(1.0, 3600.0))] = 10.0
    enumeration_interval_seconds: Annotated[float, Spec(within=(1.0, 86400.0))] = 60.0
    retry_first_seconds: Annotated[float, Spec(within=(0.1, 3600.0)), CONSTANT] = 1.0
    retry_longest_seconds: Annotated[float, Spec(within=(0.1, 86400.0)), CONSTANT] = 60.0
    unknown_errors_before_reopening: Annotated[int, Spec(within=(1, 1000)), CONSTANT] = 3
    abandon_after_seconds: Annotated[float, Spec(within=(0.01, 86400.0))] = 30.0
    abandoned_threads_maximum: Annotated[int, Spec(within=(0, 100)), CONSTANT] = 2
    lost_retention_seconds: Annotated[float, Spec(within=(0.0, 2592000.0))] = 86400.0
    settling_seconds: Annotated[float, Spec(within=(0.0, 600.0)), CONSTANT] = 3.0
    plausible_limit_ratio: Annotated[float, Spec(within=(1, None)), CONSTANT] = 3.0
    gpm_shortest_seconds: Annotated[float, Spec(within=(0.0, 60.0)), CONSTANT] = 0.1
    gpm_overshoot_ratio: Annotated[float, CONSTANT] = 0.05
    suspect_busy_ratio: Annotated[float, Spec(within=(0.01, 1.0)), CONSTANT] = 0.5
    disabled_collectors: tuple[str, ...] = ("pcie_throughput",)
