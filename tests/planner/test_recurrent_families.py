"""Hugging Face families with recurrent layers: state spaces and their hybrids."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from published_recurrent import PUBLISHED_RECURRENT
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.hugging_face import read_config
from rightsizer.sizing.forward_pass import Attention, Experts, ForwardPass
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat, count_parameters
from rightsizer.sizing.requirement import Parallelism, Precisions
from rightsizer.sizing.serving_memory import kv_cache
from rightsizer.sizing.serving_settings import ServingModelSettings
from rightsizer.sizing.training_step import TrainingShape

BOARD = built_in().get("H100-SXM5-80GB")


def _model(name: str, **changes: Any) -> Transformer:
    model = read_config({**PUBLISHED_RECURRENT[name].config, **changes}, name).model
    assert isinstance(model, Transformer)
    return model


def test_a_model_has_its_published_parameters() -> None:
    """Exact for known checkpoints, within one percent for model cards."""
    for name in PUBLISHED_RECURRENT:
        known = PUBLISHED_RECURRENT[name].parameters
        exact = known % 1e7 != 0

        assert count_parameters(_model(name)).total == pytest.approx(
            known, rel=0 if exact else 0.01
        ), name


def test_a_token_passes_its_published_part() -> None:
    """All but unused experts count; cards have two digits."""
    for name in PUBLISHED_RECURRENT:
        known = PUBLISHED_RECURRENT[name]
        count = count_parameters(_model(name))

        if known.active == known.parameters:
            assert count.active == count.total, name
        assert count.active == pytest.approx(known.active, rel=0.05), name


def test_only_attention_keeps_keys_and_values() -> None:
    """By layers with attention, without a window."""
    for name in PUBLISHED_RECURRENT:
        known = PUBLISHED_RECURRENT[name]
        model = _model(name)
        cache = kv_cache(model, NumberFormat.BF16)

        assert (model.cached_layers, model.attending_layers) == (known.cached, known.cached), name
        assert cache.bytes_per_token == known.token_bytes, name


def test_a_state_is_the_same_for_any_length() -> None:
    """By hand it is heads by widths by states, and the convolutions' tokens."""
    for name in PUBLISHED_RECURRENT:
        known = PUBLISHED_RECURRENT[name]
        cache = kv_cache(_model(name), NumberFormat.BF16)

        assert cache.state_bytes == known.state_bytes, name
        assert cache.request_bytes(0) == known.state_bytes, name
        assert cache.request_bytes(1600) - 1600 * cache.bytes_per_token >= known.state_bytes, name


def test_layers_are_all_of_some_kind() -> None:
    """Their number is the file's."""
    for name in PUBLISHED_RECURRENT:
        model = _model(name)
        config = PUBLISHED_RECURRENT[name].config

        assert (
            sum(kind.layers for kind in model.kinds) == model.layers == config["num_hidden_layers"]
        ), name


@pytest.mark.parametrize(
    ("name", "depth"),
    [
        ("mamba-2.8b", 32),
        ("Nemotron-H-8B", 26),
        ("Jamba-v0.1", 32),
        ("Zamba2-7B", 68 / 2 + 13 * 1.5),
    ],
)
def test_depth_depends_on_parts(name: str, depth: float) -> None:
    """A layer of Nemotron-H or Mamba is half of a usual one."""
    assert _model(name).depth == depth


def test_a_state_space_looks_back_and_attends_to_nothing() -> None:
    """It generates, but has no cache, and a token costs the same at any length."""
    attention = Attention(
        _model("mamba-2.8b"), Precisions(), BOARD, Parallelism(), ServingModelSettings()
    )

    assert attention.is_causal
    assert attention.of_new_tokens(8, 100) == attention.of_new_tokens(8, 100_000)
    assert attention.of_new_tokens(8, 100).bandwidth > 0
    assert attention.of_prompt(100_000).compute == 0


@pytest.mark.parametrize(("name", "layers"), [("mamba-2.8b", 0), ("Jamba-v0.1", 4)])
def test_requests_take_further_time_only_in_layers_with_attention(name: str, layers: int) -> None:
    """Others read and write a state, and nothing beside it."""
    forward = ForwardPass(_model(name), Precisions(), BOARD, Parallelism(), ServingModelSettings())
    latencies = [forward.decode(requests, 100).latency for requests in (1, 65)]

    assert latencies[1] - latencies[0] == pytest.approx(64 * layers * 0.25e-6)


