"""A profile beside what the accounts say of the same GPUs and the same time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.comparison_settings import ComparisonSettings
from rightsizer.advice.profile_comparison import (
    ACTIVE_SECONDS,
    Comparison,
    compare,
)
from rightsizer.advice.profile_match import match_device
from rightsizer.advice.profile_rules.member import Member, key_of
from rightsizer.advice.profile_telemetry import Telemetry, TelemetryOf
from rightsizer.domain.device import Device
from rightsizer.domain.profile import DeviceProfile, Profile
from rightsizer.domain.units import Nanoseconds, nanoseconds

__all__ = ["Join", "JoinedDevice", "join"]

_LATEST: Final[Nanoseconds] = 2**62
"""In the year 2116."""


@dataclass(frozen=True, slots=True)
class JoinedDevice:
    """One device of one file."""

    key: str
    """What findings over profiles call it."""
    device: Device | None = None
    """Of the node; `None` where the profile does not tell which, or that of another node."""
    matched_by: str = ""
    start: Nanoseconds | None = None
    """Wall time of its first kernel; `None` where that is not known."""
    end: Nanoseconds | None = None
    telemetry: Telemetry | None = None
    comparisons: tuple[Comparison, ...] = ()
    unmatched: str = ""
    """Why there is no telemetry beside it; empty where there is."""
    is_foreign: bool = False
    """Whether it is none of this node's GPUs."""
    note: str = ""

    @property
    def contradictions(self) -> tuple[Comparison, ...]:
        """What both cannot be right about."""
        return tuple(each for each in self.comparisons if each.is_contradiction)

    @property
    def was_idle(self) -> bool:
        """Whether telemetry saw nothing of its kernels, so that it may be another GPU's."""
        return any(each.figure == ACTIVE_SECONDS for each in self.contradictions)


@dataclass(frozen=True, slots=True)
class Join:
    """All devices of the profiles of one workload."""

    devices: tuple[JoinedDevice, ...]
    key: str | None = None
    """The workload that held them then, or the uuid of the only one, which nobody held."""
    unmatched: str = ""
    """Why no workload can be named; empty where one is."""

    @property
    def contradictions(self) -> tuple[str, ...]:
        """A sentence each."""
        return tuple(found.text for each in self.devices for found in each.contradictions)

    def contradicts(self, figure: str) -> bool:
        """Whether telemetry contradicts a figure of any device."""
        return any(found.figure == figure for each in self.devices for found in each.contradictions)

    @property
    def span(self) -> tuple[Nanoseconds, Nanoseconds] | None:
        """From the first kernel of any device to the last, wall time; `None` where not known."""
        starts = [each.start for each in self.devices if each.start is not None]
        ends = [each.end for each in self.devices if each.end is not None]
        return (min(starts), max(ends)) if starts and ends else None


def join(
    profiles: Sequence[Profile],
    node: Sequence[Device],
    telemetry_of: TelemetryOf,
    settings: ComparisonSettings,
) -> Join:
    """The profiles of one workload beside what is known of the node.

    Args:
        profiles: One file, or one for each rank.
        node: All devices of the node.
        telemetry_of: What is known of them, and who held them.
        settings: From when on figures contradict each other.
    """
    devices = tuple(
        _joined(profile, each, node, telemetry_of, settings)
        for profile in profiles
        for each in profile.devices
    )
    key, why = _holder(devices)
    if key is None:
        key, why = _only_holder(devices, node, telemetry_of) or (key, why)
    return Join(devices, key, "" if key is not None else why)


def _joined(
    profile: Profile,
    found: DeviceProfile,
    node: Sequence[Device],
    telemetry_of: TelemetryOf,
    settings: ComparisonSettings,
) -> JoinedDevice:
    key, span = key_of(profile, found), _span(profile, found)
    start, end = span or (None, None)
    match = match_device(found.device, node)
    if match.device is None:
        return JoinedDevice(
            key, start=start, end=end, unmatched=match.why, is_foreign=match.is_foreign
        )
    device, by = match.device, match.by
    if found.time is None or start is None or end is None:
        why = _timeless(profile, found)
        return JoinedDevice(key, device, by, unmatched=why, note=match.note)
    telemetry = telemetry_of(device.uuid, start, end)
    if telemetry is None or not telemetry.window.known:
        why = f"no telemetry of GPU {device.index} at that time is kept"
        return JoinedDevice(key, device, by, start, end, unmatched=why, note=match.note)
    member = Member(profile, found, found.time)
    compared = compare(member, f"GPU {device.index}", telemetry, settings)
    return JoinedDevice(key, device, by, start, end, telemetry, compared, note=match.note)


def _span(profile: Profile, found: DeviceProfile) -> tuple[Nanoseconds, Nanoseconds] | None:
    if profile.start is None or found.start is None or found.time is None:
        return None
    start = profile.start + found.start
    end = start + nanoseconds(found.time.span_seconds)
    return (start, end) if 0 <= start <= end < _LATEST else None


def _timeless(profile: Profile, found: DeviceProfile) -> str:
    if found.time is None:
        return "the profile has no time line"
    if profile.start is None:
        return f"{profile.format} has no wall time in it"
    return "its time is none that a clock has"


def _holder(devices: Sequence[JoinedDevice]) -> tuple[str | None, str]:
    """The workload that held the devices, or why none can be named."""
    if not devices:
        return None, "there is no GPU in it"
    seen = [each for each in devices if each.telemetry is not None and not each.was_idle]
    if not seen:
        idle = "telemetry saw no activity there then: it is of another GPU, or the clocks differ"
        return None, devices[0].unmatched or idle
    held = {each.telemetry.workload for each in seen if each.telemetry} - {None}
    if len(held) == 1:
        return held.pop(), ""
    if held:
        return (
            None,
            f"its GPUs were held by {len(held)} workloads: {', '.join(sorted(map(str, held)))}",
        )
    uuids = {each.device.uuid for each in seen if each.device}
    # Without a holder, advice is of a device.
    return (uuids.pop(), "") if len(uuids) == 1 else (None, "nobody is known to have held its GPUs")


def _only_holder(
    devices: Sequence[JoinedDevice], node: Sequence[Device], telemetry_of: TelemetryOf
) -> tuple[str, str] | None:
    """Who held all GPUs that were held at all, where the profile does not tell its own."""
    span = Join(tuple(devices)).span
    if span is None or any(each.device is not None or each.is_foreign for each in devices):
        return None
    start, end = span
    found = (telemetry_of(each.uuid, start, end) for each in node if not each.has_mig_instances)
    held = {each.workload for each in found if each is not None and each.workload is not None}
    return (held.pop(), "") if len(held) == 1 else None
