"""Checks of models, layouts and requirements: contradictions by key, with a remedy."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from rightsizer.model.errors import RequirementError
from rightsizer.sizing.load import WorkUnit
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    LayeredModel,
    Model,
    RecommenderModel,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import GGUF_FORMATS, NumberFormat
from rightsizer.sizing.requirement import FULL_SHARDING, ModelTask, Parallelism, Requirement

_COUNTS: Final[Mapping[type, str]] = {
    Transformer: (
        "layers hidden heads vocab kv_heads head_dim ffn experts experts_per_token dense_ffn"
        " sliding_window kv_lora_rank query_lora_rank value_head_dim parameters active_parameters"
    ),
    VisionTransformer: "layers hidden heads ffn image patch classes parameters",
    ConvolutionalNetwork: "parameters forward_flops activation_bytes image outputs",
    Diffusion: (
        "parameters forward_flops steps image latent_scale latent_patch frames frame_scale layers"
        " hidden token_parameters"
    ),
    RecommenderModel: "embedding_rows embedding_width dense_parameters lookups",
}
"""Values that must be positive if given."""
_NOT_NEGATIVE: Final[Mapping[type, str]] = {
    Transformer: (
        "shared_experts dense_layers windowed_layers rope_head_dim cached_layers state_elements"
        " borrowed_layers borrowed_windowed_layers repeated_parameters"
    ),
    Diffusion: "text_encoder_parameters decoder_parameters",
}
_OF_ATTENTION: Final = ("q", "k", "v", "o")
_OF_FEED_FORWARD: Final = ("gate", "up", "down")
LORA_TARGETS: Final = (*_OF_ATTENTION, *_OF_FEED_FORWARD, "head")
_UNTRAINABLE: Final = (
    NumberFormat.INT8,
    NumberFormat.INT4,
    *GGUF_FORMATS,
    NumberFormat.NF4,
    NumberFormat.NF4_DOUBLE_QUANTIZED,
)
"""Formats whose weights cannot be trained; fp8 and nvfp4 are used beside 16-bit weights."""
_MOST_PROPOSED: Final = 32
_LEAST_PERCENTILE: Final = 50.0
_MOST_PERCENTILE: Final = 99.99


class _Rule(NamedTuple):
    fault: str
    """Key and remedy, with the subject's fields in braces."""
    is_broken: Callable[[Any], object]


def _exceeds_layers(key: str, model: Transformer) -> bool:
    return (getattr(model, key) or 0) > model.layers


_UNDIVIDED: Final = (
    "heads: a hidden width of {0.hidden} does not divide by {0.heads} heads; correct one of them"
)
_MODEL_RULES: Final[Mapping[type, Sequence[_Rule]]] = {
    Transformer: (
        _Rule(
            f"{_UNDIVIDED}, or give head_dim",
            lambda model: (
                model.head_dim is None and model.kv_lora_rank is None and model.hidden % model.heads
            ),
        ),
        _Rule(
            "kv_heads: {0.heads} heads do not divide by {0.key_value_heads} kv_heads; take a"
            " divisor of heads",
            lambda model: model.heads % model.key_value_heads,
        ),
        _Rule(
            "experts_per_token: {0.experts_per_token} of {0.experts} experts; take at most as many"
            " as there are",
            lambda model: model.experts_per_token > model.experts,
        ),
        *(
            _Rule(
                f"{key}: {{0.{key}}} of {{0.layers}} layers; take at most all of them",
                partial(_exceeds_layers, key),
            )
            for key in ("dense_layers", "windowed_layers")
        ),
        _Rule(
            "windowed_layers: no sliding_window is given; give it, or leave both out",
            lambda model: model.windowed_layers and model.sliding_window is None,
        ),
        _Rule(
            "active_parameters: {0.active_parameters:g} of {0.parameters:g}; a token passes at most"
            " all parameters",
            lambda model: model.parameters and (model.active_parameters or 0.0) > model.parameters,
        ),
    ),
    VisionTransformer: (
        _Rule(_UNDIVIDED, lambda model: model.hidden % model.heads),
        _Rule(
            "patch: {0.patch} pixels of an image of {0.image}; a patch is at most as wide as the"
            " image",
            lambda model: model.image < model.patch,
        ),
    ),
}
_LOAD_RULES: Final = (
    _Rule(
        "output_tokens: {0.output_tokens:g} is negative; give 0 or more",
        lambda load: not load.output_tokens >= 0,
    ),
    _Rule(
        "adapters: {0.adapters:g} is no count; give 0 or more LoRA adapters",
        lambda load: load.adapters < 0 or load.adapters % 1,
    ),
    _Rule(
        f"speculative_tokens: {{0.speculative_tokens:g}} is no count from 0 to {_MOST_PROPOSED};"
        " 1 to 5 are usual",
        lambda load: (
            not 0 <= load.speculative_tokens <= _MOST_PROPOSED or load.speculative_tokens % 1
        ),
    ),
    _Rule(
        "acceptance_ratio: {0.acceptance_ratio:g} is not from 0 to 1; give the accepted share of"
        " proposed tokens, as the engine counts it",
        lambda load: load.acceptance_ratio is not None and not 0 <= load.acceptance_ratio <= 1,
    ),
    _Rule(
        "prefix_cache_ratio: {0.prefix_cache_ratio:g} is not from 0 to below 1; give the share of"
        " the prompts' tokens that the cache holds, or leave it out",
        lambda load: not 0 <= load.prefix_cache_ratio < 1,
    ),
)


