"""Hybrids of recurrent layers and attention: the kind of each layer, and its size."""

import math
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.configuration import AS_PUBLISHED, MODEL_TYPES, Configuration, wrong
from rightsizer.planner.requirement_checks import check_model
from rightsizer.sizing.models import LayerKind, Transformer
from rightsizer.sizing.parameters import attention_parameters

ATTENTION: Final = "attention"
RECURRENT: Final = "recurrent"
_NAMED_BY: Final = ("layer_types", "layers_block_type")
_CORRECT: Final = "correct one of them"
_MOST: Final = 10_000

Kinds = tuple[str, ...]
_AUTOMATIC: Final = (None, "auto")
_RANK_RATIO: Final = 16


def layer_count(config: Configuration) -> int:
    """Return the number of layers."""
    count = config.needed("num_hidden_layers")
    if count > _MOST:
        raise wrong("num_hidden_layers", f"{count} is more than any model has")
    return count


def layer_pattern(
    config: Configuration, layers: int, key: str = "", *, marked: str = ATTENTION, usual: Kinds = ()
) -> Kinds:
    """Return the kind of each layer, by name or by a list of the indices of marked ones.

    `marked` is the kind other than plain recurrence, `key` that of its list, `usual` the default
    of the configuration: recurrence in all layers.
    """
    named = named_layers(config, (marked, RECURRENT))
    listed = _listed_layers(config, key, layers, marked)
    if named and listed:
        check_agreement(key, listed, named, naming_key(config))
    kinds = named or listed or usual or (RECURRENT,) * layers
    return check_layer_count(naming_key(config), kinds, layers)


def named_layers(config: Configuration, allowed: Sequence[str]) -> Kinds | None:
    """Return the kind of each layer if the configuration names them, else `None`."""
    found: dict[str, Kinds] = {}
    for key in _NAMED_BY:
        value = config.values.get(key)
        if value is None:
            continue
        if not isinstance(value, list | tuple) or not value:
            raise wrong(key, f"{value!r} is no list of kinds of layers", "")
        known = MODEL_TYPES["layers"]
        kinds = tuple(known.get(item, "") if isinstance(item, str) else "" for item in value)
        for item, kind in zip(value, kinds, strict=True):
            if kind not in allowed:
                raise wrong(key, f"{item!r} is no kind of layer of this model", "")
        found[key] = kinds
    if not found:
        return None
    (first, first_kinds), *others = found.items()
    for key, kinds in others:
        check_agreement(key, kinds, first_kinds, first)
    return first_kinds


def naming_key(config: Configuration) -> str:
    """Return the key that names layers, or the expected one."""
    return next((key for key in _NAMED_BY if config.values.get(key) is not None), _NAMED_BY[0])


def _listed_layers(config: Configuration, key: str, layers: int, marked: str) -> Kinds | None:
    """Mark the layers in a list of indices, all others recurrent; `None` without the list."""
    value = config.values.get(key)
    if value is None:
        return None
    given = value if isinstance(value, list | tuple) else (None,)
    places = {item for item in given if type(item) is int and 0 <= item < layers}
    if len(places) != len(given):
        raise wrong(key, f"{value!r} is no list of places of {layers} layers, each once", "")
    return tuple(marked if layer in places else RECURRENT for layer in range(layers))


def periodic_layers(config: Configuration, name: str, layers: int) -> tuple[bool, ...]:
    """Return which layers are at every period from an offset on."""
    period = config.needed(f"{name}_layer_period")
    offset = config.whole(f"{name}_layer_offset")
    if (offset or 0) >= period:
        raise wrong(f"{name}_layer_offset", f"{offset} is not below {name}_layer_period: {period}")
    return tuple(layer % period == (offset or 0) for layer in range(layers))


def check_agreement(key: str, kinds: Kinds, known: Kinds, beside: str) -> None:
    """Raise if kinds contradict those known from another key."""
    check_layer_count(key, kinds, len(known), beside)
    for layer, (one, other) in enumerate(zip(kinds, known, strict=True)):
        if one != other:
            raise wrong(key, f"layer {layer} is {one}, but {other} by {beside}", _CORRECT)


