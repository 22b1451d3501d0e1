"""A profile as plain values for JSON: seconds, bytes, ratios; missing values null."""

from dataclasses import asdict
from typing import Any, Final, TypeAlias

from rightsizer.model.profile import DeviceProfile, Profile, StepUse, TimeUse
from rightsizer.model.units import NANOSECONDS_PER_SECOND, seconds

Form: TypeAlias = dict[str, Any]
"""What `json.dumps` takes as it is."""

_TIMES: Final = (
    "span_seconds",
    "kernel_seconds",
    "collective_seconds",
    "exposed_collective_seconds",
    "copy_seconds",
    "exposed_copy_seconds",
    "host_wait_seconds",
    "loader_wait_seconds",
    "kernel_wait_seconds",
    "other_idle_seconds",
    "checkpoint_wait_seconds",
    "idle_seconds",
)


def profile_form(profile: Profile) -> Form:
    """One file, with the keys that docs/profiles.md tells."""
    benchmark = profile.benchmark
    return {
        "format": profile.format,
        "source": profile.source,
        "version": profile.version,
        "start": None if profile.start is None else seconds(profile.start),
        "rank": profile.rank,
        "world_size": profile.world_size,
        "devices": [_device(each) for each in profile.devices],
        "host_spans": [asdict(each) for each in profile.host_spans],
        "benchmark": None
        if benchmark is None
        else {
            "benchmark": benchmark.benchmark,
            "scenario": benchmark.scenario,
            "is_valid": benchmark.is_valid,
            "figures": dict(benchmark.figures),
        },
        "host_steps": [
            {
                "name": each.name,
                "seconds": seconds(each.end - each.start),
                "loader_seconds": each.loader_seconds,
            }
            for each in profile.host_steps
        ],
        "events": profile.events,
        "unread": dict(profile.unread),
        "notes": list(profile.notes),
    }


def _device(found: DeviceProfile) -> Form:
    return {
        **asdict(found.device),
        "time": None if found.time is None else _time(found.time),
        "kernels": [asdict(each) for each in found.kernels],
        "copies": [asdict(each) for each in found.copies],
        "launches": None if found.launches is None else asdict(found.launches),
        "steps": [_step(each) for each in found.steps],
        "memory_peak_bytes": found.memory_peak_bytes,
    }


def _step(step: StepUse) -> Form:
    late = step.last_long_collective
    return {
        "name": step.name,
        "seconds": (step.end - step.start) / NANOSECONDS_PER_SECOND,
        "time": _time(step.time),
        "loader_seconds": step.loader_seconds,
        "last_long_collective_seconds": None
        if late is None
        else (late - step.start) / NANOSECONDS_PER_SECOND,
    }


def _time(time: TimeUse) -> Form:
    return {name: getattr(time, name) for name in _TIMES}
