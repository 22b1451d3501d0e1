"""Model of a requirement: by name, size or description, or from a `config.json` file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.config.row import Row, shown
from rightsizer.model.errors import RequirementError
from rightsizer.model.units import parse_amount
from rightsizer.planner.models import PublishedModel
from rightsizer.planner.transformer_shape import (
    TransformerDescription,
    completed_shape,
    shape_notes,
)
from rightsizer.planner.value_row import read_fields
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    Model,
    RecommenderModel,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import count_parameters

if TYPE_CHECKING:
    from rightsizer.planner.models.known_models import KnownModel

_MOST: Final = 1e30
_MOST_PARAMETERS: Final = 1e18
INDEX: Final = "model_index.json"
ADAPTER: Final = "adapter_config.json"
MISTRAL: Final = "params.json"
_SIZE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) ?([mMbBtT])")
"""Model stated only by its size."""
_SIZE_WITHIN: Final = re.compile(r"\b\d{1,6}(?:\.\d{1,6})?[bB]\b")
_FAR: Final = 2.0
"""Ratio of parameters from which models count as different."""

KINDS: Final[dict[str, type]] = {
    **dict.fromkeys(("transformer", "encoder"), TransformerDescription),
    "cnn": ConvolutionalNetwork,
    "vit": VisionTransformer,
    "diffusion": Diffusion,
    "recommender": RecommenderModel,
}
_OF_IMAGES: Final = ("image", "steps", "guided", "frames")
BESIDE_CONFIG: Final = ("config", "kind", "name", "parameters", "active_parameters")


class ModelRow(Struct, frozen=True):
    """Model as stated in a requirement; each value is valid by itself."""

    values: dict[str, Any]
    kind: str = "transformer"
    config: str = ""
    asked: str = ""
    """Well-known model, size, or path, as one text."""

    def build(self, folder: Path) -> PublishedModel[Model]:
        """Build the model; relative configuration paths start at `folder`."""
        if self.config:
            return _of_file(folder / Path(self.config).expanduser(), self.values)
        if self.asked:
            return _named(self.asked, folder, self.values)
        if KINDS[self.kind] is not TransformerDescription:
            return PublishedModel(KINDS[self.kind](**self.values))
        # Encoder tokens attend both ways, and nothing is cached per request.
        usual = {"tied_embeddings": True} if self.kind == "encoder" else {}
        model = completed_shape(TransformerDescription(**{**usual, **self.values}))
        model = replace(model, cached_layers=0) if usual else model
        return PublishedModel(model, notes=tuple(shape_notes(model)))


def read_model_row(row: Row) -> ModelRow:
    """Read the model of a requirement; faults of single keys are added to the row's."""
    named = row.values.get("model")
    if isinstance(named, str) and named.strip():
        return ModelRow({}, asked=named.strip())
    if named is None and "parameters" in row:
        return ModelRow({"parameters": row.amount("parameters", 1, _MOST)})
    if named is None or isinstance(named, str):
        known = "a name like llama-3.1-70b, a size like 70B, {config: PATH}, or its shape"
        row.fault("model", f"is required: {known}")
        return ModelRow({})
    model = row.row("model")
    kind = model.values.get("kind", "transformer")
    if not isinstance(kind, str) or kind not in KINDS:
        model.fault("kind", f"'{kind}' is not known; take one of {', '.join(KINDS)}")
        return ModelRow({})
    is_named = "name" in model.values and not {*model.values} - {"name", *_OF_IMAGES}
    if "config" not in model.values and not is_named:
        return ModelRow(read_fields(model, KINDS[kind], ("kind",)), kind)
    from rightsizer.planner.models.diffusers import RequestedImage  # noqa: PLC0415 - as below.

    values = read_fields(model, RequestedImage, BESIDE_CONFIG)
    values["name"] = model.text("name") or ""
    if is_named:
        return ModelRow(values, asked=values.pop("name"))
    counts = ("parameters", "active_parameters")
    numbers = {key: model.amount(key, 1.0, _MOST_PARAMETERS) for key in counts}
    values |= {key: number for key, number in numbers.items() if number is not None}
    return ModelRow(values, kind, model.needed_text("config"))


