"""Hugging Face model families: keys, experts, exact parameters, and layers of their own."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec.structs import asdict, replace

from rightsizer.planner.models.configuration import MODEL_TYPES, Configuration, wrong
from rightsizer.planner.models.formulas import FUNCTIONS, Formulas, formula_rows
from rightsizer.planner.requirement_checks import check_model
from rightsizer.sizing.models import LayerKind, TokenIndexer, Transformer
from rightsizer.sizing.parameters import attention_parameters, count_parameters

_SHARED: Final = (
    "n_shared_experts",
    "num_shared_experts",
    "moe_num_shared_experts",
    "num_shared_expert",
)
_SHARED_WIDTHS: Final = (
    "shared_expert_intermediate_size",
    "shared_intermediate_size",
    "share_expert_dim",
)
_DENSE_FIRST: Final = ("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers")
_STEPS: Final = ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval")
_LINEAR: Final = "linear_attention"
_SCALES: Final = {"float32": 2, "bfloat16": 1, "float16": 1, "auto": 1}
"""16-bit numbers per element of a state."""


Family = Mapping[str, Any]
"""How a family names its shape, and its parameters beside matrices."""
FAMILIES: Final[Mapping[str, Family]] = {
    kind: {**MODEL_TYPES["usual"]["family"], **row} for kind, row in MODEL_TYPES["families"].items()
}
"""By `model_type`; encoder-decoders, hybrids and vision transformers are read separately."""


def read_family(config: Configuration, family: Family, name: str) -> Transformer:
    """Return the model of a family, with the layers that it has beside the usual ones."""
    functions: Mapping[str, Callable[..., Any]] = {
        **FUNCTIONS,
        "first": partial(_first_mean, config, family),
        "has_experts": partial(_has_experts, config),
        "key": family.__getitem__,
        "mean": partial(_mean, config, family),
        "shared_width": partial(_shared_width, config, family),
        "stated": config.values.get,
    }
    fields = Formulas(formula_rows("families")["shape"], config, {}, functions).results("shape")
    shape = Transformer(name=name, **fields)
    check_model(shape)
    whole = replace(shape, parameters=_parameters(shape, config, family))
    return with_special_layers(whole, config)


def _mean(config: Configuration, family: Family, key: str) -> int:
    return _mean_over_layers(config, key, config.needed(family["layers"]))


def _first_mean(config: Configuration, family: Family, keys: Sequence[str]) -> int:
    """Return the first number that a configuration states."""
    return next((count for key in keys if (count := _mean(config, family, key))), 0)


def _mean_over_layers(config: Configuration, key: str, layers: int) -> int:
    """Return a number, or the layers' mean if listed for each; 0 if absent."""
    if not config.lists(key):
        return config.whole(key) or 0
    return round(sum(config.wholes(key, layers)) / layers)


def _shared_width(config: Configuration, family: Family, layers: int, width: int) -> int:
    """Return the width of the part of a layer that every token passes."""
    given = (key for key in _SHARED if config.lists(key) or config.whole(key) is not None)
    if (key := next(given, None)) is not None:
        return _mean_over_layers(config, key, layers) * width
    wide = next((value for key in _SHARED_WIDTHS if (value := config.whole(key))), 0)
    shared: int = family["shared_experts"]
    return wide or shared * width


def _has_experts(config: Configuration, layer: int) -> bool:
    """Whether a layer has experts; each family has its own key for that."""
    listed = _numbers(config, "moe_layers") or _numbers(config, "moe_layers_enum")
    if listed:
        return layer in listed
    kinds = config.names("mlp_layer_types")
    if layer < len(kinds):
        return kinds[layer] != "dense"
    if layer in _numbers(config, "mlp_only_layers"):
        return False
    if layer < next((first for key in _DENSE_FIRST if (first := config.whole(key))), 0):
        return False
    last = config.values.get("moe_layer_end_index")  # ERNIE writes -1 for the last layer.
    if isinstance(last, int) and 0 <= last < layer:
        return False
    listed = config.lists("moe_layer_freq")
    if layer < len(listed):
        return listed[layer] == 1
    every = config.whole("moe_layer_freq") or 1
    step = next((value for key in _STEPS if (value := config.whole(key))), 1)
    return layer % every == 0 and (layer + 1) % step == 0


