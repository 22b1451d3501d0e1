"""Training of large models in frameworks with fused kernels, against published results."""

import pytest
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import (
    ModelTask,
    Parallelism,
    Precisions,
    Recompute,
    Requirement,
    Training,
    TrainingFramework,
)
from rightsizer.sizing.training import training_rate

GPT = {
    "22B": Transformer(48, 6144, 64, 51200, gated_ffn=False, tied_embeddings=True),
    "175B": Transformer(96, 12288, 96, 51200, gated_ffn=False, tied_embeddings=True),
    "530B": Transformer(105, 20480, 128, 51200, gated_ffn=False, tied_embeddings=True),
    "1T": Transformer(128, 25600, 160, 51200, gated_ffn=False, tied_embeddings=True),
}
LLAMA = Transformer(126, 16384, 128, 128256, kv_heads=8, ffn=53248)
STEPS = (
    ("22B", 1, 4, 4, 1.42, 1.10),
    ("175B", 8, 64, 1, 18.13, 13.75),
    ("530B", 35, 280, 1, 49.05, 37.83),
    ("1T", 64, 512, 1, 94.42, 71.49),
)
"""Model, stages, batch, micro batch, and seconds of a step with full and selective recomputation:
arXiv:2205.05198, table 5; A100 80 GB, eight of them a stage, before flash attention."""
CLOSE = 0.12


def step_seconds(model: Transformer, training: Training, layout: Parallelism, board: str) -> float:
    """Time of one global batch."""
    requirement = Requirement(model, ModelTask.TRAINING, Precisions(), training=training)
    rate = training_rate(requirement, built_in().get(board), layout).units_per_second
    assert training.global_batch is not None
    return training.global_batch * training.sequence / rate.value


@pytest.mark.parametrize("row", STEPS, ids=lambda row: row[0])
def test_megatron_on_a100(
    row: tuple[str, int, int, int, float, float],
) -> None:
    """None of these steps was fitted: attention's scores, chunks and the forward pass count."""
    name, stages, batch, micro_batch, full, selective = row
    layout = Parallelism(tensor=8, pipeline=stages)
    run = Training(
        micro_batch,
        batch,
        sequence=2048,
        recompute=Recompute.FULL,
        zero_stage=1,
        flash_attention=False,
    )
    lighter = replace(run, recompute=Recompute.SELECTIVE)

    assert step_seconds(GPT[name], run, layout, "A100-SXM4-80GB") == pytest.approx(full, rel=CLOSE)
    assert step_seconds(GPT[name], lighter, layout, "A100-SXM4-80GB") == pytest.approx(
        selective, rel=CLOSE
    )


@pytest.mark.parametrize(("replicas", "teraflops"), [(64, 430.0), (128, 400.0)])
def test_llama_3_405b_on_thousands_of_h100(replicas: int, teraflops: float) -> None:
    """arXiv:2407.21783, table 4: TFLOP/s of a GPU in bf16, sixteen million tokens a step."""
    run = Training(1, 2048, sequence=8192, zero_stage=1)
    layout = Parallelism(tensor=8, pipeline=16, data=replicas)
    requirement = Requirement(LLAMA, ModelTask.TRAINING, Precisions(), training=run)
    board = built_in().get("H100-SXM5-80GB")

    found = training_rate(requirement, board, layout).mfu_ratio * 989
    assert found == pytest.approx(teraflops, rel=CLOSE + 0.01)


def test_scores_that_are_written_out_take_time() -> None:
    """Flash attention avoids them, with more effect for longer sequences."""
    layout = Parallelism(tensor=8)
    gains = []
    for sequence in (1024, 4096):
        flash = Training(1, 8, sequence=sequence, zero_stage=1)
        plain = replace(flash, flash_attention=False)
        times = [
            step_seconds(GPT["22B"], each, layout, "A100-SXM4-80GB") for each in (plain, flash)
        ]
        gains.append(times[0] / times[1])
    assert 1.0 < gains[0] < gains[1]


@pytest.mark.parametrize(
    ("framework", "seconds"), [(TrainingFramework.NEMO, 1.32), (TrainingFramework.NANOTRON, None)]
)
def test_fused_attention_skips_what_a_causal_mask_hides(
    framework: TrainingFramework, seconds: float | None
) -> None:
    """An encoder's attention has no hidden half (NVIDIA/dgxc-benchmarking: Llama 3 8B, H100)."""
    llama = Transformer(32, 4096, 32, 128256, kv_heads=8, ffn=14336)
    encoder = replace(llama, cached_layers=0)
    run = Training(1, 32, sequence=4096, zero_stage=1, framework=framework)
    times = [
        step_seconds(model, run, Parallelism(data=8), "H100-SXM5-80GB")
        for model in (llama, encoder)
    ]
    assert (times[0] < times[1]) is framework.is_fused
    assert seconds is None or times[0] == pytest.approx(seconds, rel=0.25)