def _broken(rules: Sequence[_Rule], subject: object, place: str) -> Iterator[str]:
    for fault, is_broken in rules:
        if is_broken(subject):
            yield f"{place}.{fault.format(subject)}"


def check_model(model: Model) -> None:
    """Raise unless the model is possible."""
    faults = [*_sizes(model)] or [*_broken(_MODEL_RULES.get(type(model), ()), model, "model")]
    if faults:
        raise RequirementError("\n".join(faults))


def layout_fault(model: Model, layout: Parallelism) -> str | None:
    """Return why a model cannot have a layout, or `None`."""
    if min(layout.tensor, layout.pipeline, layout.data, layout.expert) < 1:
        return "parallel: tensor, pipeline, data and expert are at least 1 each"
    if layout.expert > 1 and (fault := _expert_fault(model, layout)):
        return fault
    if not isinstance(model, LayeredModel):
        return None
    if model.heads % layout.tensor:
        fault = f"{model.heads} heads do not divide by {layout.tensor}"
        return f"parallel.tensor: {fault}; take a divisor of the heads"
    if isinstance(model, Transformer) and not model.kv_lora_rank and "heads" not in model.assumed:
        # Engines give each GPU whole KV heads, or a copy of one. Assumed heads do not lead to a
        # rejection, as their number was not given.
        keys = model.key_value_heads
        if keys % layout.tensor and layout.tensor % keys:
            fault = f"{keys} kv_heads do not divide by {layout.tensor}, nor the other way around"
            return f"parallel.tensor: {fault}; take a divisor or a multiple of them"
    if layout.pipeline > model.layers:
        fault = f"{layout.pipeline} stages for {model.layers} layers"
        return f"parallel.pipeline: {fault}; take at most one stage a layer"
    return None


def _expert_fault(model: Model, layout: Parallelism) -> str | None:
    experts = model.experts if isinstance(model, Transformer) else 1
    if experts == 1:
        return "parallel.expert: the model has no experts; leave it out"
    for count, what in ((layout.data, "replicas (data)"), (experts, "experts")):
        if count % layout.expert:
            fault = f"{count} {what} do not divide by {layout.expert}"
            return f"parallel.expert: {fault}; take a divisor of them"
    return None


def not_above_zero(of: object, place: str, keys: Iterable[str], remedy: str) -> Iterator[str]:
    """Yield a sentence for each given value that is not positive."""
    for key in keys:
        value = getattr(of, key)
        if value is not None and not value > 0:
            yield f"{place}.{key}: {value:g} is not above 0; {remedy}"


def _sizes(model: Model) -> Iterator[str]:
    above_zero = _COUNTS[type(model)].split()
    yield from not_above_zero(model, "model", above_zero, "give it as published")
    for key in _NOT_NEGATIVE.get(type(model), "").split():
        value = getattr(model, key)
        if value is not None and value < 0:
            yield f"model.{key}: {value:g} is negative; give 0 or more, or leave it out"


def check_requirement(requirement: Requirement) -> None:
    """Raise unless some GPU can meet the requirement."""
    check_model(requirement.model)
    faults = [*_load(requirement)]
    if requirement.task.trains:
        faults += _training(requirement)
    adapts = requirement.task in {ModelTask.FINETUNE_LORA, ModelTask.FINETUNE_QLORA}
    if adapts or (requirement.load.adapters and isinstance(requirement.model, Transformer)):
        faults += _adapters(requirement)
    faults += _tensor(requirement)
    if requirement.parallel is not None:
        faults += filter(None, (layout_fault(requirement.model, requirement.parallel),))
        why = requirement.task.trains and requirement.why_experts_stay
        if why and requirement.parallel.expert > 1:
            faults.append(f"parallel.expert: {why}; leave it out")
    if faults:
        raise RequirementError("\n".join(faults))


