"""GPUs whose memory is nearly full, so that the next allocation may fail.

Memory that a framework preallocates is full by design and says nothing; the rule abstains.
"""

from typing import Final

from rightsizer.advice.board_options import larger_boards
from rightsizer.advice.market import Market
from rightsizer.advice.observation import observe
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import abstain, abstain_early, complain
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
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.settings import setting
from rightsizer.model.state import Condition, Resource, Tier
from rightsizer.model.workload import Allocator, WorkloadClass

NAME: Final = "near_out_of_memory"
_INSTRUCTIONS: Final = (
    Instruction(
        "Take less memory, until there is more of it",
        (
            "Lower the batch size or the sequence length, or recompute activations. Fragments of "
            "PyTorch's allocator are won back by PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class NearOutOfMemorySettings:
    """From when on full memory is a finding."""

    on_ratio: float = setting(
        0.05,
        help="Share of the span during which the memory must be nearly full.",
        within=(0.001, 1),
        source="docs/definitions.md, provisioning: under-provisioned from 0.05 of the time on",
    )
    minimum_known_seconds: float = setting(
        60.0, help="Known time under which the rule abstains.", source="a minute of readings"
    )
    conduct: OpeningPolicy = field(default_factory=OpeningPolicy)


def judge(case: Case, settings: NearOutOfMemorySettings, market: Market) -> Finding:
    """Whether a GPU of the workload was nearly out of memory, where that means something."""
    early = _early(case, settings)
    if early is not None:
        return early
    shares = {
        window.uuid: window.condition_share(Condition.NEAR_OUT_OF_MEMORY) for window in case.windows
    }
    seen = observe(
        NAME,
        case,
        settings,
        shares,
        "memory nearly full",
        tiers=frozenset(Tier),
        evidence_name="near_out_of_memory_ratio",
        absent="nearly out of memory {share:.1%} of the time",
    )
    peaks = {
        "memory_peak_ratio": {
            window.uuid: window.demands[Resource.MEMORY].maximum()
            for window in case.windows
            if Resource.MEMORY in window.demands
        }
    }
    if isinstance(seen, Finding):
        return replace(seen, evidence={**seen.evidence, **peaks})
    full = seen.devices
    # An unknown class gets no advice on the type of GPU (docs/definitions.md).
    may_move = case.workload_class is not WorkloadClass.UNKNOWN
    return complain(
        NAME,
        case,
        kind=FindingKind.UNDERPROVISIONED,
        reasons=(Reason.GPU_MEMORY_UNDERPROVISIONED,),
        action=Action.CHANGE_GPU_TYPE if may_move else Action.NONE,
        summary=f"{seen.summary}; the next allocation may fail.",
        factors=seen.factors,
        risk=Risk.VERY_LOW,
        evidence=seen.evidence | peaks,
        culprits=tuple(device.uuid for device in full),
        options=larger_boards(case, market) if may_move else (),
        savings=Savings(reason="a GPU that is too small saves nothing"),
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=_INSTRUCTIONS,
        affected_gpus=sum(device.capacity_ratio for device in full),
    )


def _early(case: Case, settings: NearOutOfMemorySettings) -> Finding | None:
    """An abstention where memory says nothing; `None` where it does."""
    too_little = abstain_early(NAME, case, settings.minimum_known_seconds)
    if too_little is not None:
        return too_little
    if not any(Resource.MEMORY in window.demands for window in case.windows):
        why = "no memory reading while the GPU was held"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    if any(each.memory_is_preallocated for each in case.provisioning):
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, _why_preallocated(case))
    return None


def _why_preallocated(case: Case) -> str:
    if case.workload and case.workload.allocator is Allocator.PREALLOCATING:
        return "the framework preallocates, so memory held is not memory needed"
    return (
        "memory in use is high and never changes, as with a preallocating framework; state "
        "the allocator in a policy to have it judged"
    )


RULE: Final = Rule(NAME, NearOutOfMemorySettings(), judge)
