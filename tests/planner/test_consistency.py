"""Contradictory requirements."""

import pytest

from rightsizer.model.errors import RequirementError
from rightsizer.planner.requirement_checks import check_requirement
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.models import Diffusion, Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import (
    Lora,
    ModelTask,
    Parallelism,
    Precisions,
    Requirement,
    Training,
)
from sizing_models import published

LLAMA_8B = published("Llama-3.1-8B")


@pytest.mark.parametrize(
    "requirement",
    [
        Requirement(LLAMA_8B),
        Requirement(LLAMA_8B, ModelTask.TRAINING, Precisions(NumberFormat.FP8)),
        Requirement(LLAMA_8B, ModelTask.FINETUNE_LORA, Precisions(NumberFormat.NF4)),
        Requirement(
            LLAMA_8B, load=RequestLoad(1, 0, 1, 1, 1, 1, 0.99), parallel=Parallelism(8, 4, 2)
        ),
        Requirement(Diffusion(2.6e9), ModelTask.TRAINING),
    ],
)
def test_possible_plan_is_accepted(requirement: Requirement) -> None:
    """This holds for every task."""
    check_requirement(requirement)


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        (Requirement(Transformer(0, 64, 4, 100)), r"model\.layers: 0"),
        (Requirement(LLAMA_8B, load=RequestLoad(0)), r"load\.input_tokens: 0 is not above 0"),
        (Requirement(LLAMA_8B, load=RequestLoad(8, -1)), r"load\.output_tokens: -1 is negative"),
        (Requirement(LLAMA_8B, load=RequestLoad(8, 8, 0)), r"load\.concurrency: 0"),
        (Requirement(LLAMA_8B, load=RequestLoad(float("nan"))), r"load\.input_tokens: nan"),
        *(
            (
                Requirement(LLAMA_8B, load=RequestLoad(prefix_cache_ratio=ratio)),
                rf"load\.prefix_cache_ratio: {ratio:g} is not from 0 to below 1",
            )
            for ratio in (-0.1, 1.0, float("nan"))
        ),
        (Requirement(LLAMA_8B, parallel=Parallelism(5)), r"parallel\.tensor: 32 heads"),
        (
            Requirement(LLAMA_8B, ModelTask.TRAINING, Precisions(NumberFormat.INT4)),
            r"precision\.weights: int4 cannot be trained",
        ),
        (
            Requirement(LLAMA_8B, ModelTask.TRAINING, training=Training(micro_batch=0)),
            r"training\.micro_batch: 0",
        ),
        (
            Requirement(LLAMA_8B, ModelTask.TRAINING, training=Training(zero_stage=4)),
            r"training\.zero_stage: 4",
        ),
        (
            Requirement(LLAMA_8B, ModelTask.TRAINING, training=Training(8, 4)),
            r"training\.global_batch: 4 is less than a micro batch of 8",
        ),
        (
            Requirement(
                LLAMA_8B, ModelTask.TRAINING, training=Training(3, 10), parallel=Parallelism(data=4)
            ),
            r"training\.global_batch: 10 is less than 4 replicas.*at least 12",
        ),
        (Requirement(Diffusion(2.6e9), ModelTask.FINETUNE_LORA), r"task: finetune-lora is for"),
        (Requirement(LLAMA_8B, ModelTask.FINETUNE_LORA, lora=Lora(0)), r"lora\.rank: 0"),
        (Requirement(LLAMA_8B, ModelTask.FINETUNE_QLORA, lora=Lora(8, ("qkv",))), r"targets: qkv"),
        (Requirement(LLAMA_8B, ModelTask.FINETUNE_QLORA, lora=Lora(8, ())), r"targets: none"),
    ],
)
def test_impossible_plan_is_refused_by_its_key(requirement: Requirement, message: str) -> None:
    """The error names the invalid key."""
    with pytest.raises(RequirementError, match=message):
        check_requirement(requirement)
