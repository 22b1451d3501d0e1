"""Which layer of a hybrid is of which kind: named one by one, listed, or every so many."""

from collections.abc import Mapping, Sequence
from typing import Final

from rightsizer.model.errors import RequirementError
from rightsizer.planner.models.configuration import Configuration

ATTENTION: Final = "attention"
RECURRENT: Final = "recurrent"
HYBRID: Final = "hybrid"
FEED_FORWARD: Final = "mlp"
EXPERTS: Final = "moe"
_NAMES: Final = {
    "attention": ATTENTION,
    "full_attention": ATTENTION,
    "mamba": RECURRENT,
    "linear_attention": RECURRENT,
    "conv": RECURRENT,
    "recurrent": RECURRENT,
    "hybrid": HYBRID,
    "mlp": FEED_FORWARD,
    "moe": EXPERTS,
}
_NAMED_BY: Final = ("layer_types", "layers_block_type")
_MOST: Final = 10_000

Kinds = tuple[str, ...]


def layer_count(config: Configuration, key: str = "num_hidden_layers") -> int:
    """How many layers there are.

    Raises:
        RequirementError: none, or more than any model has.
    """
    count = config.needed(key)
    if count > _MOST:
        raise RequirementError(
            f"config.json: {key}: {count} is more than any model has; take the file as published"
            " with the model"
        )
    return count


def named_layers(
    config: Configuration, allowed: Sequence[str], keys: Sequence[str] = _NAMED_BY
) -> Kinds | None:
    """The kind of each layer where the configuration names them, `None` where it does not.

    Raises:
        RequirementError: it names another kind, or two lists differ.
    """
    found: dict[str, Kinds] = {}
    for key in keys:
        value = config.values.get(key)
        if value is None:
            continue
        if not isinstance(value, list | tuple) or not value:
            raise RequirementError(f"config.json: {key}: {value!r} is no list of kinds of layers")
        kinds = tuple(_NAMES.get(item, "") if isinstance(item, str) else "" for item in value)
        strange = [item for item, kind in zip(value, kinds, strict=True) if kind not in allowed]
        if strange:
            raise RequirementError(
                f"config.json: {key}: {strange[0]!r} is no kind of layer of this model"
            )
        found[key] = kinds
    if not found:
        return None
    (first, known), *others = found.items()
    for key, kinds in others:
        agreed(key, kinds, known, first)
    return known


def naming_key(config: Configuration) -> str:
    """The key that names layers, or the one that would."""
    return next((key for key in _NAMED_BY if config.values.get(key) is not None), _NAMED_BY[0])


def spelled_layers(config: Configuration, key: str, letters: Mapping[str, str]) -> Kinds | None:
    """The kind of each layer by a letter, `None` where there is no text.

    Raises:
        RequirementError: a letter is not known.
    """
    text = config.text(key)
    if not text:
        return None
    strange = [letter for letter in text if letter not in letters]
    if strange:
        raise RequirementError(
            f"config.json: {key}: '{strange[0]}' is none of {' '.join(letters)}; take the file as"
            " published with the model"
        )
    return tuple(letters[letter] for letter in text)


def listed_layers(
    config: Configuration, key: str, layers: int, listed: str, other: str
) -> Kinds | None:
    """Those of a list of places are of one kind, all others of the other; `None` where it is not.

    Raises:
        RequirementError: a place is none of a layer, or is listed twice.
    """
    value = config.values.get(key)
    if value is None:
        return None
    given = value if isinstance(value, list | tuple) else (None,)
    places = {item for item in given if _is_place(item, layers)}
    if len(places) != len(given):
        raise RequirementError(
            f"config.json: {key}: {value!r} is no list of places of {layers} layers, each once"
        )
    return tuple(listed if layer in places else other for layer in range(layers))


def periodic_layers(config: Configuration, name: str, layers: int) -> tuple[bool, ...]:
    """Whether each layer is one of those that come every so many, from an offset on.

    Raises:
        RequirementError: the offset is not below the period.
    """
    period, offset = config.needed(f"{name}_layer_period"), config.whole(f"{name}_layer_offset")
    if (offset or 0) >= period:
        raise RequirementError(
            f"config.json: {name}_layer_offset: {offset} is not below {name}_layer_period:"
            f" {period}; take the file as published with the model"
        )
    return tuple(layer % period == (offset or 0) for layer in range(layers))


def agreed(key: str, kinds: Kinds, known: Kinds, beside: str) -> Kinds:
    """The kinds that a key tells, which are those known from another.

    Raises:
        RequirementError: they are not.
    """
    if len(kinds) != len(known):
        raise RequirementError(
            f"config.json: {key}: tells of {len(kinds)} layers, {beside} of {len(known)};"
            " correct one of them"
        )
    for layer, (one, other) in enumerate(zip(kinds, known, strict=True)):
        if one != other:
            raise RequirementError(
                f"config.json: {key}: layer {layer} is {one}, but {other} by {beside};"
                " correct one of them"
            )
    return kinds


def for_all(key: str, kinds: Kinds, layers: int) -> Kinds:
    """The kinds that a key tells, which are those of all layers.

    Raises:
        RequirementError: they are of more or fewer.
    """
    if len(kinds) != layers:
        raise RequirementError(
            f"config.json: {key}: tells of {len(kinds)} layers, num_hidden_layers of {layers};"
            " correct one of them"
        )
    return kinds


def _is_place(item: object, layers: int) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and 0 <= item < layers
