"""Requirements that contradict themselves, each told by its key and with what would mend it."""

from collections.abc import Iterator
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.number_format import NumberFormat
from rightsizer.sizing.requirement import Requirement, Task
from rightsizer.sizing.soundness import check_model, layout_fault

__all__ = ["LORA_TARGETS", "check_requirement"]

_OF_ATTENTION: Final = ("q", "k", "v", "o")
_OF_FEED_FORWARD: Final = ("gate", "up", "down")
LORA_TARGETS: Final = (*_OF_ATTENTION, *_OF_FEED_FORWARD, "head")
_UNTRAINABLE: Final = frozenset(
    {
        NumberFormat.INT8,
        NumberFormat.INT4,
        NumberFormat.NF4,
        NumberFormat.NF4_DOUBLE_QUANTIZED,
        NumberFormat.Q4_K_M,
    }
)
"""Formats that weights cannot be updated in; fp8 and nvfp4 are multiplied in beside 16 bits."""
_ZERO_STAGES: Final = 3


def check_requirement(requirement: Requirement) -> None:
    """Accept a requirement that can be met by some GPU.

    Raises:
        RequirementError: none can; all that is wrong with it, one line each.
    """
    check_model(requirement.model)
    faults = [*_load(requirement)]
    if requirement.task.trains:
        faults += _training(requirement)
    if requirement.task in {Task.FINETUNE_LORA, Task.FINETUNE_QLORA}:
        faults += _adapters(requirement)
    if requirement.parallel is not None:
        fault = layout_fault(requirement.model, requirement.parallel)
        faults += [fault] if fault else []
    if faults:
        raise RequirementError("\n".join(faults))


def _load(requirement: Requirement) -> Iterator[str]:
    load = requirement.load
    for key in ("input_tokens", "concurrency", "tokens_per_second", "ttft_ms", "tpot_ms"):
        value = getattr(load, key)
        if value is not None and not value > 0:
            yield f"load.{key}: {value:g} is not above 0; give what is asked for, or leave it out"
    if not load.output_tokens >= 0:
        yield f"load.output_tokens: {load.output_tokens:g} is negative; give 0 or more"
    if not 0 <= load.prefix_cache_ratio < 1:
        yield (
            f"load.prefix_cache_ratio: {load.prefix_cache_ratio:g} is not from 0 to below 1; give"
            " the share of the prompts' tokens that the cache holds, or leave it out"
        )


def _training(requirement: Requirement) -> Iterator[str]:
    training, weights = requirement.training, requirement.precision.weights
    for key in ("micro_batch", "global_batch", "sequence", "tokens"):
        value = getattr(training, key)
        if value is not None and not value > 0:
            yield f"training.{key}: {value:g} is not above 0; give it, or leave it out"
    step, micro = training.global_batch, training.micro_batch
    if step is not None and 0 < step < micro:
        yield (
            f"training.global_batch: {step:g} is less than a micro batch of {micro:g}; give a step"
            " at least as many, or a smaller micro_batch"
        )
    replicas = requirement.parallel.data if requirement.parallel else 1
    if step is not None and step >= micro > 0 and step < replicas * micro:
        yield (
            f"training.global_batch: {step:g} is less than {replicas} replicas of a micro batch of"
            f" {micro:g} take in one step; give at least {replicas * micro:g}, or fewer replicas"
        )
    if not 0 <= training.zero_stage <= _ZERO_STAGES:
        yield f"training.zero_stage: {training.zero_stage} is none of 0, 1, 2, 3"
    if requirement.task is Task.TRAINING and weights in _UNTRAINABLE:
        yield (
            f"precision.weights: {weights} cannot be trained; take bf16 or fp8,"
            " or the task finetune-qlora"
        )


def _adapters(requirement: Requirement) -> Iterator[str]:
    lora = requirement.lora
    if not isinstance(requirement.model, Transformer):
        yield f"task: {requirement.task} is for transformers; take training"
    if lora.rank < 1:
        yield f"lora.rank: {lora.rank} is less than 1; 8 is usual"
    elif isinstance(requirement.model, Transformer) and lora.rank > requirement.model.hidden:
        yield (
            f"lora.rank: {lora.rank} is more than the width of {requirement.model.hidden}, where an"
            " adapter has more parameters than what it adapts; 8 is usual"
        )
    unknown = [target for target in lora.targets if target not in LORA_TARGETS]
    if unknown or not lora.targets:
        named = ", ".join(unknown) or "none"
        yield f"lora.targets: {named} is not known; take some of {', '.join(LORA_TARGETS)}"
    elif isinstance(requirement.model, Transformer):
        yield from _absent(requirement.model, lora.targets)


def _absent(model: Transformer, targets: tuple[str, ...]) -> Iterator[str]:
    """What no layer has cannot be adapted, as attention where all layers are recurrent."""
    here = {"head"}
    if any(kind.has_attention for kind in model.kinds):
        here |= set(_OF_ATTENTION)
    if any(kind.has_feed_forward for kind in model.kinds):
        here |= set(_OF_FEED_FORWARD)
    missing = [target for target in targets if target not in here]
    if missing:
        known = ", ".join(target for target in LORA_TARGETS if target in here)
        yield (
            f"lora.targets: {', '.join(missing)} is in no layer of this model; take some of {known}"
        )
