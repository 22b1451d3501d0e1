"""Transformer shapes from the given values."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rightsizer.model.errors import RequirementError
from rightsizer.planner.transformer_shape import (
    TransformerDescription,
    completed_shape,
    shape_notes,
)
from rightsizer.sizing.parameters import count_parameters
from rightsizer.sizing.requirement import Parallelism, Requirement
from sized import estimate_memory

LLAMA_8B = TransformerDescription(
    layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256
)


def test_a_whole_shape_is_kept() -> None:
    """Nothing is assumed."""
    model = completed_shape(LLAMA_8B)

    assert count_parameters(model).total == 8_030_261_248
    assert model.assumed == frozenset()


@pytest.mark.parametrize(
    ("parameters", "layers", "hidden"),
    [(1.24e9, 18, 2304), (7e9, 33, 4224), (70e9, 71, 9088), (405e9, 127, 16256)],
)
def test_parameters_alone_make_the_usual_shape(parameters: float, layers: int, hidden: int) -> None:
    """Llama's have 16, 32, 80 and 126 layers of 2048, 4096, 8192 and 16384."""
    model = completed_shape(TransformerDescription(parameters=parameters))

    assert (model.layers, model.hidden, model.kv_heads) == (layers, hidden, 8)
    assert count_parameters(model).total == parameters
    assert model.assumed == {"layers", "hidden", "heads", "vocab"}
    by_shape = count_parameters(replace(model, parameters=None)).total
    assert by_shape == pytest.approx(parameters, rel=0.15)


def test_an_assumed_shape_widens_the_interval() -> None:
    """Its cache may differ."""
    known, assumed = (
        estimate_memory(Requirement(completed_shape(described)), Parallelism()).error_factor
        for described in (LLAMA_8B, TransformerDescription(parameters=8e9))
    )

    assert assumed > known


@pytest.mark.parametrize(
    ("described", "is_gated", "is_tied"),
    [
        (replace(LLAMA_8B, parameters=8_030_261_248), True, False),
        (replace(LLAMA_8B, parameters=7_504_924_672), True, True),
        (
            TransformerDescription(
                "gpt2-xl", 1.5576e9, None, 48, 1600, 25, None, None, 6400, 50257
            ),
            False,
            True,
        ),
        (
            TransformerDescription("phi", 1418270720, None, 24, 2048, 32, 32, 64, 8192, 51200),
            False,
            False,
        ),
        (
            TransformerDescription("falcon", 41.3e9, None, 60, 8192, 128, 8, 64, 32768, 65024),
            False,
            True,
        ),
        (
            TransformerDescription("1B", 1235814400, None, 16, 2048, 32, 8, 64, 8192, 128256),
            True,
            True,
        ),
        (TransformerDescription(layers=24, hidden=2048, heads=16), False, False),
        (
            TransformerDescription(layers=24, hidden=2048, heads=16, kv_heads=4, ffn=8192),
            True,
            False,
        ),
    ],
)
def test_parameters_tell_what_the_shape_does_not(
    described: TransformerDescription, *, is_gated: bool, is_tied: bool
) -> None:
    """They show the number of feed-forward matrices, and whether the embedding is the head."""
    model = completed_shape(described)

    assert (model.gated_ffn, model.tied_embeddings) == (is_gated, is_tied)


def test_a_width_that_is_not_given_makes_up_the_parameters() -> None:
    """The example is Llama 3 8B without its feed-forward width."""
    model = completed_shape(replace(LLAMA_8B, ffn=None, parameters=8_030_261_248))

    assert model.ffn == 14336


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, r"model\.layers: 0 is not above 0"),
        ({"hidden": -4096}, r"model\.hidden: -4096 is not above 0"),
        ({"heads": 33}, r"model\.heads: a hidden width of 4096 does not divide by 33 heads"),
        ({"kv_heads": 5}, r"model\.kv_heads: 32 heads do not divide by 5"),
        ({"kv_heads": 64}, r"model\.kv_heads: 32 heads do not divide by 64"),
        ({"experts": 8, "experts_per_token": 9}, r"model\.experts_per_token: 9 of 8 experts"),
        ({"experts_per_token": 2}, r"model\.experts_per_token: 2 of 1 experts"),
        ({"parameters": 1e9, "active_parameters": 2e9}, r"model\.active_parameters"),
        ({"parameters": float("nan")}, r"model\.parameters"),
        ({"parameters": 1e9}, r"model\.parameters: 1e\+09, but the shape given makes"),
        ({"sliding_window": 0}, r"model\.sliding_window: 0"),
        ({"rope_head_dim": -1}, r"model\.rope_head_dim"),
        ({"layers": None}, r"model\.parameters: is missing"),
    ],
)
def test_impossible_shape_is_refused_by_its_key(change: dict[str, Any], message: str) -> None:
    """The error has the remedy."""
    with pytest.raises(RequirementError, match=message):
        completed_shape(replace(LLAMA_8B, **change))


def test_latent_attention_keeps_a_rotated_part() -> None:
    """The default is 64, as in all published models; a given 0 stays."""
    described = replace(LLAMA_8B, parameters=None, kv_lora_rank=512)

    assert completed_shape(described).rope_head_dim == 64
    assert completed_shape(replace(described, rope_head_dim=0)).rope_head_dim == 0
    assert completed_shape(replace(LLAMA_8B, rope_head_dim=None)).rope_head_dim == 0


def test_a_shape_that_is_far_too_small_is_said() -> None:
    """Experts of a mixture may be missing: the parameters take precedence."""
    model = completed_shape(replace(LLAMA_8B, parameters=70e9))

    (note,) = shape_notes(model)

    assert model.parameters == 70e9
    assert note.startswith("7e+10 parameters are given, and the shape given makes 8.03e+09")
    assert not list(shape_notes(completed_shape(LLAMA_8B)))


def test_all_that_is_wrong_is_reported_at_once() -> None:
    """Each has one line."""
    with pytest.raises(RequirementError) as caught:
        completed_shape(replace(LLAMA_8B, layers=0, hidden=0, vocab=-1))

    assert len(str(caught.value).splitlines()) == 3


@given(
    fewer=st.floats(1e8, 2e12),
    factor=st.floats(1.0, 3.0),
)
def test_more_parameters_never_make_less_memory(fewer: float, factor: float) -> None:
    """This holds for any assumed shape."""
    small, large = (
        estimate_memory(
            Requirement(completed_shape(TransformerDescription(parameters=count))), Parallelism(), 8
        )
        for count in (fewer, fewer * factor)
    )

    assert large.total_bytes >= small.total_bytes * (1 - 1e-9)
