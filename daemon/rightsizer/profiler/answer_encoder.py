"""JSON encoder of the answer of `rightsizer profile`, with telemetry beside each profile."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

from rightsizer.model.errors import UsageError
from rightsizer.model.state import ACTIVE_STATES, Condition
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.profiler.comparison import ProfileTelemetry
from rightsizer.profiler.join import JoinedDevice, ProfileJoin
from rightsizer.profiler.profile_encoder import profile_form
from rightsizer.profiler.workload import ProfiledWorkload, profile_changes
from rightsizer.report.json_encoder import finding_form
from rightsizer.telemetry.profiles.registry import BrokenFile

Form: TypeAlias = dict[str, Any]
"""What `json.dumps` takes as it is."""


def join_form(join: ProfileJoin) -> Form:
    """All devices of one workload, with the keys that docs/profiles.md tells."""
    return {
        "workload": join.key,
        "unmatched": join.unmatched or None,
        "devices": device_forms(join),
        "contradictions": list(join.contradictions),
    }


def device_forms(join: ProfileJoin) -> list[Form]:
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


def _telemetry(found: ProfileTelemetry) -> Form:
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


def answer_form(
    found: Sequence[ProfiledWorkload],
    against: Sequence[ProfiledWorkload] = (),
    broken: Sequence[BrokenFile] = (),
    joins: Sequence[ProfileJoin] = (),
) -> dict[str, Any]:
    """Every workload, and what became of it since an earlier profile.

    Args:
        found: What was read and judged.
        against: Earlier ones of the same workloads, in the same order.
        broken: Files of folders that could not be read.
        joins: Each workload beside a history; none where none was looked at.

    Raises:
        UsageError: there are not as many earlier workloads as there are later ones.
    """
    if against and len(against) != len(found):
        raise UsageError(
            f"--against: {len(against)} workloads against {len(found)}; name one earlier profile "
            "for each, in the same order"
        )
    nobody = (None,) * len(found)
    earlier = against or nobody
    return {
        "workloads": [
            _workload(each, before, joined)
            for each, before, joined in zip(found, earlier, joins or nobody, strict=True)
        ],
        "broken": [asdict(each) for each in broken],
    }


def _workload(
    found: ProfiledWorkload, before: ProfiledWorkload | None, joined: ProfileJoin | None
) -> dict[str, Any]:
    form: dict[str, Any] = {
        "workload": found.name,
        "profiles": [profile_form(each) for each in found.profiles],
        "findings": [finding_form(each) for each in found.findings],
        "telemetry": None if joined is None else join_form(joined),
        "against": None,
    }
    if before is not None:
        form["against"] = {
            "workload": before.name,
            "changes": [
                {**asdict(each), "ratio": each.ratio}
                for each in profile_changes(before.profiles, found.profiles)
            ],
        }
    return form
