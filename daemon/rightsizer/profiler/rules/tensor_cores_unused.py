"""Matrix products in kernels that do not use tensor cores."""

import re
from collections.abc import Sequence
from typing import Final

from rightsizer.model.profile import KernelUse, Profile
from rightsizer.model.values import Action, Reason, Risk, percent_text
from rightsizer.profiler.member import ProfiledMember
from rightsizer.profiler.rules import rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict
from rightsizer.profiler.settings import ProfileTensorCoresUnusedSettings

_MOST_NAMED: Final = 5
_PRODUCT: Final = re.compile(
    r"(?<!fb)gemm|convol|wgrad|dgrad|fprop|scudnn|winograd|matmul|Cijk_", re.IGNORECASE
)
_NOT_EASED: Final = re.compile(r"<double|dgemm|zgemm|dcudnn|, double|splitKreduce", re.IGNORECASE)
"""Double precision has no faster form, and summing parts is no product."""
_WITHOUT: Final = re.compile(r"\b(?:P100|P40|P4|K80|K40|M60|M40)\b|GTX", re.IGNORECASE)
"""GPUs without tensor cores."""
_HALF_ALONE: Final = re.compile(
    r"\b(?:V100S?|T4|T40|TITAN (?:V|RTX)|(?:GeForce |Quadro )?RTX (?:20\d\d|[34568]000)\b(?! Ada))",
    re.IGNORECASE,
)
"""Volta and Turing, whose tensor cores have neither bfloat16 nor TF32 (NVIDIA's whitepapers)."""


def judge(
    profiles: Sequence[Profile], settings: ProfileTensorCoresUnusedSettings
) -> ProfileVerdict:
    """Whether matrix products run without tensor cores."""
    members = rule.at_work(profiles, settings.steady, needs_launches=False)
    if not (
        able := [member for member in members if not _WITHOUT.search(member.device.device.name)]
    ):
        why = f"a {members[0].device.device.name} has no tensor cores"
        raise rule.NoVerdictError(Reason.UNSUPPORTED_TELEMETRY, why)
    worst, ratio, culprits = rule.over(
        able, lambda member: _ratio(member, False), settings.on_ratio
    )
    if not culprits and max(_ratio(member, None) for member in able) >= settings.on_ratio:
        why = "the names of its products of matrices do not tell which units they use"
        raise rule.NoVerdictError(Reason.INSUFFICIENT_DATA, why)
    kernels = _products(worst, False)[:_MOST_NAMED]
    is_half_alone = bool(_HALF_ALONE.search(worst.device.device.name))
    return ProfileVerdict(
        f"{worst.key} multiplies matrices without tensor cores {percent_text(ratio)} of the time.",
        rule.factors_of(worst, ratio, settings.on_ratio),
        {
            "device": worst.key,
            "without_tensor_cores_ratio": round(ratio, 4),
            "with_tensor_cores_ratio": round(_ratio(worst, True), 4),
            "unknown_ratio": round(_ratio(worst, None), 4),
            "kernels": {kernel.name: round(kernel.seconds, 6) for kernel in kernels},
        },
        culprits,
        reason=Reason.TENSOR_CORES_UNUSED,
        action=Action.ENABLE_MIXED_PRECISION,
        gain=Gain.of(
            worst,
            # Kernels are summed over the whole span; a step gets its share.
            lambda time: time.kernel_seconds * _part(worst, False),
            1.0 - 1.0 / settings.speedup_low_ratio,
            1.0 - 1.0 / settings.speedup_high_ratio,
        ),
        description="Compute in half precision."
        if is_half_alone
        else "Compute in mixed precision, or allow TF32.",
        instructions=rule.instructions("half_precision" if is_half_alone else "mixed_precision"),
        risk=Risk.MEDIUM,
    )


def _ratio(member: ProfiledMember, uses: bool | None) -> float:  # noqa: FBT001 - a value, not a switch.
    return min(1.0, member.share(member.time.kernel_seconds * _part(member, uses)))


def _part(member: ProfiledMember, uses: bool | None) -> float:  # noqa: FBT001 - a value, not a switch.
    busy = member.time.kernel_seconds
    summed = sum(product.seconds for product in _products(member, uses))
    return min(1.0, summed / busy) if busy else 0.0


def _products(member: ProfiledMember, uses: bool | None) -> list[KernelUse]:  # noqa: FBT001 - a value.
    return [
        kernel_use
        for kernel_use in member.kernels_at_work
        if kernel_use.uses_tensor_cores is uses
        and (uses or _PRODUCT.search(kernel_use.name))
        and not _NOT_EASED.search(kernel_use.name)
    ]


RULE: Final = rule.ProfileRule(
    "profile_tensor_cores_unused", ProfileTensorCoresUnusedSettings(), judge
)
