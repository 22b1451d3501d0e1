"""GPUs that wait for copies to and from the host."""

from collections.abc import Sequence
from typing import Final

from rightsizer.model.profile import CopyKind, CopyUse, HostMemory, Profile, TimeUse
from rightsizer.model.values import Action, Reason, Risk
from rightsizer.profiler.member import ProfiledMember
from rightsizer.profiler.rules import rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict
from rightsizer.profiler.settings import ProfilePcieBoundSettings

_OVER_PCIE: Final = (CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_HOST)


def judge(profiles: Sequence[Profile], settings: ProfilePcieBoundSettings) -> ProfileVerdict:
    """Whether a device waits for copies, and which memory they come from."""
    worst, ratio, culprits = rule.over(
        rule.at_work(profiles, settings.steady, needs_launches=False),
        lambda member: member.share(_exposed_seconds(member, member.time)),
        settings.on_ratio,
    )
    copies = [copy for copy in worst.device.copies if copy.kind in _OVER_PCIE]
    moved = sum(copy.seconds for copy in copies)
    pageable = [copy for copy in copies if copy.memory is HostMemory.PAGEABLE]
    is_pageable = sum(copy_use.seconds for copy_use in pageable) >= _MOST * moved > 0
    count = sum(copy_use.count for copy_use in pageable)
    size = _bytes(pageable)
    sizes = f" of {size / 1e6:,.1f} MB in all" if size else ""
    pageable_text = f"; {count} copies{sizes} use pageable memory"
    rate = _bytes_per_second(copies)
    pace = "" if rate is None else f", at {rate / 1e9:,.1f} GB/s"
    return ProfileVerdict(
        f"{worst.key} copies over PCIe without a kernel beside it {ratio:.1%} of the time{pace}"
        f"{pageable_text if pageable else ''}.",
        rule.factors_of(worst, ratio, settings.on_ratio),
        {
            "device": worst.key,
            "exposed_copy_ratio_at_most": round(ratio, 4),
            "bytes_per_second": None if rate is None else round(rate),
            "copies": {f"{copy.kind}, {copy.memory}": copy.bytes for copy in copies},
        },
        culprits,
        reason=Reason.PCIE_BOUND,
        action=Action.FIX_INPUT_PIPELINE,
        gain=Gain.of(worst, lambda time: _exposed_seconds(worst, time), settings.removed_low_ratio),
        description="Copy from pinned memory, beside the kernels."
        if is_pageable
        else "Copy less, and copy while kernels run.",
        instructions=rule.instructions("pin" if is_pageable else "copy_less"),
        risk=Risk.VERY_LOW,
    )


def _exposed_seconds(member: ProfiledMember, time: TimeUse) -> float:
    """Return an upper bound: exposed time is not split by kind, but both lengths limit it."""
    exposed = member.time.exposed_copy_seconds
    summed = sum(copy.seconds for copy in member.device.copies if copy.kind in _OVER_PCIE)
    return time.exposed_copy_seconds * min(1.0, summed / exposed) if exposed else 0.0


def _bytes_per_second(copies: Sequence[CopyUse]) -> float | None:
    """Return the rate over the link; `None` for unknown sizes or too short times."""
    seconds = sum(copy.seconds for copy in copies)
    size = _bytes(copies)
    return size / seconds if seconds >= _CLOCK_SECONDS and size else None


def _bytes(copies: Sequence[CopyUse]) -> int | None:
    """Return the size of all, `None` if that of any kind is unknown."""
    sizes = [copy.bytes for copy in copies]
    return None if None in sizes else sum(filter(None, sizes))


_MOST: Final = 0.5
"""Of the copies' time."""
_CLOCK_SECONDS: Final = 1e-9
"""Finest resolution of profilers' clocks."""
RULE: Final = rule.ProfileRule("profile_pcie_bound", ProfilePcieBoundSettings(), judge)
