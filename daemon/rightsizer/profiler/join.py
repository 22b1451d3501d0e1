"""Join of a profile with the accounts: GPU, holder, telemetry of the same time."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.profile import DeviceProfile, Profile, ProfiledDevice
from rightsizer.model.values import Device, Nanoseconds, nanoseconds
from rightsizer.profiler.comparison import (
    ACTIVE_SECONDS,
    ProfileComparison,
    ProfileTelemetry,
    ProfileTelemetryOf,
    compare,
)
from rightsizer.profiler.member import ProfiledMember, key_of
from rightsizer.profiler.settings import ProfileComparisonSettings

_LATEST: Final[Nanoseconds] = 2**62
"""In the year 2116."""


class JoinedDevice(Struct, frozen=True):
    """A device of a file, matched with the node."""

    device: Device | None
    """Device of the node; `None` if unknown or of another node."""
    matched_by: str = ""
    """How it was matched: `uuid`, `index and name`, `only GPU`."""
    unmatched: str = ""
    """Why it has no telemetry; empty if it has."""
    is_foreign: bool = False
    """Whether it is none of this node's GPUs, rather than an unknown one."""
    note: str = ""
    """Doubt about the match; empty if there is none."""
    key: str = ""
    """Key of the device in findings over profiles."""
    start: Nanoseconds | None = None
    """Wall time of its first kernel; `None` if unknown."""
    end: Nanoseconds | None = None
    telemetry: ProfileTelemetry | None = None
    comparisons: tuple[ProfileComparison, ...] = ()

    @property
    def contradictions(self) -> tuple[ProfileComparison, ...]:
        """Figures on which profile and telemetry disagree."""
        return tuple(comparison for comparison in self.comparisons if comparison.is_contradiction)

    @property
    def was_idle(self) -> bool:
        """Whether telemetry saw none of its kernels, so that it may be another GPU."""
        return any(contradiction.figure == ACTIVE_SECONDS for contradiction in self.contradictions)


def match_device(profiled: ProfiledDevice, node: Sequence[Device]) -> JoinedDevice:
    """Match a profile's device with a device of the node, as far as the profile allows."""
    if profiled.uuid:
        same = next((device for device in node if _uuid(device.uuid) == _uuid(profiled.uuid)), None)
        if same is None:
            return _foreign(f"no GPU of this node has the uuid {profiled.uuid}")
        return _of_its_own(same, node, "uuid")
    gpus = [device for device in node if device.mig is None]
    if len(gpus) == 1:
        if _differs(profiled, gpus[0]):
            return _foreign(f"it is of a {profiled.name}, and this node has a {gpus[0].name}")
        return _of_its_own(gpus[0], node, "only GPU")
    if profiled.index is None or not profiled.name:
        named = "the number" if profiled.index is not None else "nothing"
        why = f"it tells {named} of its GPU, and this node has {len(gpus)}"
        return JoinedDevice(None, unmatched=why)
    if (at := next((gpu for gpu in gpus if gpu.index == profiled.index), None)) is None:
        return _foreign(f"this node has no GPU {profiled.index}")
    if _differs(profiled, at):
        return _foreign(f"it is of a {profiled.name}, and GPU {at.index} here is a {at.name}")
    alike = sum(not _differs(profiled, gpu) for gpu in gpus)
    note = "" if alike == 1 else "CUDA_VISIBLE_DEVICES gives GPUs other numbers"
    return _of_its_own(at, node, "index and name", note)


def _foreign(why: str) -> JoinedDevice:
    return JoinedDevice(None, unmatched=why, is_foreign=True)


def _of_its_own(device: Device, node: Sequence[Device], by: str, note: str = "") -> JoinedDevice:
    """Match a GPU, or its only MIG instance: a divided GPU has no states."""
    parts = [device]
    if device.has_mig_instances:
        parts = [gpu for gpu in node if gpu.mig and gpu.mig.parent_uuid == device.uuid]
    if len(parts) == 1:
        return JoinedDevice(parts[0], by, note=note)
    why = f"GPU {device.index} is cut into {len(parts)} MIG instances, and it does not say which"
    return JoinedDevice(None, unmatched=why)


def _differs(profiled: ProfiledDevice, device: Device) -> bool:
    """Whether two names cannot be of the same GPU; some profilers shorten them."""
    one, other = (gpu.name.casefold().removeprefix("nvidia ").strip() for gpu in (profiled, device))
    return one not in other and other not in one


def _uuid(uuid: str) -> str:
    return uuid.casefold().removeprefix("gpu-").replace("-", "")


