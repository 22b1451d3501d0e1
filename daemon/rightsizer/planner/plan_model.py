"""Model of a requirement: described in the plan file, or read from a `config.json` on disk."""

from collections.abc import Collection
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from rightsizer.config.row import Row, shown
from rightsizer.io.near import near_words
from rightsizer.model.errors import RequirementError
from rightsizer.model.frozen import MISSING, dataclass, fields, replace
from rightsizer.planner.models.published import PublishedModel
from rightsizer.planner.transformer_shape import (
    TransformerDescription,
    completed_shape,
    shape_notes,
)
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    Model,
    RecommenderModel,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import count_parameters

_Choice = TypeVar("_Choice", bound=StrEnum)
_MOST: Final = 1e30
_MOST_COUNT: Final = 10**15
_MOST_PARAMETERS: Final = 1e18
_FAR: Final = 2.0
"""So many times as many parameters, or as few, are not those of the same model."""
KINDS: Final[dict[str, type]] = {
    "transformer": TransformerDescription,
    "cnn": ConvolutionalNetwork,
    "vit": VisionTransformer,
    "diffusion": Diffusion,
    "recommender": RecommenderModel,
}
_OF_IMAGES: Final = ("image", "steps", "guided")
_BESIDE_CONFIG: Final = ("config", "kind", "name", "parameters", "active_parameters")
CONFIG_KEYS: Final = (*_BESIDE_CONFIG, *_OF_IMAGES)
"""What may be said of a model that is read from its configuration."""


def read_choice(row: Row, key: str, choices: type[_Choice]) -> _Choice | None:
    """One of some words, `None` where it is absent."""
    if key not in row:
        return None
    value = row.values[key]
    known = [str(each) for each in choices]
    if isinstance(value, str) and value in known:
        return choices(value)
    near = near_words(str(value), known)
    hint = f"did you mean '{near[0]}'? Known are" if near else "take one of"
    row.fault(key, f"{shown(value)} is not known; {hint} {', '.join(known)}")
    return None


def read_fields(row: Row, kind: type, beside: Collection[str] = ()) -> dict[str, Any]:
    """What a row says of the fields of a dataclass; those left out have their defaults.

    Keys in `beside`, which are no fields, are read elsewhere.
    """
    types = _types(kind)
    row.refuse_unknown((*types, *beside))
    values = {}
    for name, (kept, is_needed) in types.items():
        if name not in row and is_needed:
            row.fault(name, "is required; give it as published")
        value = _value(row, name, kept) if name in row else None
        if value is not None:
            values[name] = value
    return values


def _value(row: Row, name: str, kept: Any) -> Any:
    if get_origin(kept) is tuple:
        return row.texts(name)
    if issubclass(kept, StrEnum):
        return read_choice(row, name, kept)
    if kept is bool:
        value = row.values[name]
        if not isinstance(value, bool):
            row.fault(name, f"must be true or false (got {shown(value)})")
        return value if isinstance(value, bool) else None
    if kept is int:
        return row.count(name, -_MOST_COUNT, _MOST_COUNT)
    return row.number(name, -_MOST, _MOST) if kept is float else row.text(name)


@cache
def _types(kind: type) -> dict[str, tuple[Any, bool]]:
    """The type of each field that is written in a file, and whether it has to be there."""
    hints, types = get_type_hints(kind), {}
    for each in fields(kind):
        hint = hints[each.name]
        kept = get_args(hint)[0] if NoneType in get_args(hint) else hint
        is_needed = each.default is MISSING and each.default_factory is MISSING
        types[each.name] = kept, is_needed
    return types


