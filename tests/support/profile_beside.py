"""Profiles of a node at a given time, and telemetry of the same time."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from profiles_built import device, kernel, profile, time_use
from readings import EPOCH, SECOND, gpu
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure
from rightsizer.model.profile import Profile, TimeUse
from rightsizer.model.state import State, Tier
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Window
from rightsizer.profiler.comparison import ProfileTelemetry

__all__ = ["AT", "KEY", "long_profile", "telemetry_of", "waiting_profile"]

AT: Final[Nanoseconds] = EPOCH + 100 * SECOND
"""When the profiles begin."""
KEY: Final = "slurm/llama"


def long_profile(
    seconds: float = 40.0, *, kernel_ratio: float = 0.38, host_ratio: float = 0.62, **changes: Any
) -> Profile:
    """One GPU for a while: kernels, waits for the host, and nothing else."""
    time = TimeUse(
        span_seconds=seconds,
        kernel_seconds=kernel_ratio * seconds,
        host_wait_seconds=host_ratio * seconds,
        other_idle_seconds=max(0.0, 1.0 - kernel_ratio - host_ratio) * seconds,
    )
    kernels = (kernel(seconds=kernel_ratio * seconds),)
    device_profile = device(**{"time": time, "kernels": kernels, "start": 0} | changes)
    return profile(device_profile, start=AT)


def waiting_profile(start: Nanoseconds = AT, **changes: Any) -> Profile:
    """A second of GPU 0, eight tenths of which it waits for its host."""
    device_profile = device(time=time_use(kernel=0.2, host=0.8), start=0)
    return replace(profile(device_profile, start=start), **changes)


def telemetry_of(
    states: Mapping[State, float],
    *,
    workload: str | None = KEY,
    busy_ratio: float | None = None,
    tier: Tier = Tier.PROFILING,
    **facts: Any,
) -> ProfileTelemetry:
    """Telemetry of GPU 0 from the epoch on, with seconds by state."""
    spent = {state: round(each * SECOND) for state, each in states.items()}
    seen = sum(each for state, each in spent.items() if state is not State.UNKNOWN)
    means = {} if busy_ratio is None else {Measure.BUSY: busy_ratio}
    start = EPOCH - EPOCH % BLOCK_SPAN
    blocks = Blocks.of_one(start, seen / SECOND, means, means) if means else Blocks()
    whole = Window(
        gpu().uuid,
        start,
        start + sum(spent.values()),
        states=spent,
        tiers={tier: seen},
        blocks=blocks,
    )
    return ProfileTelemetry(replace(whole, **facts), workload, 80 * 2.0**30)
