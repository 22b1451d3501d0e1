"""GPUs that wait for launches: their kernels run out faster than the host issues the next."""

from collections.abc import Sequence
from typing import Final

from rightsizer.model.profile import KernelUse, Profile
from rightsizer.model.values import Action, Instruction, Reason
from rightsizer.profiler.figures import short_text, time_text
from rightsizer.profiler.member import ProfiledMember, members_of
from rightsizer.profiler.rules import host_steps, rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict
from rightsizer.profiler.settings import ProfileLaunchBoundSettings

_MOST_NAMED: Final = 5
_MOST: Final = 0.5
"""Of all kernels."""
_OPTIMIZER: Final = "Optimizer."
"""Begins PyTorch's name of an optimizer's step."""
_NAME: Final = 80
"""Longest name of a kernel in an instruction, in characters; the evidence has it whole."""
_GRAPH_KERNELS: Final = 2.0
"""Mean kernels per launch from which the summary mentions them."""


def judge(profiles: Sequence[Profile], settings: ProfileLaunchBoundSettings) -> ProfileVerdict:
    """Whether a device waits for launches, in short gaps without another known cause."""
    if not members_of(profiles):
        profile_verdict = host_steps.of_dispatch(profiles, settings)
        if profile_verdict is not None and profile_verdict.culprits:
            return profile_verdict
    members = rule.at_work(profiles, settings.steady)
    held = [
        member
        for member in members
        if member.waits_for_launches(settings.on_ratio, settings.steady)
    ]
    worst = max(held or members, key=lambda member: member.host_wait_ratio)
    launches = worst.device.launches
    span = worst.time.span_seconds
    mean = worst.mean_kernel_seconds
    rate = launches.count / span if launches and span else 0.0
    short = _short_kernels(worst, settings.kernel_maximum_seconds)
    ran = "" if mean is None else f"; a kernel runs {mean * 1e6:.1f} µs on average"
    gaps = worst.device.dispatch_gaps
    in_gaps = (
        f", {gaps.count:,} times for {time_text(gaps.median_seconds)} (median)" if gaps else ""
    )
    optimizer = ["one_optimizer_kernel"] if _optimizer_ratio(worst) >= _MOST else []
    in_optimizer = ", most of them of the optimizer" if optimizer else ""
    brought = launches.matched / launches.count if launches and launches.count else 1.0
    graphs = f", each of {brought:,.0f} kernels (graphs)" if brought >= _GRAPH_KERNELS else ""
    outlier = rule.outlier_text(worst, settings.steady.outlier_minimum_ratio)
    return ProfileVerdict(
        f"{worst.key} waits for the host {worst.host_wait_ratio:.1%} of the time{in_gaps}"
        f"{ran}, at {rate:,.0f} launches a second{graphs}{in_optimizer}{outlier}.",
        rule.factors_of(worst, worst.host_wait_ratio, settings.on_ratio),
        {
            "device": worst.key,
            "host_wait_ratio": round(worst.host_wait_ratio, 4),
            "gaps": None if gaps is None else gaps.count,
            "median_gap_seconds": None if gaps is None else round(gaps.median_seconds, 9),
            "mean_kernel_seconds": None if mean is None else round(mean, 9),
            "launches_per_second": round(rate, 1),
            "kernels_per_launch": round(brought, 2),
            "longest_host_wait_seconds": round(worst.device.longest_host_wait_seconds, 9),
            "short_kernels": launches.short_kernels if launches else None,
            "launch_host_seconds": round(launches.host_seconds, 9) if launches else None,
            "kernels": [kernel_use.name for kernel_use in short],
        },
        tuple(member.key for member in held),
        reason=Reason.LAUNCH_BOUND,
        action=Action.ENABLE_CUDA_GRAPHS,
        gain=Gain.of(worst, lambda time: time.dispatch_wait_seconds, settings.removed_low_ratio),
        description="Launch whole steps as CUDA graphs, or fuse the short kernels.",
        instructions=(
            *rule.instructions(*optimizer, "capture_graphs"),
            _fusing(short),
        ),
    )


def _fusing(kernels: Sequence[KernelUse]) -> Instruction:
    names = (f"{kernel.count} x {short_text(kernel.name, _NAME)}" for kernel in kernels)
    title = "Fuse, or give each launch more to do: a larger batch, fused optimizers"
    return Instruction(title, "\n".join(names))


def _optimizer_ratio(member: ProfiledMember) -> float:
    """Return the share of kernels that a program's optimizer launches by its own name."""
    frames = [frame for frame in member.device.frames if frame.name.startswith(_OPTIMIZER)]
    return sum(frame.kernels for frame in frames) / (member.kernel_count or 1)


def _short_kernels(member: ProfiledMember, maximum_seconds: float) -> list[KernelUse]:
    """Kernels that run at most so long on average, the most frequent first."""
    short = [
        kernel
        for kernel in member.kernels_at_work
        if kernel.count and kernel.seconds / kernel.count <= maximum_seconds
    ]
    return sorted(short, key=lambda kernel: -kernel.count)[:_MOST_NAMED]


RULE: Final = rule.ProfileRule("profile_launch_bound", ProfileLaunchBoundSettings(), judge)
