"""Properties of every memory estimate."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.memory import available_bytes
from rightsizer.sizing.memory_estimate import MemoryEstimate
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import (
    ModelTask,
    Optimizer,
    Parallelism,
    Precisions,
    Recompute,
    Requirement,
    Training,
)
from rightsizer.sizing.serving_memory import ServingMemory
from sized import estimate_memory
from sizing_models import GIB, published

SINGLE = Parallelism()
MODELS = tuple(
    published(name)
    for name in ("Llama-3.1-8B", "Mixtral-8x7B", "DeepSeek-V2-Lite", "gemma-2-9b", "gpt2")
)
DEGREES = st.sampled_from([1, 2, 4, 8])


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    """Any valid requirements."""
    return Requirement(
        model=draw(st.sampled_from(MODELS)),
        task=draw(st.sampled_from(list(ModelTask))),
        precision=Precisions(draw(st.sampled_from(list(NumberFormat)))),
        load=RequestLoad(draw(st.integers(1, 100_000)), draw(st.integers(0, 10_000))),
        training=Training(
            micro_batch=draw(st.integers(1, 64)),
            sequence=draw(st.integers(1, 131_072)),
            recompute=draw(st.sampled_from(list(Recompute))),
            zero_stage=draw(st.integers(0, 3)),
            flash_attention=draw(st.booleans()),
            fused_loss=draw(st.booleans()),
            optimizer=draw(st.sampled_from(list(Optimizer))),
        ),
    )


def _parts(estimate: MemoryEstimate) -> tuple[float, ...]:
    """The parts that sharding divides, without communication buffers, which it adds."""
    return (
        estimate.weights_bytes,
        estimate.kv_cache_bytes,
        estimate.gradients_bytes,
        estimate.optimizer_bytes,
        estimate.activations_bytes,
    )


def _grown(requirement: Requirement, **more: Any) -> Requirement:
    return replace(requirement, training=replace(requirement.training, **more))


@given(requirements(), st.integers(1, 1000))
def test_the_total_is_the_sum_of_its_parts(requirement: Requirement, concurrency: int) -> None:
    """No part is negative."""
    found = estimate_memory(requirement, SINGLE, concurrency)

    assert min(*_parts(found), found.overhead_bytes) >= 0
    assert found.total_bytes == sum(_parts(found)) + found.overhead_bytes


@given(requirements(), st.integers(1, 1000), st.integers(1, 1000))
def test_more_requests_never_need_less(requirement: Requirement, few: int, more: int) -> None:
    """This holds in any layout."""
    small, large = (estimate_memory(requirement, SINGLE, n) for n in (few, few + more))

    assert large.total_bytes >= small.total_bytes


@given(requirements(), st.integers(1, 50_000), st.integers(1, 50_000))
def test_longer_requests_never_need_less(
    requirement: Requirement, more_input: int, more_output: int
) -> None:
    """This covers input and output."""
    load = requirement.load
    longer = RequestLoad(load.input_tokens + more_input, load.output_tokens + more_output)
    small = estimate_memory(requirement, SINGLE, 4)
    large = estimate_memory(replace(requirement, load=longer), SINGLE, 4)

    assert large.total_bytes >= small.total_bytes


@given(requirements(), st.integers(1, 64), st.integers(1, 8192))
def test_larger_batches_and_sequences_never_need_less(
    requirement: Requirement, batch: int, tokens: int
) -> None:
    """This covers training."""
    training = requirement.training
    larger = _grown(
        requirement,
        micro_batch=training.micro_batch + batch,
        sequence=training.sequence + tokens,
    )

    small, large = (estimate_memory(each, SINGLE) for each in (requirement, larger))

    assert large.total_bytes >= small.total_bytes


@given(requirements(), st.floats(1.0, 4.0))
def test_more_parameters_never_need_less(requirement: Requirement, factor: float) -> None:
    """The shape stays the same."""
    model = requirement.model
    assert isinstance(model, Transformer)
    larger = replace(model, parameters=(model.parameters or 1e9) * factor)
    small = estimate_memory(requirement, SINGLE)
    large = estimate_memory(replace(requirement, model=larger), SINGLE)

    assert large.total_bytes >= small.total_bytes * (1 - 1e-9)


@given(requirements(), DEGREES, DEGREES, DEGREES, DEGREES)
def test_sharding_further_never_needs_more(
    requirement: Requirement, tensor: int, pipeline: int, data: int, further: int
) -> None:
    """This holds for any part along any axis, except for communication buffers."""
    layout = Parallelism(tensor, pipeline, data)
    base = estimate_memory(requirement, layout, 64)
    for axis in ("tensor", "pipeline", "data"):
        wider = replace(layout, **{axis: getattr(layout, axis) * further})
        found = estimate_memory(requirement, wider, 64)

        # Activations no longer hidden by gradients count as such.
        assert sum(_parts(found)) <= sum(_parts(base)) * (1 + 1e-9)
        assert all(
            after <= before * (1 + 1e-9)
            for after, before in zip(_parts(found)[:4], _parts(base)[:4], strict=True)
        )


@given(requirements())
def test_computing_more_again_never_needs_more(requirement: Requirement) -> None:
    """The order is full recomputation, selective, none."""
    full, part, nothing = (
        estimate_memory(_grown(requirement, recompute=each), SINGLE).total_bytes
        for each in (Recompute.FULL, Recompute.SELECTIVE, Recompute.NONE)
    )

    assert full <= part * (1 + 1e-9)
    assert part <= nothing * (1 + 1e-9)


@given(requirements(), st.floats(1, 200), st.floats(1, 200))
def test_a_larger_gpu_never_serves_fewer(requirement: Requirement, gib: float, more: float) -> None:
    """This covers concurrent requests."""
    serving = replace(requirement, task=ModelTask.INFERENCE)
    few, many = (
        ServingMemory(serving, SINGLE).largest_concurrency(available_bytes(serving, size * GIB))
        for size in (gib, gib + more)
    )

    assert many >= few
