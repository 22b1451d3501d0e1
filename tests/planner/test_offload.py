"""Offload of training to the host: freed GPU memory, and time."""

from typing import Any

import pytest
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.planner.transformer_shape import TransformerDescription, completed_shape
from rightsizer.sizing.requirement import (
    ModelTask,
    Offload,
    Parallelism,
    Recompute,
    Requirement,
    Training,
)
from rightsizer.sizing.training import training_rate
from sized import estimate_memory

MODEL = completed_shape(
    TransformerDescription(layers=32, hidden=4096, heads=32, kv_heads=8, vocab=32000)
)
ONE = Parallelism()
BOARD = built_in().boards["H100-SXM5-80GB"]


def trained(offload: Offload, **more: Any) -> Requirement:
    """A full training with offload."""
    training = replace(Training(offload=offload), **more)
    return Requirement(MODEL, ModelTask.TRAINING, training=training)


def test_an_offloaded_optimizer_takes_no_memory_of_the_gpu() -> None:
    """All other parts stay the same."""
    plain, moved = (
        estimate_memory(trained(each), ONE) for each in (Offload.NONE, Offload.OPTIMIZER)
    )
    assert plain.optimizer_bytes > 0
    assert moved.optimizer_bytes == 0
    assert moved.weights_bytes == plain.weights_bytes
    assert moved.activations_bytes == plain.activations_bytes


def test_offloaded_activations_are_those_of_two_layers() -> None:
    """More of them free more."""
    plain, moved = (
        estimate_memory(trained(each, micro_batch=8), ONE)
        for each in (Offload.NONE, Offload.ACTIVATIONS)
    )
    assert moved.activations_bytes < plain.activations_bytes / 3
    assert moved.optimizer_bytes == plain.optimizer_bytes


@pytest.mark.parametrize("recompute", list(Recompute))
def test_offload_never_makes_a_step_faster(recompute: Recompute) -> None:
    """An update on the host pays for a large batch; transfers hidden by compute cost nothing."""

    def rate(offload: Offload, batch: int) -> float:
        asked = trained(offload, recompute=recompute, global_batch=batch)
        return training_rate(asked, BOARD, ONE).units_per_second.value

    for offload in (Offload.OPTIMIZER, Offload.ACTIVATIONS):
        assert rate(offload, 4) <= rate(Offload.NONE, 4)
    slowed = [rate(Offload.OPTIMIZER, batch) / rate(Offload.NONE, batch) for batch in (1, 16, 256)]
    assert slowed == sorted(slowed)
    assert slowed[0] < 0.6
    assert slowed[-1] > 0.8