def _named(asked: str, folder: Path, values: dict[str, Any]) -> PublishedModel[Model]:
    """Return a file or folder, a well-known model, or a dense decoder of that size."""
    from rightsizer.planner.models.known_models import (  # noqa: PLC0415 - as below.
        find_model,
        is_closed,
        near_models,
    )

    path = None if asked.lower().endswith(".gguf") else _published_files(asked, folder)
    if path is not None:
        return _of_file(path, {"name": path.resolve().name if path.is_dir() else "", **values})
    known = find_model(asked)
    if known is not None:
        return _of_known(known, values)
    size = _SIZE.fullmatch(asked)
    if size is not None and not values:
        return _of_size(parse_amount(f"{size[1]}{size[2]}"))
    is_path = asked.startswith((".", "/", "~")) and not asked.lower().endswith(".gguf")
    if asked.endswith(".json") or is_path:
        raise RequirementError(f"model: {shown(asked)}: there is no such file; check the path")
    if is_closed(asked):
        fault = f"{shown(asked)} is served by its maker alone, and its size is not published"
        raise RequirementError(f"model: {fault}; name an open model, or a size like 70B")
    near = near_models(asked)
    meant = f"did you mean {' or '.join(near)}? Else give" if near else "give"
    sized = _SIZE_WITHIN.findall(asked)
    alone = f"alone ({sized[-1].upper()})" if sized else "alone, like 70B"
    size_remedy = f"if it writes text, its size {alone}"
    fault = f"{shown(asked)} is none of the models that are known by name"
    raise RequirementError(f"model: {fault}; {meant} the path of its config.json or, {size_remedy}")


def _published_files(asked: str, folder: Path) -> Path | None:
    """Return the file or folder of a model that a text names; `None` if there is none."""
    try:
        path = folder / Path(asked).expanduser()
        places = (path, path / "0_Transformer")
        files = ("config.json", INDEX, ADAPTER, MISTRAL)
        found = (each for each in places if any((each / name).is_file() for name in files))
        return path if path.is_file() else next(found, None)
    except (OSError, RuntimeError, ValueError):
        return None  # Name too long, unknown user, or a zero byte.


def _of_size(parameters: float) -> PublishedModel[Model]:
    model = completed_shape(TransformerDescription(parameters=parameters))
    note = (
        f"only the size of the model is given: taken as a dense decoder of {model.layers} layers,"
        f" {model.hidden:,} wide, with {model.heads} heads over {model.kv_heads} of keys and values"
        f" and a vocabulary of {model.vocab:,}, as is usual; name the model for its own shape"
    )
    return PublishedModel(model, notes=(note,))


READING: Final = "no output tokens: sequences are encoded by the model without its head"


def reading_alone(model: Transformer) -> Transformer:
    """Return the model without text output: no cache, and no head."""
    whole = count_parameters(model)
    left = replace(model, cached_layers=0, tied_embeddings=True)
    return replace(left, parameters=whole.total - whole.head - model.unread.total)


def _of_known(known: KnownModel, values: dict[str, Any]) -> PublishedModel[Model]:
    config = dict(known.config)
    kind = KINDS.get(config.pop("kind", ""))
    if kind is not None and kind is not Diffusion:
        _refuse_images(values)
        return PublishedModel(kind(name=known.name, **config), notes=known.notes)
    if kind is None and INDEX not in config:
        read = _of_config(config, {"name": known.name, **values})
        notes = (*known.notes, *read.notes)
        model = read.model
        if known.is_reader and isinstance(model, Transformer) and not model.is_encoder:
            model = reading_alone(model)
            notes = (*notes, READING)
        return PublishedModel(model, known.weights or read.weights, read.context_tokens, notes)
    from rightsizer.planner.models import diffusers  # noqa: PLC0415

    if kind is Diffusion:
        model = Diffusion(**{"name": known.name, **config, **values})
        taken = diffusers.assumption_notes(model, diffusers.RequestedImage(**values))
        return PublishedModel(model, known.weights, notes=(*known.notes, *taken))
    parts = diffusers.pipeline_parts(config[INDEX])
    files = {part: Path(part) / "config.json" for part in config}
    usual = {key: config.get(key) for key in _OF_IMAGES}
    asked = diffusers.RequestedImage(**{**usual, **values})
    pipeline = diffusers.read_pipeline(parts, config, files, asked, known.name)
    notes = (*known.notes, *pipeline.notes)
    return replace(pipeline, weights=known.weights or pipeline.weights, notes=notes)


