"""GPUs that wait for kernels so short that launching them takes longer than running them."""

from collections.abc import Sequence
from typing import Final

from rightsizer.model.finding import Action, Finding, Instruction, Reason
from rightsizer.model.profile import KernelUse, Profile, TimeUse
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
from rightsizer.profiler.settings import ProfileLaunchBoundSettings

NAME: Final = "profile_launch_bound"
_MOST_NAMED: Final = 5


def judge(profiles: Sequence[Profile], settings: ProfileLaunchBoundSettings) -> Finding:
    """Whether a device waits for launches of short kernels, and for nothing that has a name."""
    members = at_work(NAME, profiles, settings.steady)
    if isinstance(members, Finding):
        return members
    held = [each for each in members if _is_held(each, settings)]
    worst = max(held or members, key=lambda each: each.host_wait_ratio)
    seen = _seen(worst, settings)
    if not held:
        return find_nothing(NAME, profiles, seen)
    return complain(
        NAME,
        profiles,
        ProfileComplaint(
            seen=seen,
            reason=Reason.LAUNCH_BOUND,
            action=Action.ENABLE_CUDA_GRAPHS,
            gain=Gain.of(worst, _launch_wait_seconds, settings.removed_low_ratio),
            description="Launch whole steps as CUDA graphs, or fuse the short kernels.",
            culprits=tuple(each.key for each in held),
            instructions=_instructions(_short(worst, settings)),
        ),
    )


def mean_kernel_seconds(member: ProfiledMember) -> float | None:
    """Of a kernel that is no communication; `None` where it ran none."""
    kernels = member.kernels_at_work
    count = sum(each.count for each in kernels)
    return sum(each.seconds for each in kernels) / count if count else None


def _is_held(member: ProfiledMember, settings: ProfileLaunchBoundSettings) -> bool:
    mean = mean_kernel_seconds(member)
    return (
        mean is not None
        and mean <= settings.kernel_maximum_seconds
        and member.share(_launch_wait_seconds(member.time)) >= settings.on_ratio
    )


def _launch_wait_seconds(time: TimeUse) -> float:
    """What the loader explains is not the launches' fault."""
    return time.host_wait_seconds - time.loader_wait_seconds


def _seen(member: ProfiledMember, settings: ProfileLaunchBoundSettings) -> VerdictBasis:
    launches, span = member.device.launches, member.time.span_seconds
    mean = mean_kernel_seconds(member)
    rate = launches.count / span if launches and span else 0.0
    short = _short(member, settings)
    evidence: dict[str, object] = {
        "device": member.key,
        "host_wait_ratio": round(member.host_wait_ratio, 4),
        "mean_kernel_seconds": None if mean is None else round(mean, 9),
        "launches_per_second": round(rate, 1),
        "short_kernels": launches.short_kernels if launches else None,
        "launch_host_seconds": round(launches.host_seconds, 9) if launches else None,
        "kernels": [each.name for each in short],
    }
    ran = "" if mean is None else f"; a kernel runs {mean * 1e6:.1f} µs on average"
    return VerdictBasis(
        f"{member.key} waits for the host {member.host_wait_ratio:.1%} of the time{ran}, "
        f"at {rate:,.0f} launches a second.",
        factors_of(member, member.host_wait_ratio, settings.on_ratio),
        evidence,
    )


def _short(member: ProfiledMember, settings: ProfileLaunchBoundSettings) -> tuple[KernelUse, ...]:
    """The kernels that are launched most often, of the short ones."""
    short = [
        each
        for each in member.kernels_at_work
        if each.count and each.seconds / each.count <= settings.kernel_maximum_seconds
    ]
    return tuple(sorted(short, key=lambda each: -each.count)[:_MOST_NAMED])


def _instructions(kernels: Sequence[KernelUse]) -> tuple[Instruction, ...]:
    named = "\n".join(f"{each.count} x {each.name}" for each in kernels)
    return (
        Instruction(
            "Capture the steps as CUDA graphs",
            'model = torch.compile(model, mode="reduce-overhead")\n'
            "or torch.cuda.make_graphed_callables(model, sample_arguments) for fixed shapes; "
            "jax.jit around the whole step;\n"
            "serving engines: vLLM without --enforce-eager, cuda_graph_config of TensorRT-LLM",
        ),
        Instruction(
            "Fuse, or give each launch more to do: a larger batch, fused optimizers", named
        ),
    )


RULE: Final = ProfileRule(NAME, ProfileLaunchBoundSettings(), judge)
