"""Recommendations of the rules for the node of `publish_reports`."""

from collections.abc import Mapping, Sequence

from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import Action, Finding, FindingKind, Reason, Risk, Savings
from rightsizer.model.workload import Workload
from sample_devices import EMBEDDING, HOUR, NOTEBOOK, NOW, TRAINING, TUNING, uuid_of


def node_advice() -> tuple[Advice, ...]:
    """Three open recommendations and one closed one."""
    return (
        Advice(_idle(), AdviceState.ACTIVE, NOW - 17 * HOUR, NOW),
        Advice(_stall(), AdviceState.CLAIMED, NOW - 14 * HOUR, NOW, actor="ops"),
        Advice(_memory(), AdviceState.ACTIVE, NOW - 5 * HOUR, NOW, expires=NOW + 24 * HOUR),
        Advice(_closed(), AdviceState.SUCCEEDED, NOW - 40 * HOUR, NOW - 2 * HOUR, closed=NOW),
    )


def _idle() -> Finding:
    return _finding(
        "a1f0c2d4e6b8",
        "held_idle",
        FindingKind.IDLE,
        Reason.IDLE_HELD,
        Action.RELEASE,
        NOTEBOOK,
        (3,),
        "jupyter has held GPU 3 for 18 h without using it: 17.6 GiB of memory, no kernel. "
        "Nobody else can have it meanwhile.",
        0.97,
        Savings(gpus_low=1.0, gpus_high=1.0, dollars_per_hour_low=2.1, dollars_per_hour_high=3.9),
        {"window": "24h", "idle_share_ratio": 0.949, "coverage_ratio": 1.0, "hours": 18.0},
    )


def _stall() -> Finding:
    return _finding(
        "b2e1d3c5f7a9",
        "hidden_stall",
        FindingKind.INEFFICIENT,
        Reason.HIDDEN_STALL,
        Action.INVESTIGATE_STRAGGLER,
        TRAINING,
        (0, 1),
        "llama-pretrain looks busy on GPU 1 (100% utilization) but has computed nothing for "
        "15 h: its pipes and memory rest and it draws hardly more power than an idle GPU.",
        0.92,
        Savings(reason="what the stall costs depends on its cause"),
        {"stalled_share_ratio": 0.625, "power_p50_ratio": 0.11, "coverage_ratio": 1.0},
        culprits=(1,),
    )


def _memory() -> Finding:
    return _finding(
        "c3d2e4b6a8f0",
        "near_out_of_memory",
        FindingKind.UNDERPROVISIONED,
        Reason.GPU_MEMORY_UNDERPROVISIONED,
        Action.CHANGE_GPU_TYPE,
        TUNING,
        (4,),
        "lora-tune has been within 5% of GPU 4's memory for 6 h; a slightly longer batch "
        "would end it.",
        0.81,
        Savings(reason="an under-provisioned device saves nothing"),
        {"peak_memory_ratio": 0.972, "pressed_share_ratio": 0.43},
    )


def _closed() -> Finding:
    return _finding(
        "d4c3b2a1f0e9",
        "held_idle",
        FindingKind.IDLE,
        Reason.IDLE_HELD,
        Action.RELEASE,
        EMBEDDING,
        (7,),
        "embedder held MIG 7 without using it.",
        0.7,
        Savings(reason="its GPU is shared"),
        {},
    )


def _finding(  # noqa: PLR0913, PLR0917 - a finding has that many parts.
    id_: str,
    rule: str,
    kind: FindingKind,
    reason: Reason,
    action: Action,
    workload: Workload,
    devices: Sequence[int],
    summary: str,
    confidence: float,
    savings: Savings,
    evidence: Mapping[str, object],
    culprits: Sequence[int] = (),
) -> Finding:
    return Finding(
        id_,
        rule,
        kind,
        (reason,),
        tuple(map(uuid_of, devices)),
        tuple(map(uuid_of, culprits)),
        workload.key,
        action,
        summary,
        (),
        confidence,
        {"tier": 1.0, "coverage": 0.99, "certainty": round(confidence / 0.99, 3)},
        Risk.LOW if kind is FindingKind.IDLE else Risk.UNKNOWN,
        savings,
        evidence,
    )