def _of_file(path: Path, values: dict[str, Any]) -> PublishedModel[Model]:
    # Readers of published configurations: half of the imports of a plan without one.
    from rightsizer.planner.models import diffusers  # noqa: PLC0415
    from rightsizer.planner.models.configuration import (  # noqa: PLC0415
        errors_of,
        of_mistral,
        parsed_config,
    )

    file = path
    if path.is_dir():
        names = (INDEX, "config.json", ADAPTER, MISTRAL)
        file = next((path / name for name in names if (path / name).is_file()), path / names[1])
    parsed = parsed_config(file)
    if file.name == ADAPTER:
        return _of_base(file, str(parsed.get("base_model_name_or_path")), values)
    if "dim" in parsed and "model_type" not in parsed:
        parsed = of_mistral(parsed)
    if file.name == INDEX or diffusers.is_of_diffusers(parsed):
        given = {key: values[key] for key in _OF_IMAGES if key in values}
        asked = diffusers.RequestedImage(**given)
        diffusion = diffusers.read_diffusers(file, parsed, asked, values["name"])
        changes = {key: values[key] for key in ("parameters",) if key in values}
        return replace(diffusion, model=replace(diffusion.model, **changes))
    with errors_of(file):
        return _of_config(parsed, values)


def _of_base(file: Path, base: str, values: dict[str, Any]) -> PublishedModel[Model]:
    """Return the model that an adapter's file names."""
    from rightsizer.planner.models.known_models import find_model  # noqa: PLC0415

    known = find_model(base)
    if known is None:
        fault = f"adapts {shown(base)}, which is not known by name; give the config.json of that"
        raise RequirementError(f"model.config: {file}: {fault}, with lora and adapters")
    read = _of_known(known, {key: value for key, value in values.items() if key != "name"})
    note = f"{file.name} adapts {base}, which is planned; lora and adapters say what it adds"
    return replace(read, notes=(note, *read.notes))


def _refuse_images(values: Mapping[str, Any]) -> None:
    for key in _OF_IMAGES:
        if key in values:
            fault = "is said beside the config of a diffusion model alone"
            raise RequirementError(f"model.{key}: {fault}; leave it out")


def _of_config(parsed: Mapping[str, Any], values: dict[str, Any]) -> PublishedModel[Model]:
    """Return the model of a parsed transformers file, with overrides of the plan."""
    from rightsizer.planner.models.hugging_face import read_config, read_image_tower  # noqa: PLC0415

    _refuse_images(values)
    published = read_image_tower(parsed, values["name"]) or read_config(parsed, values["name"])
    changes = {key: value for key, value in values.items() if key != "name"}
    model = published.model
    if not isinstance(model, Transformer):
        changes.pop("active_parameters", None)
    elif "parameters" in changes:
        whole = changes["parameters"]
        unread = model.unread.total
        if unread >= whole:
            fault = f"{whole:g}, but vision, audio and tables alone make {unread:.3g}"
            remedy = "give those of the whole model, or leave them out"
            raise RequirementError(f"model.parameters: {fault}; {remedy}")
        changes["parameters"] = whole - unread
    changed = replace(model, **changes)
    counted = count_parameters(model).total
    given = count_parameters(changed).total
    far = f"{given:.3g} parameters are given, and the config makes {counted:.3g}"
    far += ": the former stand; correct one of them, or leave model.parameters out"
    is_near = counted / _FAR < given < counted * _FAR
    notes = published.notes if is_near else (*published.notes, far)
    return replace(published, model=changed, notes=notes)
