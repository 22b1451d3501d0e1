"""Which GPUs a captured profile is of, where it does not say: the agent knows whom it asked for."""

from collections.abc import Sequence
from dataclasses import replace

from rightsizer.domain.profile import DeviceProfile, Profile

__all__ = ["with_origin"]


def with_origin(profile: Profile, devices: Sequence[str]) -> Profile:
    """The profile with uuids of the GPUs that its workload held, where it has none.

    A program that is shown its own GPUs alone numbers them from 0 in their order, so that a number
    of this node's would name somebody else's. One that sees all GPUs may be told another of its
    own; the workload is right in either case.

    Args:
        profile: Of a capture.
        devices: The GPUs that the capture was of, by uuid, in the node's order.
    """
    return replace(profile, devices=tuple(_of(each, devices) for each in profile.devices))


def _of(found: DeviceProfile, devices: Sequence[str]) -> DeviceProfile:
    device = found.device
    place = 0 if len(devices) == 1 else device.index
    if device.uuid or place is None or not 0 <= place < len(devices):
        return found
    return replace(found, device=replace(device, uuid=devices[place]))
