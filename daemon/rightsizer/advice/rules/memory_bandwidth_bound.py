"""Serving that streams its weights all the time: more requests a step would cost nothing more.

Being bound by memory traffic is how decoding works, and a batch job at that limit is well used.
It is a complaint only of a service, where a larger batch or smaller weights would serve more.
"""

from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.observation import TimeShare, minimum_known, observe, on_ratio
from rightsizer.advice.rules.bottleneck import slow_opening_policy
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import complain, find_nothing
from rightsizer.model.finding import (
    Action,
    Case,
    Finding,
    FindingKind,
    Instruction,
    Reason,
    Risk,
    Savings,
)
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.state import Resource, State, Tier
from rightsizer.model.workload import WorkloadClass

NAME: Final = "memory_bandwidth_bound"
_NOTHING_FREED: Final = Savings(reason="the same GPUs serve more; none of them is freed by it")


@dataclass(frozen=True, slots=True)
class MemoryBandwidthBoundSettings:
    """From when on memory traffic is a finding."""

    on_ratio: float = on_ratio(
        0.5,
        "Share of the span, idle time included, for which memory traffic must be the limit.",
        "docs/definitions.md, conduct: as for the other limits",
    )
    minimum_known_seconds: float = minimum_known()
    compute_ratio: float = setting(
        0.5,
        help="Median of the compute used above which a larger batch finds no room.",
        source="docs/definitions.md, states: a pipe at .5 is a limit of its own",
    )
    pressed_ratio: float = setting(
        0.05,
        help="Share of the span with users waiting from which on it is under-provisioned.",
        source="docs/definitions.md, provisioning",
    )
    conduct: OpeningPolicy = field(default_factory=slow_opening_policy)


def judge(case: Case, settings: MemoryBandwidthBoundSettings, market: Market) -> Finding:
    """Whether a service is bound by memory traffic and has compute to spare."""
    seen = observe(
        NAME,
        case,
        settings,
        {each.uuid: each.share(State.MEMORY_BANDWIDTH_BOUND) for each in case.windows},
        "bound by memory traffic",
        tiers=frozenset({Tier.PROFILING}),
        why_unsupported="without profiling nobody measures memory traffic",
    )
    if isinstance(seen, Finding):
        return seen
    compute = _compute(case)
    evidence = seen.evidence | {"compute_median_ratio": compute, "pressed_ratio": _pressed(case)}
    why_not = _why_not(case, compute, settings)
    if why_not:
        return find_nothing(NAME, case, f"{seen.summary}: {why_not}.", seen.factors, evidence)
    return _complaint(case, seen, evidence, settings, market)


def _why_not(case: Case, compute: float | None, settings: MemoryBandwidthBoundSettings) -> str:
    workload_class = case.workload_class
    if workload_class is not WorkloadClass.SERVING:
        is_batch = workload_class is WorkloadClass.BATCH
        return "a job at a limit of its GPU is well used" if is_batch else "no service is known"
    if compute is not None and compute > settings.compute_ratio:
        return "a larger batch would find no compute"
    return ""


def _complaint(
    case: Case,
    seen: TimeShare,
    evidence: dict[str, object],
    settings: MemoryBandwidthBoundSettings,
    market: Market,
) -> Finding:
    is_short = _pressed(case) >= settings.pressed_ratio
    waits = "users wait, and " if is_short else ""
    return complain(
        NAME,
        case,
        kind=FindingKind.UNDERPROVISIONED if is_short else FindingKind.INEFFICIENT,
        reasons=(Reason.MEMORY_BANDWIDTH_BOUND,),
        action=Action.RAISE_BATCH,
        summary=f"{seen.summary}: {waits}a larger batch would serve more for the same traffic.",
        factors=seen.factors,
        risk=Risk.LOW,
        evidence=evidence,
        savings=_NOTHING_FREED,
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=_instructions(),
        # Where no user waits nothing is lost.
        affected_gpus=seen.gpus if is_short else 0.0,
    )


def _pressed(case: Case) -> float:
    """The share of the known time with users waiting, on the device with most of it."""
    return max(
        (
            round(window.pressed.get(Resource.MEMORY_BANDWIDTH, 0) / window.known, 4)
            for window in case.windows
            if window.known
        ),
        default=0.0,
    )


def _compute(case: Case) -> float | None:
    """The median of the compute that was used at least, on the device that used most."""
    medians = [window.compute_at_least.quantile(0.5) for window in case.windows]
    known = [each for each in medians if each is not None]
    return max(known) if known else None


def _instructions() -> tuple[Instruction, ...]:
    return (
        Instruction(
            "Let more requests share a step, as far as the key-value cache and latency allow",
            (
                "vllm serve ... --max-num-seqs 512 --max-num-batched-tokens 16384 "
                "--gpu-memory-utilization 0.95"
            ),
            "sh",
        ),
        Instruction(
            "Read fewer bytes for each token",
            "vllm serve ... --quantization fp8 --kv-cache-dtype fp8",
            "sh",
        ),
        Instruction(
            "Put replicas together",
            "two half-empty replicas stream the weights twice; one with both loads does so once",
        ),
    )


RULE: Final = Rule(NAME, MemoryBandwidthBoundSettings(), judge)
