"""Rule: GPUs that multiply in single precision while their tensor cores are idle."""

from typing import Annotated, Final

from rightsizer.advice.board_status import abstain_unobserved
from rightsizer.advice.instructions import instructions
from rightsizer.advice.observation import (
    abstain_inactive,
    active_share,
    observe,
    screen_observed,
    unobserved,
)
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.screen import Screen, SubjectTable, too_little
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import CONSTANT, Action, Condition, Finding, Reason, Risk, Signal, Tier

_WITHOUT_BFLOAT16: Final = frozenset({"volta", "turing"})


class TensorCoresUnusedSettings(RuleSettings, frozen=True):
    """Thresholds for unused tensor cores.

    Attributes:
        on_ratio: Share of active time with FP32 work and unused tensor cores.
            Source: docs/definitions.md, conduct: as for the other limits
        minimum_active_seconds: Active time below which a GPU is not judged.
            Source: docs/definitions.md, provisioning; jobs below ten minutes are start-up
    """

    minimum_active_seconds: Annotated[float, CONSTANT] = 600.0
    conduct: OpeningPolicy = OpeningPolicy.slow()


_UNKNOWN_PIPES: Final = "without profiling, which pipes compute is unknown"


def judge(subject: CaseSubject, settings: TensorCoresUnusedSettings) -> Finding:
    """Whether a GPU of the workload computes in FP32 without its tensor cores."""
    case = subject.case
    least = settings.minimum_active_seconds
    condition = Condition.NO_TENSOR_CORES
    seen = observe(
        subject,
        settings,
        lambda window: active_share(window, window.conditions.get(condition, 0), least),
        "computing in FP32 with the tensor cores at rest",
        tiers=frozenset({Tier.PROFILING}),
        why_unsupported=_UNKNOWN_PIPES,
        evidence_name="active_share_ratio",
        is_of_active_time=True,
    )
    if isinstance(seen, Finding):
        seen = abstain_unobserved(seen, subject, (Signal.FP32_ACTIVE,), "work in FP32")
        return abstain_inactive(seen, subject, least)
    reduced = ["allow_tf32", "compute_in_bf16"]
    architectures = {(device.architecture or "").lower() for device in case.devices}
    if architectures & _WITHOUT_BFLOAT16:
        reduced = ["compute_in_fp16"]
    return seen.find_problem(
        "",
        reasons=(Reason.TENSOR_CORES_UNUSED,),
        action=Action.ENABLE_MIXED_PRECISION,
        risk=Risk.LOW,
        savings="how much faster it would be depends on the program",
        instructions=instructions(*reduced, "verify_mixed_precision"),
        affected_gpus=sum(
            window.condition_share(condition) * device.capacity_ratio
            for window, device in zip(case.windows, case.devices, strict=True)
        ),
    )


def screen(table: SubjectTable, settings: TensorCoresUnusedSettings) -> Screen:
    """Settle which subjects do not compute in FP32 alone."""
    least = settings.minimum_active_seconds
    share = table.of_active(table.condition_share(Condition.NO_TENSOR_CORES), least)
    yield from screen_observed(
        table,
        settings,
        share,
        *unobserved(table, share, (Signal.FP32_ACTIVE,), "work in FP32"),
        too_little(table.active_seconds < least),
        tiers=frozenset({Tier.PROFILING}),
        why_unsupported=_UNKNOWN_PIPES,
    )


RULE: Final = Rule("tensor_cores_unused", TensorCoresUnusedSettings(), judge, screen)