@dataclass(frozen=True, slots=True)
class ModelRow:
    """What a requirement says of its model; each value by itself is in order."""

    kind: type
    values: dict[str, Any]
    config: str = ""

    def build(self, folder: Path) -> PublishedModel[Model]:
        """The model itself.

        The path of a configuration starts from `folder`.

        Raises:
            RequirementError: it contradicts itself, or its configuration cannot be read.
        """
        if self.config:
            return _published(folder / Path(self.config).expanduser(), self.values)
        if self.kind is TransformerDescription:
            model = completed_shape(TransformerDescription(**self.values))
            return PublishedModel(model, notes=tuple(shape_notes(model)))
        return PublishedModel(self.kind(**self.values))


def read_model_row(row: Row) -> ModelRow:
    """The model of a requirement; what is wrong with single keys goes to the row's faults."""
    named = row.values.get("model")
    if named is None:
        row.fault("model", "is required; describe it, or name its config.json (model.config)")
    elif isinstance(named, str):
        row.fault("model", f"is text ({shown(named)}); name a file on disk: {{config: PATH}}")
    if named is None or isinstance(named, str):
        return ModelRow(TransformerDescription, {})
    model = row.row("model")
    kind = model.values.get("kind", "transformer")
    if not isinstance(kind, str) or kind not in KINDS:
        model.fault("kind", f"'{kind}' is not known; take one of {', '.join(KINDS)}")
        return ModelRow(TransformerDescription, {})
    if "config" not in model.values:
        return ModelRow(KINDS[kind], read_fields(model, KINDS[kind], ("kind",)))
    from rightsizer.planner.models.diffusion.diffusers import RequestedImage  # noqa: PLC0415 - as below.

    values = read_fields(model, RequestedImage, _BESIDE_CONFIG)
    values["name"] = model.text("name") or ""
    counts = ("parameters", "active_parameters")
    numbers = {key: model.number(key, 1.0, _MOST_PARAMETERS) for key in counts}
    values |= {key: number for key, number in numbers.items() if number is not None}
    return ModelRow(KINDS[kind], values, model.needed_text("config"))


def _published(path: Path, values: dict[str, Any]) -> PublishedModel[Model]:
    # Readers of published configurations: half of what a plan without one would load.
    from rightsizer.planner.models.diffusion.diffusers import RequestedImage, is_of_diffusers  # noqa: PLC0415
    from rightsizer.planner.models.hugging_face import read_config  # noqa: PLC0415
    from rightsizer.planner.models.model_folder import (  # noqa: PLC0415
        INDEX,
        errors_of,
        parsed_config,
        read_diffusers,
    )

    file = path
    if path.is_dir():
        index = path / INDEX
        file = index if index.is_file() else path / "config.json"
    parsed = parsed_config(file)
    changes = {key: value for key, value in values.items() if key not in {"name", *_OF_IMAGES}}
    if file.name == INDEX or is_of_diffusers(parsed):
        asked = RequestedImage(**{key: values[key] for key in _OF_IMAGES if key in values})
        diffusion = read_diffusers(file, parsed, asked, values["name"])
        changes.pop("active_parameters", None)
        return replace(diffusion, model=replace(diffusion.model, **changes))
    for key in _OF_IMAGES:
        if key in values:
            raise RequirementError(
                f"model.{key}: is said beside the config of a diffusion model alone; leave it out"
            )
    with errors_of(file):
        published = read_config(parsed, values["name"])
    model = published.model
    if not isinstance(model, Transformer):
        changes.pop("active_parameters", None)
    elif "parameters" in changes:
        whole, unread = changes["parameters"], model.unread.total
        if unread >= whole:
            raise RequirementError(
                f"model.parameters: {whole:g}, but what sees or hears and tables alone make"
                f" {unread:.3g}; give those of the whole model, or leave them out"
            )
        changes["parameters"] = whole - unread
    changed = replace(model, **changes)
    counted, given = count_parameters(model).total, count_parameters(changed).total
    far = (
        f"{given:.3g} parameters are given, and the config makes {counted:.3g}: the former stand;"
        " correct one of them, or leave model.parameters out"
    )
    is_near = counted / _FAR < given < counted * _FAR
    notes = published.notes if is_near else (*published.notes, far)
    return replace(published, model=changed, notes=notes)