def _numbers(config: Configuration, key: str) -> Sequence[object]:
    """Return the numbers of a list; Step-3 writes them as one text."""
    spelled = [int(part) for part in config.text(key).split(",") if part.strip().isdecimal()]
    return spelled or config.lists(key)


def _parameters(shape: Transformer, config: Configuration, family: Family) -> float:
    """Count a shape's matrices, with the norms, biases and positions of its family."""
    given = {
        **family,
        **_fields(shape),
        "biased": family["attention_bias"],
        "matrices": count_parameters(shape).total - (2 * shape.layers + 1) * shape.hidden,
    }
    functions: Mapping[str, Callable[..., Any]] = {
        **FUNCTIONS,
        "has_bias": partial(_has_bias, config, family),
        "shared_width": partial(_shared_width, config, family),
    }
    row = formula_rows("families")["parameters"]
    return float(Formulas(row, config, given, functions)["total"])


def _fields(shape: Transformer) -> dict[str, Any]:
    widths = ("head_width", "key_value_heads", "ffn_width")
    return asdict(shape) | {name: getattr(shape, name) for name in widths}


def _has_bias(config: Configuration, family: Family, switch: str) -> bool:
    """Whether a family has a bias: always, or by its configuration."""
    if switch == "all":
        return True
    return bool(switch) and config.is_set(switch, otherwise=switch in family["switched_on"])


def state_scale(config: Configuration, key: str, otherwise: str) -> int:
    """Return how many numbers of 16 bits an element of a recurrent state takes."""
    state_format = config.text(key) or otherwise
    if state_format not in _SCALES:
        raise wrong(key, f"'{state_format}' is not known", f"take one of {', '.join(_SCALES)}")
    return _SCALES[state_format]


def present_kinds(*kinds: LayerKind) -> tuple[LayerKind, ...]:
    """Return the kinds that have layers."""
    return tuple(kind for kind in kinds if kind.layers)


def with_special_layers(shape: Transformer, config: Configuration) -> Transformer:
    """Return the shape with what its family adds, and with linear attention if a file has it.

    The input shape counts full attention in every layer.
    """
    rows = formula_rows("shapes")
    kinds = (_LINEAR,) if config.whole("linear_num_value_heads") is not None else ()
    for kind in (*kinds, config.text("model_type")):
        if kind in rows:
            shape = _special(shape, config, rows[kind])
    return shape


def _special(shape: Transformer, config: Configuration, row: Mapping[str, Any]) -> Transformer:
    functions: Mapping[str, Callable[..., Any]] = {
        **FUNCTIONS,
        "attention_of": lambda heads: attention_parameters(replace(shape, kv_heads=heads)),
        "get": _within,
        "indexer": TokenIndexer,
        "kind": LayerKind,
        "kinds": present_kinds,
        "state_scale": partial(state_scale, config),
        "whole_within": partial(_whole_within, config),
    }
    given = {**_fields(shape), "attention": attention_parameters(shape)}
    formulas = Formulas(row, config, given, functions)
    fields = formulas.results("shape")
    return replace(shape, parameters=(shape.parameters or 0.0) + formulas["adds"], **fields)


def _within(block: object, part: str, key: str) -> object:
    inner = block.get(part) if isinstance(block, Mapping) else None
    return inner.get(key) if isinstance(inner, Mapping) else None


def _whole_within(config: Configuration, key: str, inner: str) -> int | None:
    """Return a number of the first part of a part."""
    parts = (part for part in config.part(key).values() if isinstance(part, Mapping))
    return Configuration(next(parts, {})).whole(inner)
