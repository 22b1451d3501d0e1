"""The model of a requirement: described in the plan, or read from a `config.json` on disk."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rightsizer.catalogue.row import Row
from rightsizer.domain.errors import RequirementError
from rightsizer.edge.yaml import YamlError, load_yaml
from rightsizer.runtime.plan_row import read_fields
from rightsizer.sizing.hugging_face import read_config
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    Model,
    Recommender,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.number_format import NumberFormat
from rightsizer.sizing.shape import TransformerDescription, complete, shape_notes

__all__ = ["CONFIG_KEYS", "KINDS", "ModelRow", "PlannedModel", "read_model_row"]

_MOST_PARAMETERS: Final = 1e18

KINDS: Final[dict[str, type]] = {
    "transformer": TransformerDescription,
    "cnn": ConvolutionalNetwork,
    "vit": VisionTransformer,
    "diffusion": Diffusion,
    "recommender": Recommender,
}
CONFIG_KEYS: Final = ("config", "kind", "name", "parameters", "active_parameters")
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
    model = row.row("model")
    kind = model.values.get("kind", "transformer")
    if not isinstance(kind, str) or kind not in KINDS:
        model.fault("kind", f"'{kind}' is not known; take one of {', '.join(KINDS)}")
        return ModelRow(TransformerDescription, {})
    if "config" not in model.values:
        return ModelRow(KINDS[kind], read_fields(model, KINDS[kind], beside=("kind",)))
    model.refuse_unknown(CONFIG_KEYS)
    values: dict[str, Any] = {"name": model.text("name") or ""}
    for key in ("parameters", "active_parameters"):
        number = model.number(key, 1.0, _MOST_PARAMETERS)
        if number is not None:
            values[key] = number
    return ModelRow(KINDS[kind], values, model.needed_text("config"))


def _published(path: Path, values: dict[str, Any]) -> PlannedModel:
    file = path / "config.json" if path.is_dir() else path
    parsed = _parsed(file)
    try:
        published = read_config(parsed, values["name"])
    except RequirementError as error:
        raise RequirementError(f"model.config: {file}: {error}") from None
    model = published.model
    changes = {key: value for key, value in values.items() if key != "name"}
    if not isinstance(model, Transformer):
        changes.pop("active_parameters", None)
    changed = replace(model, **changes)
    longest = published.context_tokens
    return PlannedModel(changed, published.weights, longest, published.notes)


def _parsed(file: Path) -> dict[str, Any]:
    remedy = "name the config.json that comes with the model"
    try:
        data = load_yaml(file.read_text(encoding="utf-8-sig").replace("\t", " "), str(file)).data
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RequirementError(f"model.config: {file}: {reason}; {remedy}") from None
    except (UnicodeDecodeError, YamlError) as error:
        raise RequirementError(f"model.config: {file}: is no JSON: {error}; {remedy}") from None
    if not isinstance(data, dict):
        raise RequirementError(f"model.config: {file}: is no JSON object; {remedy}")
    return data
