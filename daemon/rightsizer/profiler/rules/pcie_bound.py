"""GPUs that wait for copies to and from the host."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from rightsizer.model.finding import Action, Finding, Instruction, Reason, Risk
from rightsizer.model.profile import CopyKind, CopyUse, HostMemory, Profile, TimeUse
from rightsizer.profiler.rules.rule import (
    Gain,
    ProfileComplaint,
    ProfiledMember,
    ProfileRule,
    VerdictBasis,
    at_work,
    complain,
    factors_of,
    find_nothing,
)
from rightsizer.profiler.settings import ProfilePcieBoundSettings

NAME: Final = "profile_pcie_bound"
_OVER_PCIE: Final = (CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_HOST)


def judge(profiles: Sequence[Profile], settings: ProfilePcieBoundSettings) -> Finding:
    """Whether a device waits for copies, and from what memory they come."""
    members = at_work(NAME, profiles, settings.steady, needs_launches=False)
    if isinstance(members, Finding):
        return members
    held = [each for each in members if _exposed_ratio(each) >= settings.on_ratio]
    worst = max(held or members, key=_exposed_ratio)
    ratio = _exposed_ratio(worst)
    seen = VerdictBasis(
        f"{worst.key} copies over PCIe without a kernel beside it {ratio:.1%} of the time"
        f"{_pageable_text(worst)}.",
        factors_of(worst, ratio, settings.on_ratio),
        {
            "device": worst.key,
            "exposed_copy_ratio_at_most": round(ratio, 4),
            "copies": {f"{each.kind}, {each.memory}": each.bytes for each in _copies(worst)},
        },
    )
    if not held:
        return find_nothing(NAME, profiles, seen)
    complaint = ProfileComplaint(
        seen=seen,
        reason=Reason.PCIE_BOUND,
        action=Action.FIX_INPUT_PIPELINE,
        gain=Gain.of(worst, partial(_exposed_seconds, worst), settings.removed_low_ratio),
        description="Copy from pinned memory, beside the kernels.",
        culprits=tuple(each.key for each in held),
        instructions=(_PIN,),
        risk=Risk.VERY_LOW,
    )
    return complain(NAME, profiles, complaint)


def _exposed_ratio(member: ProfiledMember) -> float:
    return member.share(_exposed_seconds(member, member.time))


def _exposed_seconds(member: ProfiledMember, time: TimeUse) -> float:
    """At most: exposed time is not told apart by kind, so both lengths bound it."""
    exposed = member.time.exposed_copy_seconds
    summed = sum(each.seconds for each in _copies(member))
    return time.exposed_copy_seconds * min(1.0, summed / exposed) if exposed else 0.0


def _copies(member: ProfiledMember) -> tuple[CopyUse, ...]:
    return tuple(each for each in member.device.copies if each.kind in _OVER_PCIE)


def _pageable_text(member: ProfiledMember) -> str:
    pageable = [each for each in _copies(member) if each.memory is HostMemory.PAGEABLE]
    if not pageable:
        return ""
    count, size = sum(each.count for each in pageable), sum(each.bytes for each in pageable)
    return f"; {count} copies of {size / 1e6:,.1f} MB in all use pageable memory"


_PIN: Final = Instruction(
    "Pin what is copied, and copy it while kernels run",
    "DataLoader(..., pin_memory=True); batch.to(device, non_blocking=True);\n"
    "keep on the GPU what every step needs, and copy results back once",
)
RULE: Final = ProfileRule(NAME, ProfilePcieBoundSettings(), judge)
