"""Memory of training and fine-tuning."""

import pytest
from msgspec.structs import replace

from rightsizer.planner.transformer_shape import TransformerDescription, completed_shape
from rightsizer.sizing.memory import adapter_parameters, available_bytes
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    Model,
    RecommenderModel,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import (
    Lora,
    ModelTask,
    Optimizer,
    Parallelism,
    Precisions,
    Recompute,
    Requirement,
    Training,
    TrainingFramework,
)
from rightsizer.sizing.settings import MemorySettings
from sized import estimate_memory
from sizing_models import GIB, published

SINGLE = Parallelism()
LLAMA_8B = published("Llama-3.1-8B")
GPT = Transformer(
    layers=24, hidden=2048, heads=16, vocab=51200, ffn=8192, gated_ffn=False, tied_embeddings=True
)
OTHERS: tuple[Model, ...] = (
    VisionTransformer(12, 768, 12),
    ConvolutionalNetwork(2.5e7, 8.2e9),
    Diffusion(2.6e9, text_encoder_parameters=8.2e8),
    RecommenderModel(2e8, 128, 2.5e6),
)


def _training(model: Model, **more: object) -> Requirement:
    return Requirement(model, ModelTask.TRAINING, training=replace(Training(), **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("framework", "is_split"),
    [
        (TrainingFramework.MEGATRON, True),
        (TrainingFramework.TORCHTITAN, True),
        (TrainingFramework.FSDP, False),
    ],
)
def test_logits_are_split_where_the_framework_splits_the_loss(
    framework: TrainingFramework, *, is_split: bool
) -> None:
    """PyTorch's own plan gathers all logits on each tensor parallel rank (KempnerForge: 33 GB)."""
    requirement = _training(LLAMA_8B, micro_batch=4, sequence=4096, recompute=Recompute.FULL)
    requirement = replace(requirement, training=replace(requirement.training, framework=framework))
    logits = 12.0 * 128256 * 4 * 4096
    found = estimate_memory(requirement, Parallelism(tensor=4)).activations_bytes

    assert (found > logits) is not is_split
    assert found > logits / 4


@pytest.mark.parametrize(
    ("optimizer", "each"),
    [
        (Optimizer.ADAMW, (2, 2, 12)),
        (Optimizer.ADAMW_BF16, (2, 2, 4)),
        (Optimizer.ADAMW_8BIT, (2, 2, 2)),
        (Optimizer.SGD, (2, 2, 8)),
    ],
)
def test_an_optimizer_keeps_its_bytes_a_parameter(
    optimizer: Optimizer, each: tuple[int, int, int]
) -> None:
    """Covers weights, gradients and states."""
    found = estimate_memory(_training(LLAMA_8B, optimizer=optimizer), SINGLE)
    count = LLAMA_8B.parameters

    assert count is not None
    assert (found.weights_bytes, found.gradients_bytes, found.optimizer_bytes) == tuple(
        part * count for part in each
    )


def test_full_precision_needs_no_master_copy() -> None:
    """Bytes are 4 for weights, 4 for gradients, 8 for moments."""
    requirement = replace(
        _training(LLAMA_8B), precision=Precisions(NumberFormat.FP32, activations=NumberFormat.FP32)
    )
    found = estimate_memory(requirement, SINGLE)

    assert found.optimizer_bytes == 2 * found.weights_bytes == 2 * found.gradients_bytes


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_sharding_states_gives_the_papers_figures(stage: int, gigabytes: float) -> None:
    """7.5 billion parameters on 64 GPUs (arXiv:1910.02054, figure 1)."""
    model = completed_shape(TransformerDescription(parameters=7.5e9))
    found = estimate_memory(_training(model, zero_stage=stage), Parallelism(data=64))
    states = found.weights_bytes + found.gradients_bytes + found.optimizer_bytes

    assert states / 1e9 == pytest.approx(gigabytes, rel=0.015)


def test_gathered_layers_and_their_gradients_are_overhead() -> None:
    """Two units in 16 bits, one of them reduced in fp32: here the embedding is the largest."""
    sharded, whole = (
        estimate_memory(_training(LLAMA_8B, zero_stage=stage), Parallelism(data=8))
        for stage in (3, 2)
    )

    assert sharded.overhead_bytes - whole.overhead_bytes == pytest.approx(128256 * 4096 * 8 * 1.05)


@pytest.mark.parametrize(
    ("more", "each"),
    [
        ({}, 34),
        ({"recompute": Recompute.SELECTIVE}, 34),
        ({"flash_attention": False}, 34 + 5 * 16 * 2048 / 2048),
        ({"flash_attention": False, "recompute": Recompute.SELECTIVE}, 34),
    ],
)
def test_gpts_activations_are_the_papers(more: dict[str, object], each: float) -> None:
    """Bytes of each hidden element of each layer (arXiv:2205.05198)."""
    requirement = _training(GPT, micro_batch=4, sequence=2048, fused_loss=True, **more)
    found = estimate_memory(requirement, SINGLE)
    elements = 4 * 2048 * 2048 * 24
    # One layer's scores are written once more.
    working = 5 * 16 / 24 if len(more) > 1 else 0

    assert found.activations_bytes / elements == pytest.approx(each + working, rel=0.01)


def test_checkpoints_are_two_bytes_an_element_and_one_layer() -> None:
    """This is full recomputation."""
    requirement = _training(
        GPT, micro_batch=4, sequence=2048, fused_loss=True, recompute=Recompute.FULL
    )
    found = estimate_memory(requirement, SINGLE)

    assert found.activations_bytes == 4 * 2048 * 2048 * (24 * 2 + 34)


def test_a_plain_loss_keeps_the_logits() -> None:
    """In fp32 these are logits, log-probabilities and gradient."""
    fused, plain = (
        estimate_memory(_training(LLAMA_8B, fused_loss=fused), SINGLE) for fused in (True, False)
    )

    assert plain.activations_bytes - fused.activations_bytes == 12 * 2048 * 128256


@pytest.mark.parametrize(
    ("framework", "bytes_per_logit"),
    [
        (TrainingFramework.UNSLOTH, 0),
        (TrainingFramework.MEGATRON, 12),
        (TrainingFramework.FSDP, 12),
    ],
)
def test_logits_of_a_framework_exist_in_chunks_or_whole(
    framework: TrainingFramework, bytes_per_logit: int
) -> None:
    """One kernel for the loss, as in Megatron, still has all of them."""
    named, fused = (
        estimate_memory(_training(LLAMA_8B, framework=framework, fused_loss=fused), SINGLE)
        for fused in (False, True)
    )
    assert named.activations_bytes - fused.activations_bytes == bytes_per_logit * 2048 * 128256


@pytest.mark.parametrize(
    ("more", "gib"),
    [({}, 60.0), ({"recompute": Recompute.FULL, "fused_loss": True}, 24.9)],
)
def test_a_small_model_peaks_as_torchtune_measured(more: dict[str, object], gib: float) -> None:
    """Llama 3.2 3B in pure bf16 with 8192 tokens."""
    shape = TransformerDescription(
        parameters=3_212_749_824,
        layers=28,
        hidden=3072,
        heads=24,
        kv_heads=8,
        head_dim=128,
        ffn=8192,
        vocab=128256,
    )
    requirement = _training(
        completed_shape(shape),
        micro_batch=2,
        sequence=4096,
        optimizer=Optimizer.ADAMW_BF16,
        **more,
    )
    found = estimate_memory(requirement, SINGLE)

    assert (found.total_bytes - found.overhead_bytes) / GIB == pytest.approx(gib, rel=0.03)


def test_gradients_that_are_added_up_stay_beside_activations() -> None:
    """With several microbatches they exist when the next begins."""
    once, added = (
        estimate_memory(
            _training(LLAMA_8B, optimizer=Optimizer.ADAMW_BF16, global_batch=batch), SINGLE
        )
        for batch in (1, 4)
    )

    assert added.gradients_bytes == once.gradients_bytes
    assert added.activations_bytes > once.activations_bytes


@pytest.mark.parametrize("microbatches", [1, 2, 4, 16])
def test_the_first_stage_holds_as_many_microbatches_as_stages(microbatches: int) -> None:
    """If there are fewer microbatches, it holds all."""
    requirement = _training(LLAMA_8B, fused_loss=True, global_batch=microbatches)
    whole = estimate_memory(requirement, SINGLE).activations_bytes
    staged = estimate_memory(requirement, Parallelism(pipeline=4)).activations_bytes

    assert staged == pytest.approx(whole * min(4, microbatches) / 4)


def test_a_sequence_is_divided_with_the_heads() -> None:
    """Tensor and sequence parallelism divide all stored activations."""
    requirement = _training(LLAMA_8B)
    whole = estimate_memory(requirement, SINGLE).activations_bytes

    assert estimate_memory(requirement, Parallelism(tensor=4)).activations_bytes == whole / 4


def test_adapters_have_sixteen_bytes_a_parameter() -> None:
    """Rank 8 beside queries and values of Llama 2 7B has 4.2 million parameters."""
    lora = Lora(8, ("q", "v"))
    model = published("Llama-2-7B")
    found = estimate_memory(Requirement(model, ModelTask.FINETUNE_LORA, lora=lora), SINGLE)
    count = adapter_parameters(model, lora)

    assert count == 4_194_304
    assert found.gradients_bytes + found.optimizer_bytes == 14 * count
    assert found.weights_bytes == 2 * (6_738_415_616 + count)


def test_peft_keeps_what_enters_each_adapter_in_fp32() -> None:
    """In place of 16 bits: Llama 3 8B took 39.7 GB on an H100, with sequences of 1024."""
    every = ("q", "k", "v", "o", "gate", "up", "down")
    training = Training(micro_batch=2, sequence=1024)
    asked = Requirement(LLAMA_8B, ModelTask.FINETUNE_LORA, training=training, lora=Lora(16, every))
    peft = replace(training, framework=TrainingFramework.PEFT)
    plain, copied = (
        estimate_memory(each, SINGLE) for each in (asked, replace(asked, training=peft))
    )
    kept = 4 * (6 * 4096 + 14336) - 2 * (4096 + 14336)

    more = copied.activations_bytes - plain.activations_bytes
    assert more == pytest.approx(2048 * 32 * kept)
    assert copied.total.low < 39.7e9 < copied.total.high
    assert not plain.total.low < 39.7e9 < plain.total.high


def test_every_matrix_may_have_an_adapter() -> None:
    """At rank 16 Llama 3 8B has 41.9 million, and the head's."""
    every = ("q", "k", "v", "o", "gate", "up", "down")

    assert adapter_parameters(LLAMA_8B, Lora(16, every)) == 41_943_040
    assert adapter_parameters(LLAMA_8B, Lora(16, ("head",))) == 16 * (4096 + 128256)


@pytest.mark.parametrize(
    ("task", "asked", "batch", "gib"),
    [
        (ModelTask.FINETUNE_LORA, NumberFormat.BF16, 1, 19.8372),
        (ModelTask.FINETUNE_LORA, NumberFormat.BF16, 2, 27.0735),
        (ModelTask.FINETUNE_LORA, NumberFormat.NF4, 1, 13.1689),
        (ModelTask.FINETUNE_QLORA, NumberFormat.BF16, 1, 12.8895),
    ],
)
def test_adapters_peak_as_litgpt_measured(
    task: ModelTask, asked: NumberFormat, batch: int, gib: float
) -> None:
    """Llama 2 7B with 1304 tokens; QLoRA uses doubly quantized nf4 by default."""
    requirement = Requirement(
        published("Llama-2-7B"),
        task,
        Precisions(asked),
        training=Training(micro_batch=batch, sequence=1304, fused_loss=True),
        lora=Lora(8, ("q", "v")),
    )
    found = estimate_memory(requirement, SINGLE)

    assert (found.total_bytes - found.overhead_bytes) / GIB == pytest.approx(gib, rel=0.05)


def test_training_in_eight_bits_keeps_its_weights_in_sixteen() -> None:
    """Products use 8-bit copies."""
    requirement = replace(_training(LLAMA_8B), precision=Precisions(NumberFormat.FP8))

    assert estimate_memory(requirement, SINGLE) == estimate_memory(_training(LLAMA_8B), SINGLE)


def test_a_gathered_layer_of_frozen_weights_is_overhead() -> None:
    """This is sharded LoRA."""
    requirement = Requirement(LLAMA_8B, ModelTask.FINETUNE_LORA, training=Training(zero_stage=3))
    one, eight = (estimate_memory(requirement, Parallelism(data=count)) for count in (1, 8))

    assert eight.weights_bytes == one.weights_bytes / 8
    assert eight.overhead_bytes - one.overhead_bytes > 2 * 128256 * 4096 * 2


def test_resnet_trains_within_what_an_h100_took() -> None:
    """In 16 bits, from its FLOPs alone: 256 images of torchvision's took 11.8 GB and a context."""
    requirement = _training(ConvolutionalNetwork(2.5e7, 8.2e9), micro_batch=256)
    found = estimate_memory(requirement, SINGLE).total

    assert found.low < 12.4e9 < found.high


def test_embeddings_have_one_state_a_row() -> None:
    """The whole table has no gradient."""
    found = estimate_memory(_training(RecommenderModel(1e9, 64, 1e6)), SINGLE)

    assert found.optimizer_bytes == 4e9 + 12e6
    assert found.gradients_bytes == 2e6


@pytest.mark.parametrize("model", OTHERS, ids=lambda model: type(model).__name__)
def test_other_kinds_need_more_for_larger_batches(model: Model) -> None:
    """Activations and fragmentation grow."""
    one, many = (estimate_memory(_training(model, micro_batch=b), SINGLE) for b in (1, 32))

    assert many.activations_bytes > one.activations_bytes > 0


def test_of_a_diffusion_model_the_denoiser_is_trained() -> None:
    """Text encoder and decoder stay frozen."""
    found = estimate_memory(_training(Diffusion(1e9, text_encoder_parameters=1e9)), SINGLE)

    assert found.gradients_bytes == 2e9
    assert found.weights_bytes == 2 * (2e9 + 8.4e7)


@pytest.mark.parametrize(("gib", "free"), [(8, 1.0), (80, 4.0), (0.5, 0.5)])
def test_training_leaves_a_twentieth_free_and_a_gibibyte_at_least(gib: float, free: float) -> None:
    """On smaller GPUs the gibibyte applies."""
    board = gib * GIB + MemorySettings().driver_reserved_bytes

    assert available_bytes(_training(LLAMA_8B), board) / GIB == pytest.approx(gib - free)


@pytest.mark.parametrize(
    ("task", "batch", "stage", "allocated", "reserved"),
    [
        (ModelTask.FINETUNE_LORA, 1, 3, 9.16, 10.22),
        (ModelTask.FINETUNE_LORA, 4, 3, None, 16.14),
        (ModelTask.FINETUNE_LORA, 6, 3, None, 21.35),
        (ModelTask.FINETUNE_LORA, 4, 0, None, 22.04),
        (ModelTask.FINETUNE_QLORA, 1, 3, None, 5.21),
        (ModelTask.FINETUNE_QLORA, 10, 3, None, 20.97),
    ],
)
def test_both_the_allocators_peak_and_that_of_the_device_are_met(
    task: ModelTask, batch: int, stage: int, allocated: float | None, reserved: float
) -> None:
    """Llama 2 7B with sequences of 2,048 over two GPUs, GiB (fsdp_qlora, benchmarks_03_2024)."""
    training = Training(
        micro_batch=batch,
        zero_stage=stage,
        recompute=Recompute.FULL,
        optimizer=Optimizer.ADAMW_BF16,
    )
    lora = Lora(64, ("q", "k", "v", "up", "down", "gate"))
    asked = Requirement(published("Llama-2-7B"), task, training=training, lora=lora)
    memory = estimate_memory(asked, Parallelism(data=2))

    assert memory.device_bytes is not None
    assert memory.allocated.value < memory.total_bytes < memory.device_bytes
    if allocated is not None:
        assert memory.allocated.value / GIB == pytest.approx(allocated, rel=0.1)
    outside = 0.3 + 0.33
    assert memory.device_bytes / GIB - outside == pytest.approx(reserved, rel=0.2)


def test_expandable_segments_leave_no_blocks_behind() -> None:
    """As torchtitan asks PyTorch for; an engine that serves keeps no such account."""
    steady = _training(LLAMA_8B, framework=TrainingFramework.TORCHTITAN)
    estimate = estimate_memory(steady, SINGLE)

    assert estimate.device_bytes == estimate.total_bytes
    assert estimate_memory(Requirement(LLAMA_8B), SINGLE).device is None
