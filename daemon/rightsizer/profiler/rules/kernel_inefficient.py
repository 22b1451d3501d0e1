"""Kernels below their board's capability, by hardware counters."""

from collections.abc import Iterator, Sequence
from math import floor
from typing import Final, NamedTuple

from msgspec import Struct

from rightsizer.advice.risk import probability_above
from rightsizer.model.profile import KernelCounters, KernelUse, Profile
from rightsizer.model.values import Action, Reason, Risk, percent_text
from rightsizer.profiler.figures import short_text
from rightsizer.profiler.member import key_of
from rightsizer.profiler.rules import rule
from rightsizer.profiler.rules.rule import Gain, ProfileVerdict
from rightsizer.profiler.settings import ProfileKernelInefficientSettings

_MOST_NAMED: Final = 5
_NAME_CHARACTERS: Final = 60
_WARP_THREADS: Final = 32
_SPARING: Final = "spare_registers"
_ASKING_REGISTERS: Final = frozenset(("raise_occupancy", "hide_latency"))
"""Remedies that take registers from a thread, or ask for more."""


class _Cause(NamedTuple):
    text: str
    saved_ratio: float
    remedy: str


class _JudgedKernel(Struct, frozen=True):
    device: str
    kernel: KernelUse
    limit: str
    """`compute`, `memory`, `latency`, `open` if one of both is not known, or empty for neither."""
    throughput_ratio: float | None
    """Of the multiprocessors or the memory, whichever is nearer to its peak."""
    causes: tuple[_Cause, ...]

    @property
    def is_short(self) -> bool:
        return bool(self.causes) or self.limit == "latency"

    @property
    def saved_ratio(self) -> float:
        """Upper bound of the saving: the busiest resource cannot exceed its peak."""
        largest_saving = max((cause.saved_ratio for cause in self.causes), default=1.0)
        if self.throughput_ratio is None:
            return largest_saving
        excess = self.kernel.counters and self.kernel.counters.excess_sectors_ratio
        return min(largest_saving, 1.0 - self.throughput_ratio * (1.0 - (excess or 0.0)))

    @property
    def text(self) -> str:
        why = ", ".join(cause.text for cause in self.causes)
        if self.throughput_ratio is None or (self.limit == "open" and not why):
            return why
        at = f"{percent_text(self.throughput_ratio)} of its peak"
        said = {
            "compute": f"SM throughput is at {at}",
            "memory": f"memory throughput is at {at}",
            "latency": f"neither SM nor memory throughput is beyond {at}",
            "open": f"of SM and memory throughput one was measured, and is at {at}",
        }[self.limit]
        return f"{said}{', ' if why else ''}{why}"


def judge(
    profiles: Sequence[Profile], settings: ProfileKernelInefficientSettings
) -> ProfileVerdict:
    """Whether kernels use less of their board than they could, by hardware counters."""
    judged = [
        judged_kernel
        for profile in profiles
        for device in profile.devices
        for kernel in device.kernels
        if not kernel.is_collective
        and (judged_kernel := _judged(key_of(profile, device), kernel, settings)).text
    ]
    whole = sum(kernel.kernel.seconds for kernel in judged)
    if not judged or not whole:
        why = "no counters in it tell what limits its kernels; `ncu --set full --csv` has them"
        raise rule.NoVerdictError(Reason.UNSUPPORTED_TELEMETRY, why)
    judged.sort(key=lambda kernel: -kernel.kernel.seconds)
    short = [kernel for kernel in judged if kernel.is_short]
    ratio = sum(kernel.kernel.seconds for kernel in short) / whole
    shown = (short or judged)[0]
    share = shown.kernel.seconds / whole
    saved = sum(kernel.kernel.seconds * kernel.saved_ratio for kernel in short) / whole
    remedies = dict.fromkeys(cause.remedy for one in short for cause in one.causes)
    spills = any(one.kernel.counters and one.kernel.counters.spill_requests for one in short)
    runs = float(sum(kernel.kernel.count for kernel in judged))
    steps = rule.instructions(*(remedies or (_SPARING if spills else "hide_latency",)))
    what = "; ".join(step.title for step in steps)
    name = short_text(shown.kernel.name, _NAME_CHARACTERS)
    is_held = ratio >= settings.on_ratio
    return ProfileVerdict(
        f"{name} ({percent_text(share)} of the kernels' time): {shown.text}.",
        {"certainty": probability_above(ratio, runs, settings.on_ratio)},
        {
            "inefficient_ratio": round(ratio, 4),
            "kernels": {
                kernel.kernel.name: kernel.text for kernel in (short or judged)[:_MOST_NAMED]
            },
        },
        tuple(dict.fromkeys(kernel.device for kernel in short)) if is_held else (),
        reason=Reason.KERNEL_INEFFICIENT,
        action=Action.OPTIMIZE_KERNEL,
        gain=Gain(0.0, saved, None),
        description=f"{what}. The gain is of the kernels profiled.",
        instructions=steps,
        risk=Risk.MEDIUM,
    )


