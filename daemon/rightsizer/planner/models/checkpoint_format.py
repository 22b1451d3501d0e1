"""Number format of a checkpoint, by its `config.json`: of weights, attention and towers."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from rightsizer.planner.models.configuration import (
    AS_PUBLISHED,
    QUANTIZATION_KEY,
    Configuration,
    wrong,
)
from rightsizer.sizing.parameters import NumberFormat

_TYPES: Final = {
    "float32": NumberFormat.FP32,
    "bfloat16": NumberFormat.BF16,
    "float16": NumberFormat.FP16,
    "float8_e4m3fn": NumberFormat.FP8,
}
_METHODS: Final = {
    **dict.fromkeys(("fp8", "fbgemm_fp8"), NumberFormat.FP8),
    "mxfp4": NumberFormat.INT4,
    "nvfp4": NumberFormat.NVFP4,
}
"""mxfp4 takes 4.25 bits, like int4 in groups of 128."""
_WIDTHS: Final = {4: NumberFormat.INT4, 8: NumberFormat.INT8}
_ALGORITHMS: Final = {
    **dict.fromkeys(("FP8", "FP8_PB_WO", "MXFP8"), NumberFormat.FP8),
    **dict.fromkeys(("NVFP4", "NVFP4_AWQ", "W4A16_NVFP4"), NumberFormat.NVFP4),
    **dict.fromkeys(("W4A16_AWQ", "W4A8_AWQ"), NumberFormat.INT4),
    "W8A8_SQ_PER_CHANNEL": NumberFormat.INT8,
}
"""Of NVIDIA's Model Optimizer."""
_DESCRIBING: Final = frozenset({"torchao", "quanto", "eetq", "hqq", "quark"})
"""Methods that state the format of weights in words."""
_DESCRIBED: Final = {
    r"int4|fp4|nbits': 4": NumberFormat.INT4,
    r"float8|fp8|e4m3": NumberFormat.FP8,
    r"int8|nbits': 8": NumberFormat.INT8,
}
"""The first that is named: weights are not wider than activations."""
_MIXED: Final = "MIXED_PRECISION"
_FEED_FORWARD: Final = re.compile(r"mlp|ffn|experts")
"""Modules with most of the weights."""
_LEFT_OUT: Final = ("modules_to_not_convert", "ignore", "ignored_layers", "llm_int8_skip_modules")
_LAYER: Final = re.compile(r"layers\.\d+\.")
"""Modules of one layer; if only a few are named, the others are quantized."""
_BESIDE_TEXT: Final = re.compile("vision|visual|audio")
"""Parts excluded from most quantized checkpoints, and that are not text layers."""
_WHOLE: Final = frozenset({"bitsandbytes", "fp8", "fbgemm_fp8", "compressed-tensors"})
"""Methods that quantize every matrix not excluded by name; others only those of layers."""
_HALF = 16
_MXFP4_GROUP = 32
"""Weights that share a scale; 16 in nvfp4."""


def checkpoint_format(config: Configuration) -> NumberFormat | None:
    """Return the format of the weights; `None` if not stated."""
    key = QUANTIZATION_KEY
    remedy = "leave it out and give precision.weights in the plan"
    given = config.values.get(key)
    if given is None and (of_mlx := config.part("quantization")):
        given = {"quant_method": "mlx", **of_mlx}
    if given is not None and not isinstance(given, Mapping):
        raise wrong(key, f"{given!r} is no mapping", f"{AS_PUBLISHED}, or {remedy}")
    if not given:
        return _TYPES.get(config.text("torch_dtype") or config.text("dtype"))
    inner = Configuration(given)
    if config.text("expert_dtype") == "fp4":  # DeepSeek-V4: most of the weights.
        return NumberFormat.NVFP4
    inner = Configuration({**inner.part("quantization"), **given})
    method = inner.text("quant_method").lower().removeprefix("intel/").removesuffix("_marlin")
    number_format = _METHODS.get(method) or _by_method(method, inner)
    if number_format is None:
        bits = inner.values.get("bits")
        algorithm = inner.text("quant_algo")
        width = algorithm and f" with {algorithm}" if bits is None else f" in {bits} bits"
        raise wrong(key, f"'{method}'{width} is not known", remedy)
    return number_format


