"""Model of a requirement: by name, size or description, or from a `config.json` file."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import asdict, replace

from rightsizer.config.spelling import show
from rightsizer.model.errors import RequirementError
from rightsizer.model.settings import Kinds, Spec
from rightsizer.model.units import parse_amount
from rightsizer.planner.models import PublishedModel
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

if TYPE_CHECKING:
    from rightsizer.planner.models.checkpoint_tensors import CheckpointTensors
    from rightsizer.planner.models.known_models import KnownModel

INDEX: Final = "model_index.json"
ADAPTER: Final = "adapter_config.json"
MISTRAL: Final = "params.json"
_SIZE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) ?([mMbBtT])")
"""Model stated only by its size."""
_SIZE_WITHIN: Final = re.compile(r"\b\d{1,6}(?:\.\d{1,6})?[bB]\b")
_FAR: Final = 2.0
"""Ratio of parameters from which models count as different."""

_OF_IMAGES: Final = ("image", "steps", "guided", "frames")
_PUBLISHED: Final = "published"
"""Kind of a model whose shape is published, in place of one that a plan describes."""
MODEL_NEEDED: Final = "a name like llama-3.1-70b, a size like 70B, {config: PATH}, or its shape"
_Parameters: TypeAlias = Annotated[float | None, Spec(within=(1.0, 1e18), unit="amount")]


def expanded(path: object) -> object:
    """Path with the home folder of a user in place of `~`."""
    try:
        return str(Path(path).expanduser()) if isinstance(path, str) else path
    except RuntimeError:
        raise ValueError(f"{show(path)}: there is no such user; check the path") from None


class EncoderDescription(TransformerDescription, frozen=True):
    """Transformer whose tokens attend both ways, so that nothing is cached per request."""

    tied_embeddings: bool | None = True


class PublishedRequest(Struct, frozen=True):
    """Model by name, size or path, with what a plan says otherwise."""

    image: int | None = None
    steps: int | None = None
    guided: bool | None = None
    frames: int | None = None
    config: Annotated[str, Spec(parse=expanded)] = ""
    name: str = ""
    parameters: _Parameters = None
    active_parameters: _Parameters = None

    def build(self, folder: Path) -> PublishedModel[Model]:
        """Build the model; relative paths start at `folder`."""
        values = {key: value for key, value in asdict(self).items() if value is not None}
        config = values.pop("config")
        if config:
            return _of_file(folder / config, values)
        return _named(values.pop("name"), folder, values)


KINDS: Final[dict[str, type]] = {
    "transformer": TransformerDescription,
    "encoder": EncoderDescription,
    "cnn": ConvolutionalNetwork,
    "vit": VisionTransformer,
    "diffusion": Diffusion,
    "recommender": RecommenderModel,
}
"""Models that a plan describes."""


def model_mapping(value: object) -> object:
    """Mapping of a model with its kind, as it may be written in a plan."""
    if isinstance(value, str):
        if not value.strip():
            raise ValueError(f"is required: {MODEL_NEEDED}")
        return {"kind": _PUBLISHED, "name": value.strip()}
    if not isinstance(value, dict):
        return value
    is_named = "name" in value and not value.keys() - {"name", *_OF_IMAGES}
    return {**value, "kind": _PUBLISHED} if "config" in value or is_named else value


MODEL: Final = Spec(
    unit="amount",
    within=(-1e30, 1e30),
    parse=model_mapping,
    kinds=Kinds("kind", {**KINDS, _PUBLISHED: PublishedRequest}, "transformer"),
)


def build_model(
    described: Struct | None, parameters: float | None, folder: Path
) -> PublishedModel[Model]:
    """Build the model of a plan; relative paths start at `folder`."""
    if isinstance(described, PublishedRequest):
        return described.build(folder)
    described = described or TransformerDescription(parameters=parameters)
    if not isinstance(described, TransformerDescription):
        return PublishedModel(cast(Model, described))
    model = completed_shape(described)
    if isinstance(described, EncoderDescription):
        model = replace(model, cached_layers=0)
    return PublishedModel(model, notes=tuple(shape_notes(model)))


def _named(asked: str, folder: Path, values: dict[str, Any]) -> PublishedModel[Model]:
    """Return a file or folder, a well-known model, or a dense decoder of that size."""
    from rightsizer.planner.models.known_models import (  # noqa: PLC0415 - as below.
        find_model,
        is_closed,
        near_models,
        question_around,
    )

    path = None if asked.lower().endswith(".gguf") else _published_files(asked, folder)
    if path is not None:
        return _of_file(path, {"name": path.resolve().name if path.is_dir() else "", **values})
    if question := question_around(asked):
        raise RequirementError(
            f"model: '{question}' is no part of the name in {show(asked)}; give one model, and the "
            "rest each by its key: gpus: H100, rps: 5, in: 2000, streams: 9, tp: 4, train: lora"
        )
    model = find_model(asked)
    if model is not None:
        return _of_known(model, values)
    size = _SIZE.fullmatch(asked)
    if size is not None and not values:
        return _of_size(parse_amount(f"{size[1]}{size[2]}"))
    is_path = asked.startswith((".", "/", "~")) and not asked.lower().endswith(".gguf")
    if asked.endswith(".json") or is_path:
        raise RequirementError(f"model: {show(asked)}: there is no such file; check the path")
    if is_closed(asked):
        fault = f"{show(asked)} is served by its maker alone, and its size is not published"
        raise RequirementError(f"model: {fault}; name an open model, or a size like 70B")
    near = near_models(asked)
    meant = f"did you mean {' or '.join(near)}? Else give" if near else "give"
    sized = _SIZE_WITHIN.findall(asked)
    alone = f"alone ({sized[-1].upper()})" if sized else "alone, like 70B"
    size_remedy = f"if it writes text, its size {alone}"
    fault = f"{show(asked)} is none of the models that are known by name"
    raise RequirementError(f"model: {fault}; {meant} the path of its config.json or, {size_remedy}")


def _published_files(asked: str, folder: Path) -> Path | None:
    """Return the file or folder of a model that a text names; `None` if there is none."""
    try:
        path = folder / Path(asked).expanduser()
        places = (path, path / "0_Transformer")
        files = ("config.json", INDEX, ADAPTER, MISTRAL)
        published = (place for place in places if any((place / name).is_file() for name in files))
        return path if path.is_file() else next(published, None)
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


def _of_known(known_model: "KnownModel", values: dict[str, Any]) -> PublishedModel[Model]:
    config = dict(known_model.config)
    kind = KINDS.get(config.pop("kind", ""))
    if kind is not None and kind is not Diffusion:
        _refuse_images(values)
        return PublishedModel(kind(name=known_model.name, **config), notes=known_model.notes)
    if kind is None and INDEX not in config:
        read = _of_config(config, {"name": known_model.name, **values})
        notes = (*known_model.notes, *read.notes)
        model = read.model
        if known_model.is_reader and isinstance(model, Transformer) and not model.is_encoder:
            model = reading_alone(model)
            notes = (*notes, READING)
        return replace(read, model=model, named_weights=known_model.weights, notes=notes)
    from rightsizer.planner.models import diffusers  # noqa: PLC0415

    if kind is Diffusion:
        model = Diffusion(**{"name": known_model.name, **config, **values})
        taken = diffusers.assumption_notes(model, diffusers.RequestedImage(**values))
        return PublishedModel(model, known_model.weights, notes=(*known_model.notes, *taken))
    parts = diffusers.pipeline_parts(config[INDEX])
    files = {part: Path(part) / "config.json" for part in config}
    usual = {key: config.get(key) for key in _OF_IMAGES}
    asked = diffusers.RequestedImage(**{**usual, **values})
    pipeline = diffusers.read_pipeline(parts, config, files, asked, known_model.name)
    notes = (*known_model.notes, *pipeline.notes)
    return replace(pipeline, weights=known_model.weights or pipeline.weights, notes=notes)


def _of_file(path: Path, values: dict[str, Any]) -> PublishedModel[Model]:
    # Readers of published configurations: half of the imports of a plan without one.
    from rightsizer.planner.models import diffusers  # noqa: PLC0415
    from rightsizer.planner.models.checkpoint_tensors import read_tensors  # noqa: PLC0415
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
    if file.name == INDEX or ("_class_name" in parsed and "model_type" not in parsed):
        given = {key: values[key] for key in _OF_IMAGES if key in values}
        asked = diffusers.RequestedImage(**given)
        diffusion = diffusers.read_diffusers(file, parsed, asked, values["name"])
        changes = {key: values[key] for key in ("parameters",) if key in values}
        return replace(diffusion, model=replace(diffusion.model, **changes))
    if "dim" in parsed and "model_type" not in parsed:
        parsed = of_mistral(parsed)
    tensors = read_tensors(file.parent)
    with errors_of(file):
        return _stored(parsed, values, tensors)


def _stored(
    parsed: Mapping[str, Any], values: dict[str, Any], tensors: "CheckpointTensors | None"
) -> PublishedModel[Model]:
    """Return the model of a parsed file, with what its checkpoint stores, if that is at hand."""
    from rightsizer.planner.models.checkpoint_format import checkpoint_format  # noqa: PLC0415
    from rightsizer.planner.models.configuration import Configuration  # noqa: PLC0415
    from rightsizer.planner.models.hugging_face import as_decoder  # noqa: PLC0415

    if tensors is None:
        return _of_config(parsed, values)
    decoder = as_decoder(parsed)
    if decoder is None:
        read = _of_config(parsed, values)
    else:
        weights = checkpoint_format(Configuration(decoder))
        counted = tensors.parameters
        if counted is None and weights is not None and not weights.is_quantized:
            counted = tensors.stored_bytes / weights.bytes_per_parameter
        beside = {} if counted is None else {"parameters": counted}
        read = _of_config(decoder, {**beside, **values})
        taken = f"model_type '{parsed.get('model_type')}' is not known: taken as a decoder"
        note = f"{taken} of its shape, with what its checkpoint stores"
        read = replace(read, notes=(*read.notes, note))
    model = read.model
    weights = read.weights
    if not isinstance(model, Transformer) or weights is None or not weights.is_quantized:
        return read
    wide = model.attention_in_16_bits or tensors.has_wide_attention
    changed = replace(model, attention_in_16_bits=wide, stored_bytes=tensors.stored_bytes)
    return replace(read, model=changed)


def _of_base(file: Path, base: str, values: dict[str, Any]) -> PublishedModel[Model]:
    """Return the model that an adapter's file names."""
    from rightsizer.planner.models.known_models import find_model  # noqa: PLC0415

    model = find_model(base)
    if model is None:
        fault = f"adapts {show(base)}, which is not known by name; give the config.json of that"
        raise RequirementError(f"model.config: {file}: {fault}, with lora and adapters")
    read = _of_known(model, {key: value for key, value in values.items() if key != "name"})
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