def _judged(
    device: str, kernel: KernelUse, settings: ProfileKernelInefficientSettings
) -> _JudgedKernel:
    counters = kernel.counters or KernelCounters()
    memory = counters.memory_ratio if counters.memory_ratio is not None else kernel.dram_ratio
    compute = kernel.compute_ratio
    limit = ""
    throughput = None
    if compute is not None and compute >= max(settings.bound_minimum_ratio, memory or 0.0):
        limit = "compute"
        throughput = compute
    elif memory is not None and memory >= settings.bound_minimum_ratio:
        limit = "memory"
        throughput = memory
    elif ratios := [ratio for ratio in (compute, memory) if ratio is not None]:
        limit = "latency" if len(ratios) > 1 else "open"
        throughput = max(ratios)
    causes = tuple(_causes(kernel, counters, limit, settings))
    if counters.spill_requests:
        causes = tuple(map(_of_spilling, causes))
    return _JudgedKernel(device, kernel, limit, throughput, causes)


def _of_spilling(cause: _Cause) -> _Cause:
    """Return the cause with a remedy that spills no more registers."""
    if cause.remedy not in _ASKING_REGISTERS:
        return cause
    return _Cause(f"{cause.text}, and registers spill", cause.saved_ratio, _SPARING)


def _causes(
    kernel: KernelUse,
    counters: KernelCounters,
    limit: str,
    settings: ProfileKernelInefficientSettings,
) -> Iterator[_Cause]:
    excess = counters.excess_sectors_ratio
    threads = counters.active_threads
    if limit != "compute" and excess and excess >= settings.excess_sectors_minimum_ratio:
        share = percent_text(excess)
        text = f"{share} of the sectors that it moves are of no use (uncoalesced access)"
        yield _Cause(text, excess, "coalesce")
    if limit in {"latency", "open"}:
        yield from _room(kernel, counters, settings)
        if threads and threads <= settings.threads_maximum:
            text = f"{threads:.0f} of the {_WARP_THREADS} threads of a warp work on average"
            yield _Cause(text, 1.0 - threads / _WARP_THREADS, "converge")
        stalled = counters.stall_ratio or 0.0
        if stalled >= settings.stall_minimum_ratio:
            text = f"its warps spend {percent_text(stalled)} of the time {counters.stall}"
            yield _Cause(text, stalled, "hide_latency")


def _room(
    kernel: KernelUse, counters: KernelCounters, settings: ProfileKernelInefficientSettings
) -> Iterator[_Cause]:
    """Yield causes of low occupancy: too few blocks, or too few warps on a multiprocessor."""
    waves = counters.waves or 0.0
    room = counters.theoretical_occupancy_ratio
    tail = 1.0 / (floor(waves) + 1)
    if 0 < waves < 1:
        text = f"its blocks fill {percent_text(waves)} of the multiprocessors' room"
        yield _Cause(text, 1.0 - waves, "more_blocks")
    elif waves > floor(waves) and tail >= settings.tail_minimum_ratio:
        text = f"the last of its {waves:.1f} waves of blocks leaves multiprocessors idle"
        yield _Cause(text, tail, "more_blocks")
    # Tensor core products hide latency within a block.
    is_short = room is not None and room <= settings.occupancy_maximum_ratio
    if room is not None and is_short and not kernel.uses_tensor_cores:
        limits = {
            "its registers": counters.register_blocks,
            "its shared memory": counters.shared_memory_blocks,
            "its block size": counters.warp_blocks,
        }
        block_limits = {name: round(blocks) for name, blocks in limits.items() if blocks}
        least = min(block_limits.values(), default=None)
        by = " and ".join(name for name, blocks in block_limits.items() if blocks == least)
        text = f"{by or 'what it takes'} leave room for {percent_text(room)} of the warps"
        yield _Cause(text, 1.0 - room, "raise_occupancy")


RULE: Final = rule.ProfileRule(
    "profile_kernel_inefficient", ProfileKernelInefficientSettings(), judge
)