def check_layer_count(
    key: str, kinds: Kinds, layers: int, beside: str = "num_hidden_layers"
) -> Kinds:
    """Return the kinds in a key; raise unless they cover all layers of another key."""
    if len(kinds) != layers:
        raise wrong(key, f"tells of {len(kinds)} layers, {beside} of {layers}", _CORRECT)
    return kinds


def inner_width(config: Configuration, expansion: str) -> int:
    """Return a multiple of the layer's width, as an integer."""
    times = config.number(expansion, config.defaults[expansion])
    return max(1, int(times * config.needed("hidden_size")))


def head_width(config: Configuration, heads_key: str, key: str, inner: int) -> int:
    """Return the width of one head: as stated, or the total divided by their number."""
    heads = config.needed(heads_key)
    if inner % heads:
        raise wrong(heads_key, f"{heads} heads do not divide {inner} channels")
    if config.values.get(key) in _AUTOMATIC:
        return inner // heads
    width = config.needed(key)
    if width * heads != inner:
        remedy = f"correct one of {key}, {heads_key}, or what tells how many channels there are"
        raise wrong(key, f"{heads} heads of {width} are not {inner} channels", remedy)
    return width


class Mixer(Struct, frozen=True):
    """Recurrent mixer of one layer."""

    parameters: int
    state_elements: int
    """Per request of any length, in 16-bit numbers."""
    inputs: int
    """Elements per token produced by its first projections."""
    width: int
    """Elements per token output by the recurrence."""

    def kind(self, layers: int, **parts: Any) -> LayerKind:
        """Return the kind of this many layers with it."""
        return LayerKind(layers, recurrent_inputs=self.inputs, recurrent_width=self.width, **parts)


def mamba_mixer(
    config: Configuration,
    inner: int,
    keys: tuple[str, str, str],
    biases: tuple[str, str],
    *,
    has_norms: bool = False,
) -> Mixer:
    """Mixer with a state per inner channel (arXiv:2312.00752, section 3.4).

    `keys`: width of the state, rank of the time steps, and length of the convolution; `biases`:
    keys that give projections a bias, and the convolution; `has_norms`: of time steps, and of
    the state's input and output, as in Jamba.
    """
    hidden, (state_key, rank_key, reach_key) = config.needed("hidden_size"), keys
    state = config.needed(state_key)
    reach = config.needed(reach_key)
    is_usual = config.values.get(rank_key) in _AUTOMATIC
    rank = math.ceil(hidden / _RANK_RATIO) if is_usual else config.needed(rank_key)
    count = 3 * hidden * inner + inner * (rank + 2 * state) + rank * inner
    count += inner * (reach + (1 if config.is_set(biases[1], otherwise=True) else 0))
    # Bias of the time step, decay of each element, and skip connection.
    count += inner * (state + 2)
    count += 2 * inner + hidden if config.is_set(biases[0]) else 0
    count += rank + 2 * state if has_norms else 0
    return Mixer(count, inner * (state + reach - 1), 2 * inner, inner)


def mamba2_mixer(  # noqa: PLR0913 - the last two are usual in all classes but one each.
    config: Configuration,
    head_dim: int,
    keys: tuple[str, str, str, str],
    biases: tuple[str, str, str],
    *,
    has_norm: bool = True,
    state_scale: int = 1,
) -> Mixer:
    """Mixer with a state per head, head width by state width (arXiv:2405.21060, section 7).

    `keys`: of the heads, of their groups that share the state's input and output, of the state's
    width, and of the length of the convolution; `biases`: keys that give the first projections a
    bias, the last, and the convolution; `has_norm`: before the last projection; `state_scale`:
    16-bit numbers per element of the state.
    """
    hidden = config.needed("hidden_size")
    heads, groups, state, reach = map(config.needed, keys)
    inner = heads * head_dim
    convolved = inner + 2 * groups * state
    inputs = inner + convolved + heads
    count = hidden * (inputs + inner)
    count += convolved * (reach + (1 if config.is_set(biases[2], otherwise=True) else 0))
    # Bias of the time step, decay, and skip connection.
    count += 3 * heads + (inner if has_norm else 0)
    count += inputs if config.is_set(biases[0]) else 0
    count += hidden if config.is_set(biases[1]) else 0
    state_elements = state_scale * inner * state + convolved * (reach - 1)
    return Mixer(count, state_elements, inputs, inner)