def test_attention_of_a_hybrid_is_that_of_its_few_layers() -> None:
    """This covers serving and training: 4 of Jamba's 32 layers have attention."""
    model = _model("Jamba-v0.1")
    everywhere = replace(model, cached_layers=None, layer_kinds=(), state_elements=0.0)
    few, all_layers = (
        Attention(each, Precisions(), BOARD, Parallelism(), ServingModelSettings())
        for each in (model, everywhere)
    )

    assert few.of_prompt(8192).compute == pytest.approx(all_layers.of_prompt(8192).compute / 8)
    attended = [TrainingShape(each, 4096).attended for each in (model, everywhere)]
    assert attended[0] == pytest.approx(attended[1] / 8)


def test_shared_blocks_are_kept_once_and_passed_as_often_as_they_come() -> None:
    """Zamba 2 7B has two blocks in 13 layers: they are read and multiplied with each time."""
    model = _model("Zamba2-7B")
    block = 7168 * 3 * 7168 + 7168 * 3584 + 3 * 3584 * 14336 + 7168 + 3584
    count = count_parameters(model)

    assert count.repeated == 11 * block
    assert count.linear == count.active + 11 * block
    assert Experts(model, count).common_parameters == count.layers + 11 * block
    shape = TrainingShape(model, 1)
    assert shape.model_flops(6.0) == pytest.approx(
        6 * (count.active + 11 * block) + 12 * 13 * 32 * 224
    )


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("mamba-2.8b", "expand"),
        ("mamba-2.8b", "conv_kernel"),
        ("Codestral-Mamba-7B", "n_groups"),
        ("Codestral-Mamba-7B", "num_heads"),
        ("Jamba-v0.1", "attn_layer_period"),
        ("Jamba-v0.1", "expert_layer_offset"),
        ("Jamba-v0.1", "mamba_dt_rank"),
        ("Bamba-9B", "mamba_d_head"),
        ("Bamba-9B", "tie_word_embeddings"),
        ("Nemotron-H-8B", "n_groups"),
        ("Nemotron-H-8B", "num_hidden_layers"),
        ("Falcon-H1-7B", "mamba_d_head"),
        ("LFM2-1.2B", "block_auto_adjust_ff_dim"),
        ("LFM2-1.2B", "conv_L_cache"),
        ("Zamba2-1.2B", "hybrid_layer_ids"),
        ("Zamba2-1.2B", "layers_block_type"),
    ],
)
def test_a_key_that_is_missing_has_the_default_of_its_class(name: str, key: str) -> None:
    """The published file has the same value, or another key does."""
    config = {
        each: value for each, value in PUBLISHED_RECURRENT[name].config.items() if each != key
    }

    assert read_config(config, name).model == _model(name)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("Nemotron-H-8B", {"num_hidden_layers": 50}, "hybrid_override_pattern: tells of 52 layers"),
        ("Nemotron-H-8B", {"hybrid_override_pattern": "M-X"}, "hybrid_override_pattern: 'X'"),
        (
            "Nemotron-H-8B",
            {"layers_block_type": ["mamba"] * 52},
            "hybrid_override_pattern: layer 1 is mlp, but recurrent by layers_block_type",
        ),
        (
            "Nemotron-H-8B",
            {"num_hidden_layers": 2, "hybrid_override_pattern": "--"},
            "no layer has attention or a state",
        ),
        ("Nemotron-H-8B", {"hybrid_override_pattern": None}, "layer_types: tells of 4 layers"),
        ("Nemotron-H-8B", {"mamba_ssm_cache_dtype": "int8"}, "mamba_ssm_cache_dtype: 'int8'"),
        ("Jamba-v0.1", {"attn_layer_offset": 8}, "attn_layer_offset: 8 is not below"),
        ("Jamba-v0.1", {"expert_layer_period": 1}, "expert_layer_offset: 1 is not below"),
        ("Jamba-v0.1", {"layers_block_type": ["mamba"] * 32}, "layers_block_type: layer 4"),
        ("Jamba-v0.1", {"num_experts_per_tok": 17}, "17 of 16 experts"),
        ("Bamba-9B", {"attn_layer_indices": [9, 32]}, "attn_layer_indices: .* 32 layers"),
        ("Bamba-9B", {"attn_layer_indices": 9}, "attn_layer_indices: 9 is no list"),
        ("Bamba-9B", {"mamba_d_head": 32}, "mamba_d_head: 128 heads of 32 are not 8192"),
        ("Bamba-9B", {"mamba_n_heads": 100}, "mamba_n_heads: 100 heads do not divide"),
        ("Zamba2-7B", {"hybrid_layer_ids": [6]}, "hybrid_layer_ids: layer 11 is recurrent"),
        ("Zamba2-7B", {"layers_block_type": ["attention"] * 81}, "layers_block_type: 'attention'"),
        ("Zamba2-7B", {"layers_block_type": [7]}, "layers_block_type: 7 is no kind"),
        ("Zamba2-7B", {"layers_block_type": "mamba"}, "layers_block_type: 'mamba' is no list"),
        ("LFM2-1.2B", {"layer_types": ["conv"] * 16}, "full_attn_idxs: layer 2 is attention"),
        ("LFM2-1.2B", {"block_ffn_dim_multiplier": "1"}, "block_ffn_dim_multiplier: '1'"),
        ("LFM2-8B-A1B", {"layer_types": None}, "layer_types: is missing"),
        ("LFM2-8B-A1B", {"num_dense_layers": 25}, "num_dense_layers: 25 of 24"),
        ("Codestral-Mamba-7B", {"expand": 3}, "num_heads: 128 heads of 64 are not 12288"),
        ("Falcon-H1-7B", {"mamba_d_ssm": None}, "mamba_d_head: 24 heads of 128 are not 6144"),
        ("granite-4.0-h-micro", {"layer_types": ["mamba"] * 39}, "layer_types: tells of 39"),
        ("mamba-2.8b", {"num_hidden_layers": 10**6}, "more than any model has"),
    ],
)
def test_a_contradiction_names_its_key(name: str, changes: dict[str, Any], message: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(RequirementError, match=message):
        _model(name, **changes)


def test_the_same_pattern_may_be_named_or_spelled() -> None:
    """Covers old and new names of kinds, and both keys together."""
    letters = {"M": "mamba", "*": "attention", "-": "mlp"}
    new = {"M": "linear_attention", "*": "full_attention", "-": "mlp"}
    pattern = PUBLISHED_RECURRENT["Nemotron-H-8B"].config["hybrid_override_pattern"]
    named = [letters[each] for each in pattern]
    types = [new[each] for each in pattern]

    assert _model("Nemotron-H-8B", layers_block_type=named) == _model("Nemotron-H-8B")
    spelled_no_more = {"layer_types": types, "hybrid_override_pattern": None}
    assert _model("Nemotron-H-8B", **spelled_no_more) == _model("Nemotron-H-8B")


@pytest.mark.parametrize(("kept", "ratio"), [("bfloat16", 1), ("float32", 2), (None, 2)])
def test_a_state_may_be_kept_in_32_bits(kept: str | None, ratio: int) -> None:
    """Nemotron-H does so by default; convolutions' tokens stay in 16."""
    model = _model("Nemotron-H-8B", mamba_ssm_cache_dtype=kept)

    assert model.state_elements == 24 * (ratio * 8192 * 128 + 3 * (8192 + 2 * 8 * 128))


@pytest.mark.parametrize(
    ("name", "key", "added"),
    [
        ("mamba-2.8b", "use_bias", 64 * (2 * 5120 + 2560)),
        ("Codestral-Mamba-7B", "use_bias", 64 * (2 * 8192 + 2 * 8 * 128 + 128 + 4096)),
        ("Bamba-9B", "mamba_proj_bias", 29 * (2 * 8192 + 2 * 128 + 128 + 4096)),
        ("Nemotron-H-8B", "attention_bias", 4 * (2 * 4096 + 2 * 1024)),
        ("Nemotron-H-8B", "mlp_bias", 24 * (21504 + 4096)),
        ("Falcon-H1-7B", "attention_bias", 44 * (1536 + 2 * 256 + 3072)),
        ("Falcon-H1-7B", "mlp_bias", 44 * (2 * 12288 + 3072)),
        ("Falcon-H1-7B", "projectors_bias", 44 * 3072),
        ("Falcon-H1-7B", "mamba_rms_norm", 44 * 3072),
        ("granite-4.0-h-micro", "attention_bias", 4 * (2 * 2048 + 2 * 512)),
        ("LFM2-1.2B", "conv_bias", 10 * 5 * 2048),
    ],
)
def test_biases_are_counted_where_the_file_has_them(name: str, key: str, added: int) -> None:
    """Each class has a switch of its own."""
    plain, biased = (count_parameters(_model(name, **{key: has})).total for has in (False, True))

    assert biased - plain == added


@given(
    some.sampled_from(sorted(PUBLISHED_RECURRENT)),
    some.integers(0, 300_000),
    some.integers(0, 300_000),
    some.sampled_from([1, 2]),
)
def test_a_longer_request_never_takes_less(name: str, one: int, other: int, tensor: int) -> None:
    """This covers memory and time of a token, and a state is always kept."""
    shorter, longer = sorted((one, other))
    layout = Parallelism(tensor=tensor)
    cache = kv_cache(_model(name), NumberFormat.BF16, layout)
    forward = ForwardPass(_model(name), Precisions(), BOARD, layout, ServingModelSettings())
    seconds = [forward.decode(4, length).seconds for length in (shorter, longer)]

    assert 0 < cache.request_bytes(shorter) <= cache.request_bytes(longer)
    assert 0 < seconds[0] <= seconds[1]


@given(
    some.text("M*-", min_size=1, max_size=60).filter(lambda text: set(text) & set("M*")),
    some.sampled_from([64, 128, 256]),
    some.integers(1, 4),
    some.integers(1, 8),
)
def test_any_pattern_adds_up(pattern: str, hidden: int, groups: int, state: int) -> None:
    """Each letter adds its own layer and its own state, independent of the letters before."""
    shape = {"hidden_size": hidden, "num_attention_heads": 4, "num_key_value_heads": 2}
    more = {"n_groups": groups, "ssm_state_size": state, "intermediate_size": 300, "head_dim": 16}
    changes = {**shape, **more, "mamba_num_heads": 4, "mamba_head_dim": 32}

    def read(letters: str) -> Transformer:
        config = {"hybrid_override_pattern": letters, "num_hidden_layers": len(letters)}
        return _model("Nemotron-H-8B", **changes, **config)

    def layer(letter: str) -> float:
        return count_parameters(read("M" + letter)).total - count_parameters(read("M")).total

    model = read(pattern)
    ends = count_parameters(read("M")).total - layer("M")
    total = ends + sum(layer(letter) for letter in pattern)

    assert count_parameters(model).total == pytest.approx(total)
    assert model.cached_layers == pattern.count("*")
    assert model.state_elements == pattern.count("M") * read("M").state_elements


KEYS = sorted({key for known in PUBLISHED_RECURRENT.values() for key in known.config})
VALUES = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(-2, 10**13),
    some.floats(),
    some.text("M*-Eauto", max_size=4),
    some.lists(some.sampled_from(["mamba", "attention", "hybrid", "conv", 0, 1]), max_size=4),
)


@given(
    some.sampled_from(sorted(PUBLISHED_RECURRENT)),
    some.dictionaries(
        some.sampled_from([*KEYS, "layer_types", "moe_latent_size"]), VALUES, max_size=3
    ),
)
def test_a_configuration_makes_sense_or_is_refused(name: str, changes: dict[str, Any]) -> None:
    """Values are finite and not negative, and a token uses at most all parameters."""
    try:
        model = read_config({**PUBLISHED_RECURRENT[name].config, **changes}).model
    except RequirementError:
        return
    count = count_parameters(model)
    cache = kv_cache(model, NumberFormat.BF16)

    assert 0 < count.active <= count.total * (1 + 1e-9)
    for figure in (count.total, cache.request_bytes(1000), cache.state_bytes, count.repeated):
        assert math.isfinite(figure)
        assert figure >= 0
