"""Model of a requirement: described in the plan file, or read from a `config.json` on disk."""

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_type_hints

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


def read_choice(row: Row, key: str, choices: type[_Choice]) -> _Choice | None:
    """One of some words, `None` where it is absent."""
    value = row.values.get(key)
    if value is None:
        return None
    known = [str(each) for each in choices]
    if isinstance(value, str) and value in known:
        return choices(value)
    near = near_words(str(value), known)
    hint = f"did you mean '{near[0]}'? Known are" if near else "take one of"
    row.fault(key, f"{shown(value)} is not known; {hint} {', '.join(known)}")
    return None


def read_choices(row: Row, choices: Mapping[str, type[StrEnum]]) -> dict[str, Any]:
    """What a row says of some keys, each one of some words; those left out are absent."""
    found = {key: read_choice(row, key, kind) for key, kind in choices.items()}
    return {key: choice for key, choice in found.items() if choice is not None}


def read_fields(
    row: Row, kind: type, *, apart: Collection[str] = (), beside: Collection[str] = ()
) -> dict[str, Any]:
    """What a row says of the fields of a dataclass; those left out have their defaults.

    Fields in `apart` and keys in `beside`, which are no fields, are read elsewhere.
    """
    types = _types(kind)
    row.refuse_unknown((*types, *beside))
    values = {}
    for name, (kept, is_needed) in types.items():
        if name in apart:
            continue
        if row.values.get(name) is None:
            if is_needed:
                row.fault(name, "is required; give it as published")
            continue
        value = _value(row, name, kept)
        if value is not None:
            values[name] = value
    return values


def _value(row: Row, name: str, kept: type) -> Any:
    if kept is bool:
        value = row.values[name]
        if isinstance(value, bool):
            return value
        row.fault(name, f"must be true or false (got {shown(value)})")
        return None
    if kept is int:
        return row.count(name, -_MOST_COUNT, _MOST_COUNT)
    return row.number(name, -_MOST, _MOST) if kept is float else row.text(name)


@cache
def _types(kind: type) -> dict[str, tuple[type, bool]]:
    """The type of each field that is written in a file, and whether it has to be there."""
    hints = get_type_hints(kind)
    return {
        each.name: (
            next((part for part in get_args(hints[each.name]) if part is not NoneType), None)
            or hints[each.name],
            each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(kind)
        if each.name != "assumed"
    }


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
    if row.values.get("model") is None:
        row.fault("model", "is required; describe it, or name its config.json (model.config)")
        return ModelRow(TransformerDescription, {})
    named = row.values["model"]
    if isinstance(named, str):
        row.fault("model", f"is text ({shown(named)}); name a file on disk: {{config: PATH}}")
        return ModelRow(TransformerDescription, {})
    model = row.row("model")
    kind = model.values.get("kind", "transformer")
    if not isinstance(kind, str) or kind not in KINDS:
        model.fault("kind", f"'{kind}' is not known; take one of {', '.join(KINDS)}")
        return ModelRow(TransformerDescription, {})
    if "config" not in model.values:
        return ModelRow(KINDS[kind], read_fields(model, KINDS[kind], beside=("kind",)))
    from rightsizer.planner.models.diffusion.diffusers import RequestedImage  # noqa: PLC0415 - as below.

    values = read_fields(model, RequestedImage, beside=_BESIDE_CONFIG)
    values["name"] = model.text("name") or ""
    for key in ("parameters", "active_parameters"):
        number = model.number(key, 1.0, _MOST_PARAMETERS)
        if number is not None:
            values[key] = number
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
    _refuse_of_images(values)
    with errors_of(file):
        published = read_config(parsed, values["name"])
    model = published.model
    if not isinstance(model, Transformer):
        changes.pop("active_parameters", None)
    elif "parameters" in changes:
        changes["parameters"] = _of_layers(changes["parameters"], model.unread.total)
    changed = replace(model, **changes)
    notes = (*published.notes, *_count_notes(model, changed))
    return replace(published, model=changed, notes=notes)


def _count_notes(published: Model, changed: Model) -> Iterator[str]:
    """A sentence, where a count that is given is far from what the configuration makes."""
    counted, given = count_parameters(published).total, count_parameters(changed).total
    if not counted / _FAR < given < counted * _FAR:
        yield (
            f"{given:.3g} parameters are given, and the config makes {counted:.3g}: the former"
            " stand; correct one of them, or leave model.parameters out"
        )


def _refuse_of_images(values: dict[str, Any]) -> None:
    for key in _OF_IMAGES:
        if key in values:
            raise RequirementError(
                f"model.{key}: is said beside the config of a diffusion model alone; leave it out"
            )


def _of_layers(whole: float, unread: float) -> float:
    """What of a published count is not of parts beside the layers."""
    if unread >= whole:
        raise RequirementError(
            f"model.parameters: {whole:g}, but what sees or hears and tables alone make"
            f" {unread:.3g}; give those of the whole model, or leave them out"
        )
    return whole - unread
