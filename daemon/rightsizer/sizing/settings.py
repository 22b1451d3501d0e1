"""Settings of sizing: plans, memory, serving, training, cost."""

from functools import partial
from typing import Final

from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.units import GIB, MIB

_KIB = 2.0**10
_count = partial(setting, within=(1, None))
_factor = partial(setting, within=(1.0, None))
_part = partial(setting, within=(0.01, 1.0))
_amount = partial(setting, within=(0.0, None))
_EXPERTS: Final = (
    "kernels of vLLM 0.24 on H100 and H200 (aiconfigurator-core 0.12.0); by other shapes within "
    "x1.12, and x1.50 of nine in ten"
)
_FITTED = "fitted on 81 runs of MPT, 1 to 70 billion parameters, PyTorch FSDP on A100 (llm-foundry)"


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Figures of the software around a model; a site that has measured its own sets them."""

    context_bytes: float = setting(307.0 * MIB)
    driver_reserved_bytes: float = setting(410.0 * MIB)
    communication_pair_bytes: float = setting(342.0 * MIB)
    communication_group_bytes: float = setting(392.0 * MIB)
    graph_bytes: float = setting(154.0 * _KIB)
    graph_batch_maximum: int = setting(512, within=(0, None))
    batched_tokens: int = _count(8192)
    sampled_rows: int = _count(256)
    fragmentation_ratio: float = setting(0.05)
    convolution_workspace_bytes: float = setting(1.0 * GIB)
    inference_headroom_ratio: float = setting(0.1, within=(0, 0.9))
    training_headroom_ratio: float = setting(0.05, within=(0, 0.9))
    headroom_minimum_bytes: float = setting(1.0 * GIB)


@dataclass(frozen=True, slots=True)
class ServingModelSettings:
    """Figures of serving engines; a site that has measured its own sets them."""

    layer_seconds: float = setting(40e-6)
    request_layer_seconds: float = setting(0.25e-6)
    expert_layer_seconds: float = setting(40e-6, source=_EXPERTS)
    expert_compute_ratio: float = _part(0.53, source=_EXPERTS)
    expert_passes: float = _amount(4.7, source=_EXPERTS)
    network_bytes_per_second: float = setting(50e9, within=(1e8, None))
    attention_compute_ratio: float = _part(0.65)
    bunching_ratio: float = _amount(0.85)
    burstiness: float = _amount(4.0)
    latency_headroom_ratio: float = setting(0.1, within=(0.0, 0.9))
    chunk_tokens: int | None = setting(None, within=(1, None))
    requests_maximum: int | None = setting(None, within=(1, None))


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Figures of training frameworks; a site that has measured its own sets them."""

    linear_ratio: float = _part(0.87, source=_FITTED)
    hopper_ratio: float = _part(0.82)
    attention_ratio: float = setting(0.56, within=(0.01, None), source=_FITTED)
    element_traffic: float = _amount(280.0, source=_FITTED)
    fused_traffic_ratio: float = setting(0.25)
    host_bytes_per_second: float = setting(25e9, within=(1e8, None))
    recompute_ratio: float = setting(0.18, source=_FITTED)
    fused_recompute_ratio: float = setting(0.33)
    selective_ratio: float = setting(0.04)
    score_traffic: float = _amount(32.0)
    chunk_layers: float = _factor(2.0)
    exposed_ratio: float = setting(0.53, source=_FITTED)
    node_gpus: int = _count(8)
    network_ratio: float = _part(0.5)
    expert_ratio: float = _part(0.45)
    layer_seconds: float = setting(4e-4)
    unpacking_traffic: float = _amount(8.0)
    known_error_factor: float = _factor(1.17)
    error_factor: float = _factor(1.5)


@dataclass(frozen=True, slots=True)
class CostSettings:
    """Figures of energy; prices have files of their own."""

    carbon_grams_per_kilowatt_hour: float | None = setting(None, within=(0.0, 3000.0))
    serving_power_ratio: float = setting(0.6)
    training_power_ratio: float = setting(0.85)
    power_error_factor: float = _factor(1.3)
    hours_per_month: float = setting(730.0, within=(1.0, 744.0))


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """How far a plan looks."""

    gpu_maximum: int = _count(512)
    layouts_per_gpu: int = _count(3)
    alternatives: int = setting(3, within=(0, None))
    growth_candidates: int = _count(5)
    switch_saving_ratio: float = setting(0.1)


@dataclass(frozen=True, slots=True)
class SizingSettings:
    """What plans and projections rest on beside facts and prices."""

    plan: PlanSettings = field(default_factory=PlanSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    serving: ServingModelSettings = field(default_factory=ServingModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    cost: CostSettings = field(default_factory=CostSettings)
