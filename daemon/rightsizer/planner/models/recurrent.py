"""Models with a recurrent state per request: the kind of each layer, and its size."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from rightsizer.planner.models.configuration import MODEL_TYPES, Configuration, wrong
from rightsizer.planner.models.family import present_kinds, state_scale
from rightsizer.planner.models.formulas import FUNCTIONS, Formulas, formula_rows
from rightsizer.sizing.models import LayerKind, Transformer

ATTENTION: Final = "attention"
RECURRENT: Final = "recurrent"
_PATTERN: Final = "hybrid_override_pattern"
_LETTERS: Final = {"M": RECURRENT, "*": ATTENTION, "-": "mlp", "E": "moe"}
_USUAL: Final = (RECURRENT, "moe", ATTENTION, "mlp")
_NAMED_BY: Final = ("layer_types", "layers_block_type")
_CORRECT: Final = "correct one of them"

Kinds = tuple[str, ...]
_AUTOMATIC: Final = (None, "auto")


def layer_pattern(
    config: Configuration, layers: int, key: str, *, marked: str = ATTENTION, usual: Kinds = ()
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
    kinds_by_key: dict[str, Kinds] = {}
    for key in _NAMED_BY:
        value = config.values.get(key)
        if value is None:
            continue
        if not isinstance(value, list | tuple) or not value:
            raise wrong(key, f"{value!r} is no list of kinds of layers", "")
        kind_names = MODEL_TYPES["layers"]
        kinds = tuple(kind_names.get(item, "") if isinstance(item, str) else "" for item in value)
        for item, kind in zip(value, kinds, strict=True):
            if kind not in allowed:
                raise wrong(key, f"{item!r} is no kind of layer of this model", "")
        kinds_by_key[key] = kinds
    if not kinds_by_key:
        return None
    (first, first_kinds), *others = kinds_by_key.items()
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


def periodic_layers(config: Configuration, name: str, layers: int) -> Sequence[bool]:
    """Return which layers are at every period from an offset on."""
    period = config.needed(f"{name}_layer_period")
    offset = config.whole(f"{name}_layer_offset")
    if (offset or 0) >= period:
        raise wrong(f"{name}_layer_offset", f"{offset} is not below {name}_layer_period: {period}")
    return tuple(layer % period == (offset or 0) for layer in range(layers))


def check_agreement(key: str, kinds: Kinds, reference_kinds: Kinds, beside: str) -> None:
    """Raise if kinds contradict those known from another key."""
    check_layer_count(key, kinds, len(reference_kinds), beside)
    for layer, (one, other) in enumerate(zip(kinds, reference_kinds, strict=True)):
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


def attending_periodically(config: Configuration, layers: int) -> Sequence[bool]:
    """Return which layers have attention by its period, as the layers are named if they are."""
    is_attending = periodic_layers(config, "attn", layers)
    if named := named_layers(config, (ATTENTION, RECURRENT)):
        periodic = tuple(ATTENTION if attends else RECURRENT for attends in is_attending)
        check_agreement(naming_key(config), named, periodic, "attn_layer_period")
    return is_attending


def lettered_pattern(config: Configuration) -> Kinds:
    """Return the kind of each layer, by name or by letter."""
    named = named_layers(config, _USUAL)
    letters = config.text(_PATTERN)
    for letter in letters:
        if letter not in _LETTERS:
            raise wrong(_PATTERN, f"'{letter}' is none of {' '.join(_LETTERS)}")
    spelled = tuple(_LETTERS[letter] for letter in letters)
    if named and spelled:
        check_agreement(_PATTERN, spelled, named, naming_key(config))
    pattern = named or spelled or _USUAL
    if config.whole("num_hidden_layers") is None:
        return pattern
    key = naming_key(config) if named or not spelled else _PATTERN
    return check_layer_count(key, pattern, config.needed("num_hidden_layers"))


def read_recurrent(given: Configuration, name: str) -> Transformer:
    """Return a model with a recurrent state per request: Mamba, its hybrids, and others."""
    row = formula_rows("recurrents")[given.text("model_type")]
    old = given.values
    renamed = {new: old[key] for key, new in row.get("renamed", {}).items() if key in old}
    config = replace(given, values={**renamed, **old})
    functions: Mapping[str, Callable[..., Any]] = {
        **FUNCTIONS,
        "attending_periodically": partial(attending_periodically, config),
        "expanded": partial(inner_width, config),
        "head_width_of": partial(head_width, config),
        "is_automatic": lambda key: config.values.get(key) in _AUTOMATIC,
        "is_named": partial(named_layers, config, (ATTENTION, RECURRENT)),
        "is_null": lambda key: config.values.get(key, key) is None,
        "kind": LayerKind,
        "kinds": present_kinds,
        "lettered_pattern": partial(lettered_pattern, config),
        "pattern": partial(layer_pattern, config),
        "periodic": partial(periodic_layers, config),
        "state_scale": partial(state_scale, config),
    }
    return Transformer(name=name, **Formulas(row, config, {}, functions).results("shape"))
