"""Notes on a requirement: assumptions, and parts of it that are not used."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rightsizer.planner.load_row import LOAD_WORDS
from rightsizer.sizing.engine import ENGINES, ServingEngine
from rightsizer.sizing.load import WorkUnit
from rightsizer.sizing.models import Diffusion, LayeredModel, Transformer
from rightsizer.sizing.requirement import ModelTask, Requirement

_SERVED_WORDS: Final = (*LOAD_WORDS, "engine", "runtime")
"""Keys of what is served, of which training uses none."""


def _framework_notes(requirement: Requirement) -> Iterator[str]:
    """Yield the assumptions where no training framework is named."""
    if requirement.training.framework is not None:
        return
    if requirement.is_framework_open:
        adapts = requirement.task is not ModelTask.TRAINING
        assumed = "PyTorch's own kernels, and adapters in 16 bits," if adapts else "kernels of FSDP"
        slower = "peft takes up to 1.7 times as long" if adapts else "transformers is slower"
        remedy = "fused kernels less; give framework, which narrows the range"
        yield f"framework is not given: {assumed} are assumed; {slower}, {remedy}"
    elif not requirement.why_experts_stay:
        named = "Megatron, NeMo and TorchTitan spread experts over replicas"
        yield f"framework is not given: {named}; give framework: fsdp where they stay whole"


def _engine_notes(requirement: Requirement) -> Iterator[str]:
    """Yield limits of the serving engine, and of its predictions."""
    engine = requirement.engine
    named = f"engine: {engine} {ENGINES[engine].version}"
    if engine.hears_alone:
        yield f"{named} transcribes one file at a time; batches of one file are 4 times as fast"
    elif requirement.unit is WorkUnit.AUDIO_SECONDS:
        alone = "faster-whisper and whisper.cpp, which transcribe one file at a time, are slower"
        yield f"served by an engine that batches; {alone}: name one as engine"
    if engine in {ServingEngine.SGLANG, ServingEngine.TENSORRT_LLM}:
        model = requirement.model
        is_dense = isinstance(model, Transformer) and model.experts == 1
        is_met = is_dense and requirement.unit is WorkUnit.TOKENS
        met = ", and meet the middle of its published rates of dense models within 6%" * is_met
        yield f"{named}: limits are its own; times were fitted on vLLM{met}"


def requirement_notes(
    requirement: Requirement, context_tokens: int | None, given: Mapping[Any, Any]
) -> Iterator[str]:
    """Yield notes on requests longer than the model's context, and on unused parts.

    `given`: the keys of the plan.
    """
    task = requirement.task
    load = requirement.load
    model = requirement.model
    answers = not isinstance(model, Transformer) or not model.is_encoder
    tokens = load.input_tokens + (load.output_tokens if answers else 0.0)
    if task.trains:
        tokens = requirement.training.sequence
    if context_tokens is not None and tokens > context_tokens:
        remedy = "ask for fewer, or make sure that its positions are stretched"
        context_limit = f"the {context_tokens:,} that the model was made for"
        fault = f"{tokens:,.0f} tokens are more than {context_limit}"
        yield f"{fault}; {remedy}"
    yield from (_framework_notes if task.trains else _engine_notes)(requirement)
    adapts = task in {ModelTask.FINETUNE_LORA, ModelTask.FINETUNE_QLORA} or load.adapters
    is_layered = isinstance(model, LayeredModel) or (adapts and isinstance(model, Diffusion))
    if task.trains and requirement.training.framework is not None and not is_layered:
        yield "framework is given but not used: it matters to transformers and adapters alone"
    for part, is_used, other in (
        ("training", task.trains, ModelTask.TRAINING),
        ("lora", adapts, ModelTask.FINETUNE_LORA),
        ("load", not task.trains, ModelTask.INFERENCE),
    ):
        words = {"load": _SERVED_WORDS, "training": ("tokens", "framework")}.get(part, ())
        stated = [word for word in (part, *words) if given.get(word)]
        if stated and not is_used:
            remedy = f"take task: {other}" + (", or train: full" if part == "training" else "")
            be = "are" if stated[1:] else "is"
            fault = f"{', '.join(stated)} {be} given but not used"
            yield f"{fault}: the task is {task}; {remedy}"
    if not requirement.growth.months or not requirement.growth.per_month_ratio:
        return
    if task.trains:
        yield f"growth is given but not used: the task is {task}, which has no load to grow"
    elif load.concurrency is None and load.units_per_second is None:
        remedy = "give load.requests_per_second or load.concurrency"
        yield f"growth is given and there is nothing to grow: {remedy}"
