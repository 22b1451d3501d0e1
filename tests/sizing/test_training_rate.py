"""Training speed of models."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rightsizer.catalogue.board import Board, Precision
from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.models import ConvolutionalNetwork, Diffusion, RecommenderModel, Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.ratio import is_no_worse
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
from rightsizer.sizing.training import TrainingRate, training_rate

SMALL = Transformer(32, 4096, 32, 50368, gated_ffn=False, tied_embeddings=True)
A100 = built_in().get("A100-SXM4-80GB")
EIGHT = Parallelism(data=8)
SHARDED = Training(micro_batch=6, global_batch=96, zero_stage=3)


def rate(
    training: Training = SHARDED,
    layout: Parallelism = EIGHT,
    board: str = A100.key,
    task: ModelTask = ModelTask.TRAINING,
    model: Transformer = SMALL,
    **formats: NumberFormat,
) -> TrainingRate:
    """Rate of the small model, unless given otherwise."""
    requirement = Requirement(model, task, Precisions(**formats), training=training)
    return training_rate(requirement, built_in().get(board), layout)


def test_a_published_run_is_met() -> None:
    """MPT-7B on 8 A100: 4641 tokens per second and GPU (llm-foundry)."""
    found = rate().units_per_second.scaled(1 / 8)
    assert found.low < 4641 < found.high
    assert found.value == pytest.approx(4641, rel=0.1)


EVERY = ("q", "k", "v", "o", "gate", "up", "down")
LLAMA_8B = Transformer(32, 4096, 32, 128256, kv_heads=8, ffn=14336)


def adapted(
    framework: TrainingFramework | None, training: Training, targets: tuple[str, ...]
) -> float:
    """Tokens a second of Llama 3.1 8B with adapters of rank 16 on an H100."""
    training = replace(training, framework=framework)
    task = ModelTask.FINETUNE_LORA
    lora = Lora(16, targets)
    requirement = Requirement(LLAMA_8B, task, training=training, lora=lora)
    found = training_rate(requirement, built_in().get("H100-SXM5-80GB"), Parallelism())
    return found.units_per_second.value


@pytest.mark.parametrize(
    ("training", "measured"),
    [
        (Training(micro_batch=4, sequence=2048, recompute=Recompute.FULL), 6190.6),
        (Training(micro_batch=2, sequence=1024), 8188.5),
    ],
)
def test_adapters_of_peft_are_as_slow_as_measured(training: Training, measured: float) -> None:
    """An H100 with PyTorch 2.11 and transformers 5.17; nothing was fitted to it."""
    assert adapted(TrainingFramework.PEFT, training, EVERY) == pytest.approx(measured, rel=0.1)
    assert adapted(TrainingFramework.TORCHTUNE, training, EVERY) > 1.3 * measured


@pytest.mark.parametrize(("sequence", "measured"), [(256, 1706.7), (1024, 2925.7)])
def test_short_sequences_wait_for_the_launches_of_adapters(sequence: int, measured: float) -> None:
    """Qwen 7B with adapters of all matrices by peft on an A100, 8 of 1.2 and 2.8 s (QwenLM/Qwen).

    The time of an adapter follows from the models of 1.8 and 14 billion parameters.
    """
    model = Transformer(32, 4096, 32, 151936, ffn=11008)
    training = Training(
        sequence=sequence, recompute=Recompute.FULL, framework=TrainingFramework.PEFT
    )
    task = ModelTask.FINETUNE_LORA
    lora = Lora(64, EVERY)
    requirement = Requirement(model, task, training=training, lora=lora)
    found = training_rate(requirement, built_in().get(A100.key), Parallelism())

    assert found.units_per_second.value == pytest.approx(measured, rel=0.1)


def test_a_stage_of_a_pipeline_holds_the_whole_head() -> None:
    """With sixteen layers of 61 million parameters, one of eight stages has a head of 263."""
    model = Transformer(16, 2048, 32, 128256, kv_heads=8, ffn=8192, tied_embeddings=True)
    small = replace(model, vocab=32000)
    training = Training(micro_batch=4, global_batch=1024, sequence=4096)

    def slower(stages: int) -> float:
        layout = Parallelism(pipeline=stages)
        return (
            rate(training, layout, model=small).units_per_second.value
            / rate(training, layout, model=model).units_per_second.value
        )

    assert slower(8) > 1.4 * slower(4)


def test_copies_for_adapters_take_time_by_the_widths_that_are_adapted() -> None:
    """30 bytes per element that enters and 56 per element that leaves, at the bandwidth."""
    board = built_in().get("H100-SXM5-80GB")
    training = Training(micro_batch=8)
    bandwidth = board.memory_bandwidth_bytes_per_second * board.achievable_bandwidth_ratio
    for targets, entering, leaving in ((("q",), 4096, 4096), (("down", "k"), 18432, 5120)):
        slow, fast = (
            adapted(each, training, targets)
            for each in (TrainingFramework.PEFT, TrainingFramework.FSDP)
        )
        moved = 32 * (30 * entering + 56 * leaving)
        assert 1 / slow - 1 / fast == pytest.approx(moved / bandwidth)


def test_fused_kernels_are_faster_than_those_of_pytorch() -> None:
    """With adapters and without; without a framework the kernels are those of PyTorch."""
    for task in (ModelTask.TRAINING, ModelTask.FINETUNE_LORA, ModelTask.FINETUNE_QLORA):
        unsloth, fsdp, unnamed = (
            rate(replace(SHARDED, framework=framework), task=task, board="H100-SXM5-80GB")
            for framework in (TrainingFramework.UNSLOTH, TrainingFramework.FSDP, None)
        )
        assert unsloth.units_per_second.value > 1.05 * fsdp.units_per_second.value
        assert fsdp.units_per_second.value == unnamed.units_per_second.value


def test_interval_is_wider_where_frameworks_differ_and_none_is_named() -> None:
    """Of adapters; full training of decoders was fitted without."""
    for task, is_wider in ((ModelTask.FINETUNE_LORA, True), (ModelTask.TRAINING, False)):
        unnamed, named = (
            rate(replace(SHARDED, framework=framework), task=task).units_per_second
            for framework in (None, TrainingFramework.FSDP)
        )
        assert (unnamed.high / unnamed.low > 1.2 * named.high / named.low) == is_wider


def test_interval_is_wider_where_fused_kernels_are_assumed() -> None:
    """For split layers without a framework; nanotron's are 1.5 times slower than Megatron's."""
    training = Training(micro_batch=6, global_batch=96, zero_stage=1)
    named = replace(training, framework=TrainingFramework.MEGATRON)
    layout = Parallelism(tensor=2, data=4)
    found, known = (rate(each, layout).units_per_second for each in (training, named))

    assert found.value == known.value
    assert found.high / found.value > 1.1 * known.high / known.value


def test_autocast_slows_training_that_keeps_weights_in_fp32() -> None:
    """Not that of pure bf16, nor in DeepSpeed, which casts weights once a step."""
    times = {
        (framework, optimizer): 1
        / rate(replace(SHARDED, framework=framework, optimizer=optimizer)).units_per_second.value
        for framework in (TrainingFramework.TRANSFORMERS, TrainingFramework.DEEPSPEED)
        for optimizer in (Optimizer.ADAMW, Optimizer.ADAMW_BF16)
    }
    slowest = max(times, key=lambda time: times[time])
    assert slowest == (TrainingFramework.TRANSFORMERS, Optimizer.ADAMW)
    assert len({round(time, 12) for time in times.values()}) == 2


def test_fused_loss_spares_the_traffic_of_logits() -> None:
    """42 bytes for each word of the vocabulary and token."""
    plain, fused = (
        8 / rate(replace(SHARDED, fused_loss=fused)).units_per_second.value
        for fused in (False, True)
    )
    bandwidth = A100.memory_bandwidth_bytes_per_second * A100.achievable_bandwidth_ratio
    assert plain - fused == pytest.approx(42 * 50368 / bandwidth)


def test_figures_agree_with_each_other() -> None:
    """The hours follow from the tokens."""
    found = rate(replace(SHARDED, tokens=3.6e9))
    assert found.hours is not None
    assert found.hours.value * found.units_per_second.value == pytest.approx(1e6)
    assert rate().hours is None


def test_utilization_counts_model_flops_alone() -> None:
    """Recomputation slows a run without raising its utilization."""
    plain = rate()
    again = rate(replace(SHARDED, recompute=Recompute.FULL))
    assert again.mfu_ratio < plain.mfu_ratio < 0.75
    selective = rate(replace(SHARDED, recompute=Recompute.SELECTIVE))
    assert again.mfu_ratio < selective.mfu_ratio < plain.mfu_ratio


@given(st.integers(9, 15).map(lambda power: 2**power))
def test_longer_sequences_are_slower(sequence: int) -> None:
    """Attention grows with the sequence: fewer tokens at equal tokens a micro batch."""
    tokens = 2**16
    short = rate(Training(tokens // sequence, sequence=sequence, zero_stage=3))
    longer = rate(Training(tokens // sequence // 2, sequence=2 * sequence, zero_stage=3))
    assert longer.units_per_second.value < short.units_per_second.value


@given(st.integers(1, 63))
def test_larger_micro_batches_are_not_slower(micro_batch: int) -> None:
    """Fixed costs are divided by more tokens."""
    less = rate(Training(micro_batch, zero_stage=3))
    more = rate(Training(micro_batch + 1, zero_stage=3))
    assert more.units_per_second.value >= less.units_per_second.value


def reaches_more(board: Board, other: Board) -> bool:
    """Whether neither a datasheet value nor its achieved fraction is less."""
    formats = (Precision.BF16, Precision.FP8)
    return (
        is_no_worse(board, other)
        and all((board.peak(f) or 0.0) >= (other.peak(f) or 0.0) for f in formats)
        and board.link_bytes_per_second >= other.link_bytes_per_second
        and board.pcie_bytes_per_second >= other.pcie_bytes_per_second
        and (board.linked_gpu_count or 1) >= (other.linked_gpu_count or 1)
        and board.achievable_bandwidth_ratio >= other.achievable_bandwidth_ratio
    )


def test_a_better_board_is_never_slower() -> None:
    """This covers all pairs of the catalog, one GPU and eight, in 16 bits and 8."""
    boards = built_in().boards.values()
    better = [(a, b) for a, b in itertools.permutations(boards, 2) if reaches_more(b, a)]
    assert better
    for layout, document in itertools.product(
        (Parallelism(), EIGHT), (NumberFormat.BF16, NumberFormat.FP8)
    ):
        for slow, fast in better:
            before = rate(layout=layout, board=slow.key, activations=document)
            after = rate(layout=layout, board=fast.key, activations=document)
            assert after.units_per_second.value >= before.units_per_second.value, (slow, fast)


def test_splitting_costs_what_gpus_tell_each_other() -> None:
    """Tensor parallelism is slower over PCIe than over NVLink; a pipeline has a bubble."""
    linked = rate(layout=Parallelism(tensor=8), board="A100-SXM4-80GB")
    on_bus = rate(layout=Parallelism(tensor=8), board="A100-PCIE-80GB")
    assert on_bus.units_per_second.value < 0.5 * linked.units_per_second.value
    few = rate(Training(1, global_batch=4), Parallelism(pipeline=4))
    many = rate(Training(1, global_batch=64), Parallelism(pipeline=4))
    assert few.units_per_second.value < 0.9 * many.units_per_second.value


def test_adapters_train_faster_and_unpacking_costs() -> None:
    """Frozen weights have no gradient; 4-bit ones are unpacked first."""
    whole, adapted, unpacked = (
        rate(task=task).units_per_second.value
        for task in (ModelTask.TRAINING, ModelTask.FINETUNE_LORA, ModelTask.FINETUNE_QLORA)
    )
    assert whole < adapted
    assert unpacked < adapted


def test_repeating_the_forward_pass_costs_more_of_a_step_beside_adapters() -> None:
    """Without weight gradients two of three products remain, and half of these are repeated."""
    short = Training(4, sequence=64)
    plain, again = (
        rate(replace(short, recompute=kind), Parallelism(), task=ModelTask.FINETUNE_LORA)
        for kind in (Recompute.NONE, Recompute.FULL)
    )
    ratio = plain.units_per_second.value / again.units_per_second.value
    assert 1.33 < ratio <= 1.5


def test_utilization_beside_frozen_weights_counts_what_is_computed() -> None:
    """Two thirds of the products remain: more tokens, at about the same share of the peak."""
    for board, tensor in itertools.product(("A30", "RTX5090", A100.key), (1, 2)):
        layout = Parallelism(tensor=tensor)
        whole = rate(Training(4), layout, board)
        adapted = rate(Training(4), layout, board, ModelTask.FINETUNE_LORA)
        assert 0.8 < adapted.mfu_ratio / whole.mfu_ratio < 1.2
        assert adapted.mfu_ratio < built_in().get(board).achievable_compute_ratio
        ratio = adapted.units_per_second.value / whole.units_per_second.value
        assert 1.1 < ratio < 1.6


def test_unpacking_is_paid_once_a_micro_batch() -> None:
    """QLoRA takes half as long again on short sequences, hardly longer on large micro batches."""
    model = Transformer(32, 4096, 32, 32000, ffn=11008)

    def slower(training: Training) -> float:
        plain, unpacked = (
            rate(training, Parallelism(), A100.key, task, model).units_per_second.value
            for task in (ModelTask.FINETUNE_LORA, ModelTask.FINETUNE_QLORA)
        )
        return plain / unpacked

    assert slower(Training(1, sequence=512)) > 1.4
    assert slower(Training(8, sequence=2048)) < 1.1


def test_experts_reach_less() -> None:
    """A mixture trains slower than a dense model of as many active parameters."""
    mixed = replace(SMALL, gated_ffn=True, ffn=14336, experts=8, experts_per_token=2)
    dense = replace(SMALL, gated_ffn=True, ffn=2 * 14336)
    slow = rate(model=mixed)
    fast = rate(model=dense)
    assert slow.mfu_ratio < fast.mfu_ratio


def test_a_window_spares_attention() -> None:
    """Windowed attention is faster at long sequences."""
    training = Training(1, sequence=32768, zero_stage=3)
    whole = rate(training)
    windowed = rate(training, model=replace(SMALL, sliding_window=1024))
    assert windowed.units_per_second.value > 1.3 * whole.units_per_second.value


@pytest.mark.parametrize(
    "model",
    [
        ConvolutionalNetwork(25.6e6, 8.2e9),
        Diffusion(2.6e9, forward_flops=6e12),
        RecommenderModel(1e8, 128, 1e7),
    ],
)
def test_other_models_train_too(model: ConvolutionalNetwork | Diffusion | RecommenderModel) -> None:
    """The unit is images or samples a second; faster boards and more GPUs give more."""
    requirement = Requirement(model, ModelTask.TRAINING, training=Training(micro_batch=8192))
    h100 = built_in().get("H100-SXM5-80GB")
    slow, fast = (training_rate(requirement, board, Parallelism()) for board in (A100, h100))
    assert 0.0 < slow.units_per_second.low < slow.units_per_second.value
    assert fast.units_per_second.value > slow.units_per_second.value
    eight = training_rate(requirement, A100, EIGHT)
    assert eight.units_per_second.value > 2 * slow.units_per_second.value