def check_kind(requirement: Requirement, given: Collection[str]) -> None:
    """Check that the keys given are of this kind of model; raises `RequirementError`."""
    model = requirement.model
    name = model.name or "the model"
    faults = []
    if "engine" in given and not isinstance(model, Transformer):
        faults.append(f"engine: {name} works in {requirement.unit}, which no engine serves")
    if "runtime" in given and not isinstance(model, ConvolutionalNetwork | VisionTransformer):
        faults.append(f"runtime: {name} is no image network")
    if faults:
        raise RequirementError("\n".join(f"{fault}; leave it out" for fault in faults))


def _tensor(requirement: Requirement) -> Iterator[str]:
    tensor = requirement.tensor
    model = requirement.model
    if tensor is None:
        return
    if requirement.parallel is not None:
        yield "tp: the whole layout is given; leave one of them out"
    if not isinstance(model, Transformer | RecommenderModel) and tensor > 1:
        yield f"tp: {model.name or 'the model'} is replicated, not divided; leave it out"
    if fault := layout_fault(model, Parallelism(tensor)):
        yield fault.replace("parallel.tensor", "tp", 1)


def _load(requirement: Requirement) -> Iterator[str]:
    load = requirement.load
    engine = requirement.engine
    if engine.hears_alone and requirement.unit is not WorkUnit.AUDIO_SECONDS:
        yield f"engine: {engine} serves speech alone; take vllm, sglang or tensorrt-llm"
    keys = ("input_tokens", "concurrency", "ttft_ms", "tpot_ms", "latency_ms", "chunk_seconds")
    yield from not_above_zero(load, "load", keys, "give what is asked for, or leave it out")
    for key in ("ttft_percentile", "tpot_percentile", "latency_percentile"):
        percentile = getattr(load, key)
        if percentile is not None and not _LEAST_PERCENTILE <= percentile <= _MOST_PERCENTILE:
            bounds = f"from p{_LEAST_PERCENTILE:g} to p{_MOST_PERCENTILE:g}"
            yield f"load.{key}: p{percentile:g} is not {bounds}; p95 is usual"
    yield from _broken(_LOAD_RULES, load, "load")


def _training(requirement: Requirement) -> Iterator[str]:
    training = requirement.training
    weights = requirement.precision.weights
    keys = ("micro_batch", "global_batch", "sequence", "tokens")
    yield from not_above_zero(training, "training", keys, "give it, or leave it out")
    step = training.global_batch
    micro = training.micro_batch
    if step is not None and 0 < step < micro:
        fault = f"{step:g} is less than a micro batch of {micro:g}"
        remedy = "give a step at least as many, or a smaller micro_batch"
        yield f"training.global_batch: {fault}; {remedy}"
    replicas = requirement.parallel.data if requirement.parallel else 1
    if step is not None and step >= micro > 0 and step < replicas * micro:
        yield (
            f"training.global_batch: {step:g} is less than {replicas} replicas of a micro batch of"
            f" {micro:g} take in one step; give at least {replicas * micro:g}, or fewer replicas"
        )
    if not 0 <= training.zero_stage <= FULL_SHARDING:
        yield f"training.zero_stage: {training.zero_stage} is none of 0, 1, 2, 3"
    if requirement.task is ModelTask.TRAINING and weights in _UNTRAINABLE:
        remedy = "take bf16 or fp8, or the task finetune-qlora"
        yield f"precision.weights: {weights} cannot be trained; {remedy}"


def _adapters(requirement: Requirement) -> Iterator[str]:
    lora = requirement.lora
    if not isinstance(requirement.model, Transformer):
        yield f"task: {requirement.task} is for models of tokens; take training"
    if lora.rank < 1:
        yield f"lora.rank: {lora.rank} is less than 1; 8 is usual"
    elif isinstance(requirement.model, Transformer) and lora.rank > requirement.model.hidden:
        fault = f"{lora.rank} is more than the width of {requirement.model.hidden}"
        why = "where an adapter has more parameters than what it adapts"
        yield f"lora.rank: {fault}, {why}; 8 is usual"
    unknown = [target for target in lora.targets if target not in LORA_TARGETS]
    if unknown or not lora.targets:
        named = ", ".join(unknown) or "none"
        yield f"lora.targets: {named} is not known; take some of {', '.join(LORA_TARGETS)}"
    elif isinstance(requirement.model, Transformer):
        # Layers that do not exist cannot be adapted, such as attention in a recurrent model.
        kinds = requirement.model.kinds
        here = (
            *(_OF_ATTENTION if any(kind.has_attention for kind in kinds) else ()),
            *(_OF_FEED_FORWARD if any(kind.has_feed_forward for kind in kinds) else ()),
            "head",
        )
        missing = ", ".join(target for target in lora.targets if target not in here)
        if missing:
            names = ", ".join(here)
            yield f"lora.targets: {missing} is in no layer of this model; take some of {names}"
