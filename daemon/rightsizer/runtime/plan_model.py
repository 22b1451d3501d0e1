"""The model of a requirement: described in the plan, or read from a `config.json` on disk."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rightsizer.catalogue.row import Row, shown
from rightsizer.domain.errors import RequirementError
from rightsizer.runtime.config_file import parsed_config, told_of
from rightsizer.runtime.diffusers_folder import INDEX, read_diffusers
from rightsizer.runtime.plan_row import read_fields
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    Model,
    Recommender,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.number_format import NumberFormat
from rightsizer.sizing.parameters import count_parameters
from rightsizer.sizing.published.diffusion.diffusers import AskedImage, is_of_diffusers
from rightsizer.sizing.published.hugging_face import read_config
from rightsizer.sizing.shape import TransformerDescription, complete, shape_notes

__all__ = ["CONFIG_KEYS", "KINDS", "ModelRow", "PlannedModel", "read_model_row"]

_MOST_PARAMETERS: Final = 1e18
_FAR: Final = 2.0
"""So many times as many parameters, or as few, are not those of the same model."""

KINDS: Final[dict[str, type]] = {
    "transformer": TransformerDescription,
    "cnn": ConvolutionalNetwork,
    "vit": VisionTransformer,
    "diffusion": Diffusion,
    "recommender": Recommender,
}
_OF_IMAGES: Final = ("image", "steps", "guided")
_BESIDE_CONFIG: Final = ("config", "kind", "name", "parameters", "active_parameters")
CONFIG_KEYS: Final = (*_BESIDE_CONFIG, *_OF_IMAGES)
"""What may be said of a model that is read from its configuration."""


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A model, and what its configuration says beside."""

    model: Model
    weights: NumberFormat | None = None
    context_tokens: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelRow:
    """What a requirement says of its model; each value by itself is in order."""

    kind: type
    values: dict[str, Any]
    config: str = ""

    def build(self, folder: Path) -> PlannedModel:
        """The model itself.

        Args:
            folder: What the path of a configuration starts from.

        Raises:
            RequirementError: it contradicts itself, or its configuration cannot be read.
        """
        if self.config:
            return _published(folder / Path(self.config).expanduser(), self.values)
        if self.kind is TransformerDescription:
            model = complete(TransformerDescription(**self.values))
            return PlannedModel(model, notes=tuple(shape_notes(model)))
        return PlannedModel(self.kind(**self.values))


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
    values = read_fields(model, AskedImage, beside=_BESIDE_CONFIG)
    values["name"] = model.text("name") or ""
    for key in ("parameters", "active_parameters"):
        number = model.number(key, 1.0, _MOST_PARAMETERS)
        if number is not None:
            values[key] = number
    return ModelRow(KINDS[kind], values, model.needed_text("config"))


def _published(path: Path, values: dict[str, Any]) -> PlannedModel:
    file = _file_of(path)
    parsed = parsed_config(file)
    changes = {key: value for key, value in values.items() if key not in {"name", *_OF_IMAGES}}
    if file.name == INDEX or is_of_diffusers(parsed):
        asked = AskedImage(**{key: values[key] for key in _OF_IMAGES if key in values})
        diffusion = read_diffusers(file, parsed, asked, values["name"])
        changes.pop("active_parameters", None)
        painter = replace(diffusion.model, **changes)
        return PlannedModel(painter, diffusion.weights, notes=diffusion.notes)
    _refuse_of_images(values)
    with told_of(file):
        published = read_config(parsed, values["name"])
    model = published.model
    if not isinstance(model, Transformer):
        changes.pop("active_parameters", None)
    elif "parameters" in changes:
        changes["parameters"] = _of_layers(changes["parameters"], model.unread.total)
    changed = replace(model, **changes)
    notes = (*published.notes, *_count_notes(model, changed))
    return PlannedModel(changed, published.weights, published.context_tokens, notes)


def _count_notes(published: Model, changed: Model) -> Iterator[str]:
    """A sentence, where a count that is given is far from what the configuration makes."""
    counted, given = count_parameters(published).total, count_parameters(changed).total
    if not counted / _FAR < given < counted * _FAR:
        yield (
            f"{given:.3g} parameters are given, and the config makes {counted:.3g}: the former"
            " stand; correct one of them, or leave model.parameters out"
        )


def _file_of(path: Path) -> Path:
    """What is read of a folder: the index of a pipeline where there is one."""
    if not path.is_dir():
        return path
    index = path / INDEX
    return index if index.is_file() else path / "config.json"


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
