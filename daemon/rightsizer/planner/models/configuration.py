"""Model `config.json`: values by key, and the number format of its checkpoint."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rightsizer.io.yaml import YamlError, load_beside, load_yaml
from rightsizer.model.errors import RequirementError
from rightsizer.model.frozen import dataclass, field
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat

_MOST: Final = 1e18
AS_PUBLISHED: Final = "take the file as published with the model"
DESCRIBE: Final = (
    "describe the model in the plan instead (kind: diffusion, parameters, forward_flops{})"
)
"""Remedy for unreadable parts of a diffusion model; the braces take more keys."""
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
_QUANTIZATION: Final = "hf_quant_config.json"
"""File of NVIDIA's Model Optimizer with the format, if it is not in `config.json`."""
_MISTRAL: Final = {
    "dim": "hidden_size",
    "hidden_dim": "intermediate_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "tied_embeddings": "tie_word_embeddings",
    "max_seq_len": "max_position_embeddings",
    "head_dim": "head_dim",
    "vocab_size": "vocab_size",
}
_QUANTIZED: Final = "quantization_config"
MODEL_TYPES: Final[Mapping[str, Mapping[str, Any]]] = {
    section: {kind: row for kinds, row in rows.items() for kind in kinds.split()}
    for section, rows in load_beside(__file__, "model_types.yaml").items()
}
"""Sections of the packaged table: families, defaults, towers; each by `model_type`."""


def wrong(key: str, fault: str, remedy: str = AS_PUBLISHED) -> RequirementError:
    """Create the error for a value of a `config.json`."""
    return RequirementError(f"config.json: {key}: {fault}" + (f"; {remedy}" if remedy else ""))


def parsed_config(
    file: Path, remedy: str = "name the config.json that comes with the model"
) -> dict[str, Any]:
    """Parse a JSON file, with the checkpoint format from a file beside it."""
    try:
        data = load_yaml(file.read_text(encoding="utf-8-sig").replace("\t", " "), str(file)).data
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RequirementError(f"model.config: {file}: {reason}; {remedy}") from None
    except (UnicodeDecodeError, YamlError) as error:
        raise RequirementError(f"model.config: {file}: is no JSON: {error}; {remedy}") from None
    if not isinstance(data, dict):
        raise RequirementError(f"model.config: {file}: is no JSON object; {remedy}")
    beside = file.with_name(_QUANTIZATION)
    if _QUANTIZED not in data and file.name != _QUANTIZATION and beside.is_file():
        found = parsed_config(beside, remedy).get("quantization")
        given = found if isinstance(found, Mapping) else {}
        data[_QUANTIZED] = {**given, "ignore": given.get("exclude_modules")} if given else None
    return data