class ProfileJoin(Struct, frozen=True):
    """All devices of one workload's profiles."""

    devices: tuple[JoinedDevice, ...]
    key: str | None = None
    """The workload that held them, or the uuid of a single device without a holder."""
    unmatched: str = ""
    """Why the workload is unknown; empty if known."""

    @property
    def contradictions(self) -> tuple[str, ...]:
        """Contradictions as sentences."""
        return tuple(
            contradiction.text for device in self.devices for contradiction in device.contradictions
        )

    def contradicts(self, figure: str | None) -> bool:
        """Whether telemetry contradicts a figure on any device."""
        return any(
            contradiction.figure == figure
            for device in self.devices
            for contradiction in device.contradictions
        )

    @property
    def span(self) -> tuple[Nanoseconds, Nanoseconds] | None:
        """Wall time from the first to the last kernel of all devices; `None` if unknown."""
        starts = [device.start for device in self.devices if device.start is not None]
        ends = [device.end for device in self.devices if device.end is not None]
        return (min(starts), max(ends)) if starts and ends else None


def join(
    profiles: Sequence[Profile],
    node: Sequence[Device],
    telemetry_of: ProfileTelemetryOf,
    settings: ProfileComparisonSettings,
) -> ProfileJoin:
    """Join the profiles of one workload, one per rank, with telemetry of the node."""
    devices = tuple(
        _joined(profile, device, node, telemetry_of, settings)
        for profile in profiles
        for device in profile.devices
    )
    key, why = _holder(devices)
    if key is None:
        key, why = _only_holder(devices, node, telemetry_of) or (key, why)
    return ProfileJoin(devices, key, "" if key is not None else why)


def _joined(
    profile: Profile,
    profiled: DeviceProfile,
    node: Sequence[Device],
    telemetry_of: ProfileTelemetryOf,
    settings: ProfileComparisonSettings,
) -> JoinedDevice:
    start = None
    end = None
    if profile.start is not None and profiled.start is not None and profiled.time is not None:
        first = profile.start + profiled.start
        last = first + nanoseconds(profiled.time.span_seconds)
        if 0 <= first <= last < _LATEST:
            start = first
            end = last
    match = match_device(profiled.device, node)
    match = replace(match, key=key_of(profile, profiled), start=start, end=end)
    if (device := match.device) is None:
        return match
    if profiled.time is None or start is None or end is None:
        why = "its time is none that a clock has"
        if profiled.time is None:
            why = "the profile has no timeline"
        elif profile.start is None:
            why = f"{profile.format} has no wall time in it"
        return replace(match, unmatched=why)
    telemetry = telemetry_of(device.uuid, start, end)
    if telemetry is None or not telemetry.window.known:
        return replace(match, unmatched=f"no telemetry of GPU {device.index} at that time is kept")
    member = ProfiledMember(profile, profiled, profiled.time)
    compared = compare(member, f"GPU {device.index}", telemetry, settings)
    return replace(match, telemetry=telemetry, comparisons=compared)


def _holder(devices: Sequence[JoinedDevice]) -> tuple[str | None, str]:
    if not devices:
        return None, "there is no GPU in it"
    seen = [device for device in devices if device.telemetry is not None and not device.was_idle]
    if not seen:
        idle = "telemetry saw no activity there then: it is of another GPU, or the clocks differ"
        return None, devices[0].unmatched or idle
    held = {device.telemetry.workload for device in seen if device.telemetry} - {None}
    if len(held) == 1:
        return held.pop(), ""
    if held:
        names = ", ".join(sorted(map(str, held)))
        return None, f"its GPUs were held by {len(held)} workloads: {names}"
    uuids = {device.device.uuid for device in seen if device.device}
    # Without a holder, advice is about a device.
    return (uuids.pop(), "") if len(uuids) == 1 else (None, "the holder of its GPUs is unknown")


def _only_holder(
    devices: Sequence[JoinedDevice], node: Sequence[Device], telemetry_of: ProfileTelemetryOf
) -> tuple[str, str] | None:
    """Return the only holder of GPUs at that time, if the profile does not identify its GPUs."""
    span = ProfileJoin(tuple(devices)).span
    if span is None or any(device.device is not None or device.is_foreign for device in devices):
        return None
    start, end = span
    telemetries = (
        telemetry_of(device.uuid, start, end) for device in node if not device.has_mig_instances
    )
    held = {
        telemetry.workload
        for telemetry in telemetries
        if telemetry is not None and telemetry.workload is not None
    }
    return (held.pop(), "") if len(held) == 1 else None
