"""JSON documents of profiles and of the answer of `rightsizer profile`."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import asdict

from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.terminal import counted
from rightsizer.model.profile import DeviceProfile, Profile, TimeUse
from rightsizer.model.values import (
    ACTIVE_STATES,
    Condition,
    Evidence,
    EvidenceKind,
    optional_seconds,
    seconds,
)
from rightsizer.profiler.changes import (
    KernelChanges,
    differences,
    kernel_changes,
    profile_changes,
)
from rightsizer.profiler.comparison import ProfileTelemetry
from rightsizer.profiler.join import JoinedDevice, ProfileJoin
from rightsizer.profiler.workload import ProfileAnswer, ProfiledWorkload
from rightsizer.report.advice_document import finding_document
from rightsizer.report.evidence import noted


def profile_document(profile: Profile) -> dict[str, Any]:
    """Return one file, with the keys of docs/profiles.md."""
    return {
        **asdict(profile),
        "start": optional_seconds(profile.start),
        "devices": [*map(_device, profile.devices)],
        "host_steps": [
            {
                "name": step.name,
                "seconds": seconds(step.end - step.start),
                "loader_seconds": step.loader_seconds,
                "collective_seconds": step.collective_seconds,
                "operators": step.operators,
                "dispatch_seconds": step.dispatch_seconds,
                "pause_seconds": step.pause_seconds,
                "read_backs": step.read_backs,
            }
            for step in profile.host_steps
        ],
        "evidence": [*_evidence(profile)],
    }


def _evidence(profile: Profile) -> Iterator[Evidence]:
    """Yield what the answer on a file rests on."""
    yield from noted(EvidenceKind.ASSUMED, profile.notes)
    for what, count in profile.unread.items():
        yield Evidence(EvidenceKind.DROPPED, what, "of no use here, or not believed", count)
    yield Evidence(EvidenceKind.READ, f"{counted(profile.events, 'event')}", count=profile.events)


def _device(profiled: DeviceProfile) -> dict[str, Any]:
    document = asdict(profiled)
    del document["start"]
    return {
        **asdict(document.pop("device")),
        **document,
        "time": _time(profiled.time),
        "steps_time": _time(profiled.steps_time),
        "work_time": _time(profiled.work_time),
        "roof": _roof(profiled),
        **_board(profiled),
        "steps": [
            {
                "name": step.name,
                "seconds": seconds(step.end - step.start),
                "time": _time(step.time),
                "loader_seconds": step.loader_seconds,
                "last_long_collective_seconds": None
                if step.last_long_collective is None
                else seconds(step.last_long_collective - step.start),
            }
            for step in profiled.steps
        ],
    }


def _board(profiled: DeviceProfile) -> dict[str, Any]:
    """Encode the catalogue's data of its board; `None` if unknown."""
    board = built_in().find(profiled.device.name) if profiled.device.name else None
    return {
        "architecture": board and board.architecture.lower().split()[0],
        "link_bytes_per_second": (board and board.link_bytes_per_second) or None,
    }


def _roof(profiled: DeviceProfile) -> dict[str, Any] | None:
    """Encode the board's peaks; `None` if unknown, or without arithmetic to compare."""
    if not profiled.products and all(
        kernel.flops_per_second is None for kernel in profiled.kernels
    ):
        return None
    if not profiled.device.name or (board := built_in().find(profiled.device.name)) is None:
        return None
    return {
        "board": board.usual_name,
        "bytes_per_second": board.memory_bandwidth_bytes_per_second,
        "flops_per_second": board.peak_per_second,
    }


def _time(time: TimeUse | None) -> dict[str, Any] | None:
    return None if time is None else {**asdict(time), "idle_seconds": time.idle_seconds}


def joined_device_document(joined: JoinedDevice) -> dict[str, Any]:
    """Return a device with telemetry, with the keys of docs/profiles.md."""
    device = joined.device
    return {
        "key": joined.key,
        "uuid": device and device.uuid,
        "index": device and device.index,
        "name": device and device.name,
        "matched_by": joined.matched_by or None,
        "note": joined.note or None,
        "start": optional_seconds(joined.start),
        "end": optional_seconds(joined.end),
        "unmatched": joined.unmatched or None,
        "telemetry": None if joined.telemetry is None else _telemetry(joined.telemetry),
        "comparisons": joined.comparisons,
    }


def _telemetry(telemetry: ProfileTelemetry) -> dict[str, Any]:
    window = telemetry.window
    return {
        "start": seconds(window.start),
        "end": seconds(window.end),
        "known_seconds": window.known_seconds,
        "active_seconds": telemetry.active_seconds,
        "tier": window.tier,
        "workload": telemetry.workload,
        "busy_ratio": None if (busy := telemetry.busy_ratio) is None else round(busy, 4),
        "memory_peak_bytes": telemetry.memory_peak_bytes,
        "states": {
            state: round(telemetry.share(state), 4)
            for state in sorted(ACTIVE_STATES)
            if window.states.get(state)
        },
        "conditions": {
            condition: round(telemetry.condition_share(condition), 4)
            for condition in Condition
            if window.conditions.get(condition)
        },
    }


def answer_document(answer: ProfileAnswer) -> dict[str, Any]:
    """Return every workload with its changes since an earlier profile, in the same order."""
    none = (None,) * len(answer.workloads)
    rows = zip(answer.workloads, answer.against or none, answer.joins or none, strict=True)
    return {
        "workloads": [_workload(*row) for row in rows],
        "broken": answer.broken,
    }


def _workload(
    workload: ProfiledWorkload, before: ProfiledWorkload | None, joined: ProfileJoin | None
) -> dict[str, Any]:
    return {
        "workload": workload.name,
        "profiles": [*map(profile_document, workload.profiles)],
        "clock_offsets_seconds": workload.clock_offsets_seconds,
        "findings": [*map(finding_document, workload.findings)],
        "telemetry": None
        if joined is None
        else {
            "workload": joined.key,
            "unmatched": joined.unmatched or None,
            "devices": [*map(joined_device_document, joined.devices)],
            "contradictions": joined.contradictions,
        },
        "against": None
        if before is None
        else {
            "workload": before.name,
            "warnings": list(differences(before.profiles, workload.profiles)),
            "changes": [
                {**asdict(change), "ratio": change.ratio}
                for change in profile_changes(before.profiles, workload.profiles)
            ],
            **_kernel_changes(kernel_changes(before.profiles, workload.profiles)),
        },
    }


def _kernel_changes(all_changes: KernelChanges) -> dict[str, Any]:
    families, kernels = (
        [{**asdict(change), "ratio": change.ratio} for change in changes]
        for changes in (all_changes.families, all_changes.kernels)
    )
    for family in families:
        del family["name"]
    return {"per": all_changes.per, "families": families, "kernels": kernels}
