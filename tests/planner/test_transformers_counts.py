"""Configurations as read here, against the models that transformers builds from them."""

from typing import Any

import pytest

from published_models import PUBLISHED
from rightsizer.planner.models.hugging_face import read_config
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat, count_parameters
from rightsizer.sizing.serving_memory import kv_cache
from transformers_counts import COUNTED

CACHED = sorted(name for name, known in COUNTED.items() if known.cached_bytes is not None)


def test_a_model_has_the_parameters_of_its_class() -> None:
    """Counts are exact for every kind, and for each switch."""
    for name in COUNTED:
        known = COUNTED[name]

        assert count_parameters(read_config(known.config).model).total == known.parameters, name


def test_a_token_takes_what_its_class_keeps() -> None:
    """Layers with a cache, heads and widths agree with the cache after a forward pass."""
    for name in CACHED:
        known = COUNTED[name]
        cache = kv_cache(read_config(known.config).model, NumberFormat.BF16)

        assert cache.bytes_per_token == known.cached_bytes, name
        assert cache.windowed_bytes_per_token == known.windowed_bytes, name


@pytest.mark.parametrize("key", ["num_experts", "num_local_experts", "n_routed_experts"])
def test_experts_are_read_by_each_spelling(key: str) -> None:
    """Transformers 5 writes those of Qwen3-MoE as Mixtral's."""
    config, parameters = PUBLISHED["Qwen3-30B-A3B"]
    values = {name: value for name, value in config.items() if name != "num_experts"}

    read = read_config({**values, key: config["num_experts"]}).model

    assert count_parameters(read).total == parameters


@pytest.mark.parametrize(
    ("version", "kind", "is_tied"),
    [
        ("5.23.0", "internvl", True),
        ("4.57.1", "internvl", False),
        ("5.23.0", "llama4", False),
        ("", "internvl", False),
        ("main", "internvl", False),
    ],
)
def test_embeddings_are_tied_by_the_word_of_the_version(
    version: str, kind: str, *, is_tied: bool
) -> None:
    """The whole decides since transformers 5, the text before, and where the text has the head."""
    text: dict[str, Any] = {**COUNTED["qwen2"].config, "tie_word_embeddings": False}
    config = {
        "model_type": kind,
        "text_config": text,
        "tie_word_embeddings": True,
        "transformers_version": version,
    }
    read = read_config(config).model

    assert isinstance(read, Transformer)
    assert read.tied_embeddings is is_tied


@pytest.mark.parametrize(("last", "dense"), [(-1, 1), (3, 1), (1, 3)])
def test_experts_may_end_before_the_last_layer(last: int, dense: int) -> None:
    """ERNIE writes -1 where they do not."""
    config = {**COUNTED["ernie4_5_moe"].config, "moe_layer_end_index": last}
    read = read_config(config).model

    assert isinstance(read, Transformer)
    assert read.dense_layers == dense
