"""The static rules that others use, as pure functions of what they look at, mapped to our states.

Each rule is given for free what it does not judge: a device that no one holds is empty. Where a
rule's verdict has no counterpart among the states, the mapping favors the rule and says so.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from rightsizer.model.state import State

_MINUTE: Final = 60.0


class BaselineInput(Struct, frozen=True):
    """Input of the baseline rules: ratios; `None` if not read."""

    utilization: float | None
    """NVML's, in whole percents."""
    engine: float | None = None
    """Graphics engine activity, of profiling counters."""
    sm: float = 0.0
    tensor: float = 0.0
    fp64: float = 0.0
    dram: float = 0.0
    has_counters: bool = False
    pcie_bytes_per_second: float = 0.0
    cpu: float = 0.0
    io_pressure: float = 0.0
    is_held: bool = True


class Watched(Struct, frozen=True):
    """A device with what a rule remembers of it."""

    now: BaselineInput
    held_seconds: float = 0.0
    """Since its holder came."""
    zero_seconds: float = 0.0
    """For how long utilization has read 0."""
    engine_zero_seconds: float = 0.0
    """For how long graphics engine activity, or utilization in its place, has read 0."""
    utilization_p95: float = 1.0
    """Of the last 500 readings."""


Baseline = Callable[[Watched, Sequence[Watched]], State]
"""A device and all the devices of its workload, itself among them."""


def gpu_pruner(device: Watched, together: Sequence[Watched]) -> State:
    """Nothing for 30 min on any GPU of a pod that is 35 min old: the pod is scaled down.

    Source: wseaton/gpu-pruner, defaults `--duration 30 --grace-period 300`, without power veto.
    """
    if not device.now.is_held:
        return State.IDLE_EMPTY
    old = all(each.held_seconds >= 35 * _MINUTE for each in together)
    idle = any(each.engine_zero_seconds >= 30 * _MINUTE for each in together)
    return State.IDLE_HELD if old and idle else State.PRODUCTIVE


def job_defense_shield(device: Watched, together: Sequence[Watched]) -> State:
    """Any GPU of a job at 0% for its first 2 h, or for 5 h later on: the job is canceled.

    Source: PrincetonUniversity/job_defense_shield, `cancel_minutes: 120`, sliding 300,
    `gpu_frac_threshold: 1.0`.
    """
    if not device.now.is_held:
        return State.IDLE_EMPTY
    canceled = any(
        each.zero_seconds >= 300 * _MINUTE
        or (each.zero_seconds >= each.held_seconds and each.held_seconds >= 120 * _MINUTE)
        for each in together
    )
    return State.IDLE_HELD if canceled else State.PRODUCTIVE


def utilization_alone(device: Watched, _: Sequence[Watched]) -> State:
    """Below 1% of DCGM_FI_DEV_GPU_UTIL a GPU is idle, else it works: the usual dashboard."""
    if not device.now.is_held:
        return State.IDLE_EMPTY
    return State.IDLE_HELD if (device.now.utilization or 0.0) < 0.01 else State.PRODUCTIVE


def sagemaker_debugger(device: Watched, _: Sequence[Watched]) -> State:
    """IOBottleneck, CPUBottleneck and LowGPUUtilization, each reading by itself.

    Source: SageMaker Debugger's rules: I/O wait > 50 or CPU > 90 while the GPU is < 10; P95 of
    500 readings < 70. I/O pressure stands in for I/O wait. Low utilization is no idleness there;
    a reading below 10 without a bottleneck is taken for one.
    """
    now = device.now
    if not now.is_held:
        return State.IDLE_EMPTY
    if (now.utilization or 0.0) >= 0.10:
        return State.PRODUCTIVE
    if now.io_pressure > 0.50:
        return State.STORAGE_BOUND
    if now.cpu > 0.90:
        return State.HOST_BOUND
    return State.IDLE_HELD if device.utilization_p95 < 0.70 else State.PRODUCTIVE


def kempner_pulse(device: Watched, together: Sequence[Watched]) -> State:
    """The classes of a reading by Real Util and a table of first matches.

    Source: KempnerInstitute/kempnerpulse. Tensor, FP64 and compute classes become compute_bound;
    memory classes, I/O and 'busy, low SM use' the bounds of that name; low and mixed productive.
    Without counters it has no classes; utilization alone stands in.
    """
    now = device.now
    if not now.is_held:
        return State.IDLE_EMPTY
    if not now.has_counters:
        return utilization_alone(device, together)
    engine = now.engine or 0.0
    real = 0.35 * now.sm + 0.35 * now.tensor + 0.20 * now.dram + 0.10 * engine
    if max(real, engine, now.dram) < 0.05 and now.pcie_bytes_per_second < 1e9:
        return State.IDLE_HELD
    return _kempner_class(now, engine)


def _kempner_class(now: BaselineInput, engine: float) -> State:
    if (now.tensor >= 0.15 and now.sm >= 0.40) or (now.fp64 >= 0.20 and now.sm >= 0.50):
        return State.COMPUTE_BOUND
    if now.pcie_bytes_per_second >= 1e9 and now.sm < 0.30:
        return State.PCIE_BOUND
    if now.dram >= 0.50 and now.sm < 0.50:
        return State.MEMORY_BANDWIDTH_BOUND
    if now.sm >= 0.50:
        return State.COMPUTE_BOUND
    if now.dram >= 0.40:
        return State.MEMORY_BANDWIDTH_BOUND
    if engine >= 0.40 and now.sm < 0.25:
        return State.LAUNCH_BOUND
    return State.PRODUCTIVE


BASELINES: Final[Mapping[str, Baseline]] = {
    "gpu-pruner": gpu_pruner,
    "job_defense_shield": job_defense_shield,
    "GPU utilization alone": utilization_alone,
    "SageMaker Debugger": sagemaker_debugger,
    "KempnerPulse": kempner_pulse,
}
