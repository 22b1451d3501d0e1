"""Rule: GPUs with nearly full memory, where the next allocation may fail.

Memory of preallocating frameworks is full by design; the rule abstains.
"""

from typing import Annotated, Final

from msgspec.structs import replace

from rightsizer.advice.board_options import larger_boards
from rightsizer.advice.instructions import instructions
from rightsizer.advice.observation import in_condition, observe, screen_observed
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.savings import TOO_SMALL
from rightsizer.advice.screen import Screen, SubjectTable, too_little, unmeasured
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    Action,
    Allocator,
    Condition,
    Finding,
    Reason,
    Resource,
    Spec,
    Tier,
    WorkloadClass,
)

_PREALLOCATES: Final = "the framework preallocates, so memory held is not memory needed"
_LOOKS_PREALLOCATED: Final = (
    "memory in use is high and never changes, as with a preallocating framework; state "
    "the allocator in a policy to have it judged"
)


class NearOutOfMemorySettings(RuleSettings, frozen=True):
    """Thresholds for nearly full memory.

    Attributes:
        on_ratio: Share of the span that the memory must be nearly full.
            Source: docs/definitions.md, provisioning: under-provisioned from 0.05 of the time on
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.05
    conduct: OpeningPolicy = OpeningPolicy()


_NEVER_HELD: Final = "no memory reading while the GPU was held"


def judge(subject: CaseSubject, settings: NearOutOfMemorySettings) -> Finding:
    """Whether a GPU of the workload is nearly out of memory that it does not preallocate."""
    case = subject.case
    if (early := subject.abstain_early(settings.minimum_known_seconds)) is not None:
        return early
    if not any(Resource.MEMORY in window.demands for window in case.windows):
        return subject.abstain(_NEVER_HELD)
    if any(provisioning.memory_is_preallocated for provisioning in case.provisioning):
        is_stated = case.workload and case.workload.allocator is Allocator.PREALLOCATING
        return subject.abstain(_PREALLOCATES if is_stated else _LOOKS_PREALLOCATED)
    seen = observe(
        subject,
        settings,
        in_condition(Condition.NEAR_OUT_OF_MEMORY),
        "memory nearly full",
        tiers=frozenset(Tier),
        evidence_name="near_out_of_memory_ratio",
        absent="nearly out of memory for {share} of the time",
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
    # No advice on the GPU type for an unknown class (docs/definitions.md).
    may_move = case.workload_class is not WorkloadClass.UNKNOWN
    return seen.find_problem(
        "; the next allocation may fail",
        reasons=(Reason.GPU_MEMORY_UNDERPROVISIONED,),
        action=Action.CHANGE_GPU_TYPE if may_move else Action.NONE,
        evidence=peaks,
        culprits=tuple(device.uuid for device in seen.devices),
        options=larger_boards(case, subject.market) if may_move else (),
        savings=TOO_SMALL,
        instructions=instructions("take_less_memory"),
        affected_gpus=sum(device.capacity_ratio for device in seen.devices),
    )


def screen(table: SubjectTable, settings: NearOutOfMemorySettings) -> Screen:
    """Settle which subjects have memory left, or cannot be told to have."""
    yield too_little(table.known_seconds < settings.minimum_known_seconds)
    yield unmeasured(~table.has_demand(Resource.MEMORY), _NEVER_HELD)
    is_stated = table.is_allocated_by(Allocator.PREALLOCATING)
    yield unmeasured(table.is_preallocated & is_stated, _PREALLOCATES)
    yield unmeasured(table.is_preallocated, _LOOKS_PREALLOCATED)
    share = table.condition_share(Condition.NEAR_OUT_OF_MEMORY)
    yield from screen_observed(table, settings, share, tiers=frozenset(Tier))


RULE: Final = Rule("near_out_of_memory", NearOutOfMemorySettings(), judge, screen)
