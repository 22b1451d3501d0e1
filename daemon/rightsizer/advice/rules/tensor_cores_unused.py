"""GPUs that multiply in single precision while their tensor cores rest."""

from typing import Final

from rightsizer.advice.observation import minimum_known, observe, on_ratio
from rightsizer.advice.rules.bottleneck import (
    abstain_inactive,
    active_share,
    minimum_active,
    slow_opening_policy,
)
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.finding import (
    Action,
    Finding,
    FindingKind,
    Instruction,
    Reason,
    Risk,
)
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.state import Condition, Tier

NAME: Final = "tensor_cores_unused"
_WITHOUT_BFLOAT16: Final = frozenset({"volta", "turing"})


@dataclass(frozen=True, slots=True)
class TensorCoresUnusedSettings:
    """From when on resting tensor cores are a finding."""

    on_ratio: float = on_ratio(
        0.5,
        "Share of the active time for which the tensor cores must rest beside FP32 work.",
        "docs/definitions.md, conduct: as for the other limits",
    )
    minimum_known_seconds: float = minimum_known()
    minimum_active_seconds: float = minimum_active()
    conduct: OpeningPolicy = field(default_factory=slow_opening_policy)


_VERIFY: Final = Instruction(
    "See that tensor_active rises, and compare the loss over the first thousand steps",
    "dimensions that are no multiples of 8 keep the tensor cores at rest all the same",
)
_HALF: Final = (
    Instruction(
        "Compute in FP16 with a scaled loss; these GPUs have neither TF32 nor BF16",
        'scaler = torch.amp.GradScaler("cuda")\n'
        'with torch.autocast("cuda", dtype=torch.float16): loss = model(batch)\n'
        "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()",
    ),
    _VERIFY,
)
_REDUCED: Final = (
    Instruction(
        "Let FP32 products use TF32, which changes one line and ten bits of the mantissa",
        'torch.set_float32_matmul_precision("high")',
    ),
    Instruction(
        "Compute in BF16 where the model tolerates it",
        'with torch.autocast("cuda", dtype=torch.bfloat16): loss = model(batch)',
    ),
    _VERIFY,
)


def judge(subject: CaseSubject, settings: TensorCoresUnusedSettings) -> Finding:
    """Whether a GPU of the workload computes in FP32 alone."""
    case, condition, least = (
        subject.case,
        Condition.NO_TENSOR_CORES,
        settings.minimum_active_seconds,
    )
    seen = observe(
        subject,
        settings,
        lambda window: active_share(window, window.conditions.get(condition, 0), least),
        "computing in FP32 with the tensor cores at rest",
        tiers=frozenset({Tier.PROFILING}),
        why_unsupported="without profiling nobody knows which pipes compute",
        evidence_name="active_share_ratio",
        is_of_active_time=True,
    )
    if isinstance(seen, Finding):
        return abstain_inactive(seen, case, least)
    architectures = {(device.architecture or "").lower() for device in case.devices}
    return seen.complain(
        "",
        kind=FindingKind.INEFFICIENT,
        reasons=(Reason.TENSOR_CORES_UNUSED,),
        action=Action.ENABLE_MIXED_PRECISION,
        risk=Risk.LOW,
        savings="how much faster it would be depends on the program",
        instructions=_HALF if architectures & _WITHOUT_BFLOAT16 else _REDUCED,
        affected_gpus=sum(
            window.condition_share(condition) * device.capacity_ratio
            for window, device in zip(case.windows, case.devices, strict=True)
        ),
    )


RULE: Final = Rule(NAME, TensorCoresUnusedSettings(), judge)
