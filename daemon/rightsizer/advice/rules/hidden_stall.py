"""GPUs that spin: busy by NVML's word while they draw no power and compute nothing.

Ranks that wait in a collective look 100 % busy; the GPU that does not spin is the one they
wait for (NVIDIA/nccl#968; docs/definitions.md, sources).
"""

from typing import Final

from rightsizer.advice.attribution import hypotheses, lost_gpus, saved_at_most
from rightsizer.advice.market import Market
from rightsizer.advice.observation import observe
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.straggler import follow_up, straggler_group
from rightsizer.advice.verdict import complain, names_of
from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Case, Finding, FindingKind, Instruction, Reason, Risk
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.settings import setting
from rightsizer.model.state import State, Tier

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
    shares = {window.uuid: window.share(State.HIDDEN_STALL) for window in case.windows}
    seen = observe(
        NAME,
        case,
        settings,
        shares,
        "busy without working",
        tiers=frozenset({Tier.PROFILING, Tier.POWER}),
        why_unsupported="without power or profiling a spinning GPU looks like a working one",
        evidence_name="stalled_ratio",
        absent="stalled {share:.0%} of the time",
    )
    if isinstance(seen, Finding):
        return seen
    waited_for = [device for device in case.devices if device not in seen.devices]
    suspect = f"; they wait for {names_of(waited_for)}" if waited_for else ""
    found = complain(
        NAME,
        case,
        kind=FindingKind.INEFFICIENT,
        reasons=(Reason.HIDDEN_STALL,),
        action=Action.INVESTIGATE_STRAGGLER,
        summary=f"{seen.summary}{suspect}.",
        factors=seen.factors,
        risk=Risk.VERY_LOW,
        evidence=seen.evidence | {"hypotheses": hypotheses(case)},
        culprits=tuple(device.uuid for device in waited_for),
        # What the stall costs is known, how much of it a fix saves is not.
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