def leaves_attention_out(config: Configuration) -> bool:
    """Whether attention stays in 16 bits, by the excluded modules."""
    asked = Configuration(config.part(QUANTIZATION_KEY))
    if asked.text("quant_method") == "mxfp4":
        return True
    named = [name for key in _LEFT_OUT for name in asked.names(key) if "self_attn" in name]
    layers = [_LAYER.search(name) for name in named if not _BESIDE_TEXT.search(name)]
    single = {layer[0] for layer in layers if layer}
    return None in layers or len(single) * 2 >= (config.whole("num_hidden_layers") or 1)


def quantizes_towers(config: Configuration) -> bool:
    """Whether vision and audio towers are quantized too: no exclusion names them."""
    asked = Configuration(config.part(QUANTIZATION_KEY))
    named = (name for key in _LEFT_OUT for name in asked.names(key))
    is_named = any(_BESIDE_TEXT.search(name) for name in named)
    return asked.text("quant_method").lower() in _WHOLE and not is_named


def _by_method(method: str, config: Configuration) -> NumberFormat | None:
    if method in {"bitsandbytes", ""} and config.is_set("load_in_4bit"):
        is_double = config.is_set("bnb_4bit_use_double_quant")
        return NumberFormat.NF4_DOUBLE_QUANTIZED if is_double else NumberFormat.NF4
    if method in {"bitsandbytes", ""} and config.is_set("load_in_8bit"):
        return NumberFormat.INT8
    if method in {"awq", "gptq", "auto-round", "mlx"}:
        return _WIDTHS.get(config.whole("bits") or 4)
    if method in _DESCRIBING:
        said = str(config.values).lower()
        return next(
            (number_format for word, number_format in _DESCRIBED.items() if re.search(word, said)),
            None,
        )
    if config.text("quant_algo").upper() == _MIXED:
        return _mixed_format(config)
    if method.startswith("modelopt") or (not method and config.text("quant_algo")):
        return _ALGORITHMS.get(config.text("quant_algo").upper())
    groups = Configuration(config.part("config_groups"))
    if method != "compressed-tensors" or not groups.values:
        return None
    # llm-compressor's checkpoints: the first group's weights represent all.
    return _group_format(Configuration(groups.part(next(iter(groups.values)))))


def _mixed_format(config: Configuration) -> NumberFormat | None:
    """Return the format of most feed-forward parts, if a checkpoint has several."""
    counts: Counter[NumberFormat | None] = Counter()
    layers = Configuration(config.part("quantized_layers"))
    for name in layers.values:
        algorithm = Configuration(layers.part(name)).text("quant_algo").upper()
        counts[_ALGORITHMS.get(algorithm)] += bool(_FEED_FORWARD.search(name))
    groups = Configuration(config.part("config_groups"))
    for name in groups.values:
        group = Configuration(groups.part(name))
        targets = group.names("targets")
        counts[_group_format(group)] += sum(
            bool(_FEED_FORWARD.search(target)) for target in targets
        )
    return max(counts, key=lambda number_format: counts[number_format]) if counts else None


def format_notes(config: Configuration) -> tuple[str, ...]:
    """Return notes on a checkpoint whose layers have several formats."""
    given = Configuration(config.part(QUANTIZATION_KEY))
    if given.text("quant_algo").upper() != _MIXED:
        return ()
    return (
        f"layers are in several formats: {checkpoint_format(config)}, that of most, is assumed",
    )


def _group_format(group: Configuration) -> NumberFormat | None:
    weights = Configuration(group.part("weights"))
    width = weights.whole("num_bits") or _HALF
    if weights.text("type") != "float":
        return _WIDTHS.get(width)
    if width == max(_WIDTHS):
        return NumberFormat.FP8
    return _METHODS["mxfp4" if weights.whole("group_size") == _MXFP4_GROUP else "nvfp4"]