def of_mistral(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `params.json` of Mistral by the keys of transformers; towers are left out."""
    if not {"n_layers", "n_heads", "vocab_size"} <= {*given} or "q_lora_rank" in given:
        raise wrong(
            "dim", "is of a shape that is not known", "give the config.json of transformers"
        )
    values = {new: given[old] for old, new in _MISTRAL.items() if given.get(old) is not None}
    experts = Configuration(Configuration(given).part("moe"))
    kind = "mixtral" if experts.values else "mistral"
    chosen = {"num_local_experts": "num_experts", "num_experts_per_tok": "num_experts_per_tok"}
    values |= {new: experts.needed(old) for new, old in chosen.items() if experts.values}
    return {"model_type": kind, **values}


@contextmanager
def errors_of(file: Path) -> Iterator[None]:
    """Add the file's name to errors about its values; errors of the plan stay unchanged."""
    try:
        yield
    except RequirementError as error:
        if str(error).startswith("model."):
            raise
        raise RequirementError(f"model.config: {file}: {error}") from None


@dataclass(frozen=True, slots=True)
class Configuration:
    """Parsed configuration of Hugging Face's transformers."""

    values: Mapping[str, object]
    defaults: Mapping[str, int] = field(default_factory=dict)
    """Values that files of its type omit."""

    def whole(self, key: str, otherwise: int | None = None) -> int | None:
        """Return an integer, or the default if it is missing or null."""
        value = self.values.get(key)
        if value is None:
            return self.defaults.get(key, otherwise)
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong(key, f"{value!r} is not a whole number", "")
        if value < 0:
            raise wrong(key, f"{value} is negative", "")
        return value

    def needed(self, key: str) -> int:
        """Return a required integer."""
        value = self.whole(key)
        if value is None:
            raise wrong(key, "is missing")
        if value == 0:
            raise wrong(key, "0 is not above 0", "")
        return value

    def wholes(
        self, key: str, count: int | None = None, otherwise: int | None = None
    ) -> tuple[int, ...]:
        """Return a list of positive integers; a single one is repeated `count` times."""
        value = self.values.get(key)
        if not isinstance(value, list | tuple):
            alone = self.whole(key, otherwise)
            if not alone or not count:
                raise wrong(key, "is no list of whole numbers above 0")
            return (alone,) * count
        if not value or len(value) != (count or len(value)):
            wanted = f"not {count}" if count else "where some are needed"
            raise wrong(key, f"has {len(value)} entries, {wanted}", "")
        return tuple(Configuration({key: item}).needed(key) for item in value)

    def number(self, key: str, otherwise: float) -> float:
        """Return a positive number, or the default if it is missing or null."""
        value = self.values.get(key)
        if value is None:
            return otherwise
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST:
            raise wrong(key, f"{value!r} is not a number above 0", "")
        return float(value)

    def is_set(self, key: str, *, otherwise: bool = False) -> bool:
        """Return a boolean."""
        value = self.values.get(key)
        return otherwise if value is None else bool(value)

    def text(self, key: str) -> str:
        """Return a text, empty if absent."""
        value = self.values.get(key)
        return value if isinstance(value, str) else ""

    def part(self, key: str) -> Mapping[str, object]:
        """Return a nested mapping, empty if absent."""
        value = self.values.get(key)
        return value if isinstance(value, Mapping) else {}

    def lists(self, key: str) -> tuple[object, ...]:
        """Return the entries of a list, empty if absent."""
        value = self.values.get(key)
        return tuple(value) if isinstance(value, list | tuple) else ()

    def names(self, key: str) -> tuple[str, ...]:
        """Return the texts in a list, empty if absent."""
        return tuple(item for item in self.lists(key) if isinstance(item, str))


ConfigReader = Callable[[Configuration, str], Transformer]
"""Builds the model of a configuration, with its name."""


def checkpoint_format(config: Configuration) -> NumberFormat | None:
    """Return the format of the weights; `None` if not stated."""
    key, remedy = _QUANTIZED, "leave it out and give precision.weights in the plan"
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
    found = _METHODS.get(method) or _by_method(method, inner)
    if found is None:
        bits, algorithm = inner.values.get("bits"), inner.text("quant_algo")
        width = algorithm and f" with {algorithm}" if bits is None else f" in {bits} bits"
        raise wrong(key, f"'{method}'{width} is not known", remedy)
    return found


def leaves_attention_out(config: Configuration) -> bool:
    """Whether attention stays in 16 bits, by the excluded modules."""
    asked = Configuration(config.part(_QUANTIZED))
    if asked.text("quant_method") == "mxfp4":
        return True
    named = [name for key in _LEFT_OUT for name in asked.names(key) if "self_attn" in name]
    layers = [_LAYER.search(name) for name in named if not _BESIDE_TEXT.search(name)]
    single = {found[0] for found in layers if found}
    return None in layers or len(single) * 2 >= (config.whole("num_hidden_layers") or 1)


def quantizes_towers(config: Configuration) -> bool:
    """Whether vision and audio towers are quantized too: no exclusion names them."""
    asked = Configuration(config.part(_QUANTIZED))
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
        return next((each for word, each in _DESCRIBED.items() if re.search(word, said)), None)
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
    found: Counter[NumberFormat | None] = Counter()
    layers = Configuration(config.part("quantized_layers"))
    for name in layers.values:
        algorithm = Configuration(layers.part(name)).text("quant_algo").upper()
        found[_ALGORITHMS.get(algorithm)] += bool(_FEED_FORWARD.search(name))
    groups = Configuration(config.part("config_groups"))
    for name in groups.values:
        group = Configuration(groups.part(name))
        targets = group.names("targets")
        found[_group_format(group)] += sum(bool(_FEED_FORWARD.search(each)) for each in targets)
    return max(found, key=lambda each: found[each]) if found else None


def format_notes(config: Configuration) -> tuple[str, ...]:
    """Return notes on a checkpoint whose layers have several formats."""
    given = Configuration(config.part(_QUANTIZED))
    if given.text("quant_algo").upper() != _MIXED:
        return ()
    return (f"layers are in several formats: {checkpoint_format(config)}, that of most, is taken",)


def _group_format(group: Configuration) -> NumberFormat | None:
    weights = Configuration(group.part("weights"))
    width = weights.whole("num_bits") or _HALF
    if weights.text("type") != "float":
        return _WIDTHS.get(width)
    if width == max(_WIDTHS):
        return NumberFormat.FP8
    return _METHODS["mxfp4" if weights.whole("group_size") == _MXFP4_GROUP else "nvfp4"]
