"""GPUs that spin: busy by NVML's word while they draw no power and compute nothing.

Ranks that wait in a collective look 100 % busy; the GPU that does not spin is the one they
wait for (NVIDIA/nccl#968; docs/definitions.md, sources).
"""

from dataclasses import dataclass, field, replace
from typing import Final

from rightsizer.advice.attribution import hypotheses, lost_gpus, saved_at_most
from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.straggler import follow_up, straggler_group
from rightsizer.advice.verdict import (
    abstain,
    abstain_early,
    complain,
    direct_factors,
    find_nothing,
    known_seconds,
    names_of,
    opposite,
)
from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Case, Finding, FindingKind, Instruction, Reason, Risk
from rightsizer.model.settings import setting
from rightsizer.model.state import State, Tier
from rightsizer.model.units import format_duration

NAME: Final = "hidden_stall"


@dataclass(frozen=True, slots=True)
class HiddenStallSettings:
    """From when on spinning is a finding."""

    on_ratio: float = setting(
        0.3,
        help="Share of the span that a GPU must spin.",
        within=(0.01, 1),
        source="docs/definitions.md, conduct",
    )
    minimum_known_seconds: float = setting(
        60.0, help="Known time under which the rule abstains.", source="one learned idle draw"
    )
    conduct: OpeningPolicy = field(default_factory=OpeningPolicy)


def judge(case: Case, settings: HiddenStallSettings, market: Market) -> Finding:
    """Whether a GPU of the workload spun, and which one the others waited for."""
    too_little = abstain_early(NAME, case, settings.minimum_known_seconds)
    if too_little is not None:
        return too_little
    if all(window.tier in (Tier.BASIC, Tier.NONE) for window in case.windows):
        why = "without power or profiling a spinning GPU looks like a working one"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    shares = {window.uuid: window.share(State.HIDDEN_STALL) for window in case.windows}
    share = max(shares.values())
    factors = direct_factors(case, share, settings.on_ratio)
    evidence: dict[str, object] = {
        "stalled_ratio": {uuid: round(each, 4) for uuid, each in shares.items()},
        "threshold_ratio": settings.on_ratio,
    }
    if share < settings.on_ratio:
        summary = f"{names_of(case.devices)}: stalled {share:.0%} of the time."
        return find_nothing(NAME, case, summary, opposite(factors), evidence)
    evidence["hypotheses"] = hypotheses(case)
    stalled = [device for device in case.devices if shares[device.uuid] >= settings.on_ratio]
    waited_for = [device for device in case.devices if device not in stalled]
    suspect = f"; they wait for {names_of(waited_for)}" if waited_for else ""
    holder = f" of {case.workload.name}" if case.workload else ""
    found = complain(
        NAME,
        case,
        kind=FindingKind.INEFFICIENT,
        reasons=(Reason.HIDDEN_STALL,),
        action=Action.INVESTIGATE_STRAGGLER,
        summary=(
            f"{names_of(stalled)}{holder}: busy without working {share:.0%} of the last "
            f"{format_duration(known_seconds(case))}{suspect}."
        ),
        factors=factors,
        risk=Risk.VERY_LOW,
        evidence=evidence,
        culprits=tuple(device.uuid for device in waited_for),
        # What the stall costs is known, how much of it can be mended is not.
        savings=saved_at_most(case, market, State.HIDDEN_STALL),
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=_instructions(case, waited_for),
        affected_gpus=lost_gpus(case, State.HIDDEN_STALL),
    )
    return replace(found, exclusive_group=straggler_group(case)) if waited_for else found


def _instructions(case: Case, waited_for: list[Device]) -> tuple[Instruction, ...]:
    if len(case.devices) > 1:
        return follow_up(case, waited_for)
    alone = Instruction(
        "A single GPU has no peer to wait for",
        (
            "it waits for ranks on other nodes, its program hangs in a kernel, or a loop keeps it "
            "busy so that nobody takes it away"
        ),
    )
    return (alone, *follow_up(case, waited_for))


RULE: Final = Rule(NAME, HiddenStallSettings(), judge)
