"""A profile beside telemetry, as plain values for JSON: seconds, bytes, ratios."""

from dataclasses import asdict
from typing import Any, TypeAlias

from rightsizer.advice.profile_join import Join, JoinedDevice
from rightsizer.advice.profile_telemetry import Telemetry
from rightsizer.domain.state import ACTIVE_STATES, Condition
from rightsizer.domain.units import Nanoseconds, seconds

__all__ = ["Form", "device_forms", "join_form"]

Form: TypeAlias = dict[str, Any]
"""What `json.dumps` takes as it is."""


def join_form(join: Join) -> Form:
    """All devices of one workload, with the keys that docs/profiles.md tells."""
    return {
        "workload": join.key,
        "unmatched": join.unmatched or None,
        "devices": device_forms(join),
        "contradictions": list(join.contradictions),
    }


def device_forms(join: Join) -> list[Form]:
    """Each device of each file."""
    return [_device(each) for each in join.devices]


def _device(found: JoinedDevice) -> Form:
    device = found.device
    return {
        "key": found.key,
        "uuid": None if device is None else device.uuid,
        "index": None if device is None else device.index,
        "name": None if device is None else device.name,
        "matched_by": found.matched_by or None,
        "note": found.note or None,
        "start": _time(found.start),
        "end": _time(found.end),
        "unmatched": found.unmatched or None,
        "telemetry": None if found.telemetry is None else _telemetry(found.telemetry),
        "comparisons": [asdict(each) for each in found.comparisons],
    }


def _telemetry(found: Telemetry) -> Form:
    window = found.window
    return {
        "start": seconds(window.start),
        "end": seconds(window.end),
        "known_seconds": window.known_seconds,
        "active_seconds": found.active_seconds,
        "tier": window.tier,
        "workload": found.workload,
        "busy_ratio": _rounded(found.busy_ratio),
        "memory_peak_bytes": found.memory_peak_bytes,
        "states": {
            str(state): round(found.share(state), 4)
            for state in sorted(ACTIVE_STATES)
            if window.states.get(state)
        },
        "conditions": {
            str(condition): round(found.condition_share(condition), 4)
            for condition in Condition
            if window.conditions.get(condition)
        },
    }


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 4)


def _time(time: Nanoseconds | None) -> float | None:
    return None if time is None else seconds(time)
