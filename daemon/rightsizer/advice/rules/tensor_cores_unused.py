"""GPUs that multiply in single precision while their tensor cores rest."""

from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.observation import minimum_known, observe, on_ratio
from rightsizer.advice.rules.bottleneck import (
    abstain_inactive,
    active_share,
    minimum_active,
    slow_opening_policy,
)
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import complain
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
from rightsizer.model.state import Condition, Tier
from rightsizer.model.units import seconds

NAME: Final = "tensor_cores_unused"
_WITHOUT_BFLOAT16: Final = frozenset({"volta", "turing"})
_NOT_KNOWN: Final = Savings(reason="how much faster it would be depends on the program")


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


def judge(case: Case, settings: TensorCoresUnusedSettings, _: Market) -> Finding:
    """Whether a GPU of the workload computes in FP32 alone."""
    active = {window.uuid: seconds(window.active) for window in case.windows}
    shares = {
        window.uuid: active_share(
            window,
            window.conditions.get(Condition.NO_TENSOR_CORES, 0),
            settings.minimum_active_seconds,
        )
        for window in case.windows
    }

    seen = observe(
        NAME,
        case,
        settings,
        shares,
        "computing in FP32 with the tensor cores at rest",
        tiers=frozenset({Tier.PROFILING}),
        why_unsupported="without profiling nobody knows which pipes compute",
        evidence_name="active_share_ratio",
        active_seconds=active,
    )
    if isinstance(seen, Finding):
        return abstain_inactive(seen, case, settings.minimum_active_seconds)
    return complain(
        NAME,
        case,
        kind=FindingKind.INEFFICIENT,
        reasons=(Reason.TENSOR_CORES_UNUSED,),
        action=Action.ENABLE_MIXED_PRECISION,
        summary=f"{seen.summary}.",
        factors=seen.factors,
        risk=Risk.LOW,
        evidence=seen.evidence,
        savings=_NOT_KNOWN,
        instructions=_instructions(case),
        affected_gpus=sum(
            window.condition_share(Condition.NO_TENSOR_CORES) * device.capacity_ratio
            for window, device in zip(case.windows, case.devices, strict=True)
        ),
    )


def _instructions(case: Case) -> tuple[Instruction, ...]:
    architectures = {(device.architecture or "").lower() for device in case.devices}
    if architectures & _WITHOUT_BFLOAT16:
        title = "Compute in FP16 with a scaled loss; these GPUs have neither TF32 nor BF16"
        text = (
            'scaler = torch.amp.GradScaler("cuda")\n'
            'with torch.autocast("cuda", dtype=torch.float16): loss = model(batch)\n'
            "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()"
        )
        return (Instruction(title, text), _verify())
    return (
        Instruction(
            "Let FP32 products use TF32, which changes one line and ten bits of the mantissa",
            'torch.set_float32_matmul_precision("high")',
        ),
        Instruction(
            "Compute in BF16 where the model tolerates it",
            'with torch.autocast("cuda", dtype=torch.bfloat16): loss = model(batch)',
        ),
        _verify(),
    )


def _verify() -> Instruction:
    return Instruction(
        "See that tensor_active rises, and compare the loss over the first thousand steps",
        "dimensions that are no multiples of 8 keep the tensor cores at rest all the same",
    )


RULE: Final = Rule(NAME, TensorCoresUnusedSettings(), judge)
