"""Any `config.json` gives a valid model, or an error with the reason."""

import math
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as some

from published_families import MORE_PUBLISHED
from published_models import PUBLISHED
from published_multimodal import MULTIMODAL
from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.hugging_face import read_config
from rightsizer.sizing.parameters import NumberFormat, count_parameters
from rightsizer.sizing.serving_memory import kv_cache, weight_bytes

CONFIGS = (
    *(config for config, _ in PUBLISHED.values()),
    *(known.config for known in MORE_PUBLISHED.values()),
    *(known.config for known in MULTIMODAL.values()),
)
WORDS = """
    rope_scaling layer_types quantization_config sliding_window sliding_window_pattern moe_layers
    mlp_only_layers linear_num_value_heads embedding_size text_config vision_config attn_config
    head_dim kv_lora_rank n_shared_experts first_k_dense_replace num_hidden_layers hidden_size
    num_attention_heads num_key_value_heads vocab_size num_experts audio_config index_topk
    num_kv_shared_layers cross_attention_layers intermediate_size q_lora_rank zero_expert_num
    indexer_types mlp_layer_types moe_layers_enum
"""
KEYS = WORDS.split()
VALUES = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(-2, 10**13),
    some.floats(),
    some.text(max_size=4),
    some.lists(some.one_of(some.integers(0, 99), some.just("sliding_attention")), max_size=4),
    some.dictionaries(
        some.sampled_from(
            ["quant_method", "type", "factor", "ignore", "load_in_4bit", "hidden_size"]
        ),
        some.one_of(some.floats(), some.sampled_from(["gptq", "fp8", "yarn"]), some.integers()),
    ),
)


LLAVA = next(config for config in CONFIGS if config["model_type"] == "llava")
HUGE_TOWER = {"vision_config": {**LLAVA["vision_config"], "hidden_size": 1269606667703}}


@example(LLAVA, HUGE_TOWER)
@given(some.sampled_from(CONFIGS), some.dictionaries(some.sampled_from(KEYS), VALUES, max_size=3))
def test_a_configuration_makes_sense_or_is_refused(
    config: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Values are finite and not negative, and a token uses at most all parameters."""
    try:
        read = read_config({**config, **changes})
    except RequirementError:
        return
    count = count_parameters(read.model)
    cache = kv_cache(read.model, NumberFormat.BF16)
    weights = weight_bytes(read.model, count, read.weights or NumberFormat.BF16)

    assert 0 < count.active <= count.total * (1 + 1e-9)
    for figure in (count.total, weights, cache.request_bytes(1000), cache.state_bytes):
        assert math.isfinite(figure)
        assert figure >= 0