def attention_shape(
    config: Configuration, name: str, layers: int, *, is_tied: bool = False, **parts: Any
) -> Transformer:
    """Return the shape of a model by its attention and ends; `parts` are its other fields."""
    heads = config.needed("num_attention_heads")
    keys = "num_key_value_heads"
    is_null = keys in config.values and config.values[keys] is None
    shape = Transformer(
        layers=layers,
        hidden=config.needed("hidden_size"),
        heads=heads,
        vocab=config.needed("vocab_size"),
        name=name,
        kv_heads=heads if is_null else config.whole(keys) or heads,
        head_dim=config.whole("head_dim"),
        tied_embeddings=config.is_set("tie_word_embeddings", otherwise=is_tied),
    )
    check_model(shape)
    return replace(shape, **parts)


def alternating_layers(
    shape: Transformer, attending: int, mixer: Mixer, feed_forwards: float
) -> Transformer:
    """Return the shape with either attention or a mixer per layer, and a feed-forward part.

    `feed_forwards`: parameters of all layers together.
    """
    kinds = (LayerKind(attending, has_attention=True), mixer.kind(shape.layers - attending))
    return with_layer_kinds(shape, kinds, mixer, feed_forwards)


def with_layer_kinds(
    shape: Transformer,
    kinds: Sequence[LayerKind],
    mixer: Mixer,
    feed_forwards: float,
    beside: float = 0.0,
) -> Transformer:
    """Return the shape with parameters and state of its kinds of layers.

    `feed_forwards`: parameters of all layers together; `beside`: of everything else but ends and
    norms.
    """
    present = tuple(kind for kind in kinds if kind.layers)
    attending = sum(kind.layers for kind in present if kind.has_attention)
    recurrent = sum(kind.layers for kind in present if kind.recurrent_inputs)
    if not attending + recurrent:
        fault = "no layer has attention or a state"
        raise RequirementError(f"config.json: {fault}; {AS_PUBLISHED}")
    norms = 1 + sum(kind.layers * kind.parts for kind in present)
    total = shape.vocab * shape.hidden * (1 if shape.tied_embeddings else 2)
    total += norms * shape.hidden + recurrent * mixer.parameters
    if shape.attention_bias:
        total += attending * shape.hidden  # Of attention's output.
    attention = attending * attention_parameters(shape) if attending else 0.0
    return replace(
        shape,
        parameters=total + attention + feed_forwards + beside,
        cached_layers=attending,
        state_elements=float(recurrent * mixer.state_elements),
        layer_kinds=present,
    )


def with_chosen_experts(
    shape: Transformer, config: Configuration, layers: int, expert: float, **parts: Any
) -> Transformer:
    """Return the shape of a mixture of experts, with the parameters one token passes.

    `layers`: number with experts; `expert`: parameters of one; `parts`: fields of the shape.
    """
    shape = replace(shape, experts_per_token=config.needed("num_experts_per_tok"), **parts)
    check_model(shape)
    idle = layers * (shape.experts - shape.experts_per_token) * expert
    return replace(shape, active_parameters=(shape.parameters or 0.0) - idle)


def feed_forward(hidden: int, ffn: int, *, is_gated: bool = True, has_bias: bool = False) -> int:
    """Return the parameters of one layer's feed-forward part."""
    inner = 2 if is_gated else 1
    return (inner + 1) * hidden * ffn + (inner * ffn + hidden if has_bias else 0)
