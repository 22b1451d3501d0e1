"""Which GPU of a node a profile is of: by its uuid, by number and name, or because there is one."""

from collections.abc import Sequence
from dataclasses import dataclass

from rightsizer.domain.device import Device
from rightsizer.domain.profile import ProfiledDevice

__all__ = ["Match", "match_device"]


@dataclass(frozen=True, slots=True)
class Match:
    """A device of the node, or why it is none."""

    device: Device | None
    by: str = ""
    """What told it: `uuid`, `index and name`, `only GPU`."""
    why: str = ""
    """Why there is none; empty where there is one."""
    is_foreign: bool = False
    """Whether it is none of this node's, rather than any of them."""
    note: str = ""
    """What makes it less than sure; empty where nothing does."""


def match_device(found: ProfiledDevice, node: Sequence[Device]) -> Match:
    """The device of a node that a profile's device is, as far as the profile tells.

    Args:
        found: What the profile says of it.
        node: All devices of the node, MIG instances and their GPUs among them.
    """
    if found.uuid:
        same = [each for each in node if _uuid(each.uuid) == _uuid(found.uuid)]
        if not same:
            why = f"no GPU of this node has the uuid {found.uuid}"
            return Match(None, why=why, is_foreign=True)
        return _of_its_own(same[0], node, "uuid")
    gpus = [each for each in node if each.mig is None]
    if len(gpus) == 1:
        if _differs(found, gpus[0]):
            why = f"it is of a {found.name}, and this node has a {gpus[0].name}"
            return Match(None, why=why, is_foreign=True)
        return _of_its_own(gpus[0], node, "only GPU")
    return _by_index(found, gpus, node)


def _by_index(found: ProfiledDevice, gpus: Sequence[Device], node: Sequence[Device]) -> Match:
    if found.index is None or not found.name:
        told = "the number" if found.index is not None else "nothing"
        return Match(None, why=f"it tells {told} of its GPU, and this node has {len(gpus)}")
    at = next((each for each in gpus if each.index == found.index), None)
    if at is None:
        return Match(None, why=f"this node has no GPU {found.index}", is_foreign=True)
    if _differs(found, at):
        why = f"it is of a {found.name}, and GPU {at.index} here is a {at.name}"
        return Match(None, why=why, is_foreign=True)
    alike = sum(not _differs(found, each) for each in gpus)
    note = "" if alike == 1 else "CUDA_VISIBLE_DEVICES gives GPUs other numbers"
    return _of_its_own(at, node, "index and name", note)


def _of_its_own(device: Device, node: Sequence[Device], by: str, note: str = "") -> Match:
    """A GPU that is cut has no states; its only instance stands for it."""
    if not device.has_mig_instances:
        return Match(device, by, note=note)
    parts = [each for each in node if each.mig and each.mig.parent_uuid == device.uuid]
    if len(parts) == 1:
        return Match(parts[0], by, note=note)
    why = f"GPU {device.index} is cut into {len(parts)} MIG instances, and it does not say which"
    return Match(None, why=why)


def _differs(found: ProfiledDevice, device: Device) -> bool:
    """Whether the names cannot be of one GPU; some profilers shorten them."""
    one, other = _name(found.name), _name(device.name)
    return one not in other and other not in one


def _name(name: str) -> str:
    return name.casefold().removeprefix("nvidia ").strip()


def _uuid(uuid: str) -> str:
    return uuid.casefold().removeprefix("gpu-").replace("-", "")
