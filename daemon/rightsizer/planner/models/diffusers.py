"""Diffusion model from diffusers files: a pipeline's folder, or only its denoiser."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.errors import RequirementError
from rightsizer.planner.models import PublishedModel
from rightsizer.planner.models.checkpoint_format import checkpoint_format
from rightsizer.planner.models.configuration import (
    DESCRIBE,
    Configuration,
    errors_of,
    parsed_config,
    wrong,
)
from rightsizer.planner.models.formulas import FUNCTIONS, Formulas, formula_rows
from rightsizer.planner.models.hugging_face import read_config, two_stacks
from rightsizer.planner.models.layer_work import WORKS, LayerWork
from rightsizer.planner.requirement_checks import check_model
from rightsizer.sizing.models import Diffusion
from rightsizer.sizing.parameters import count_parameters

_HALVES: Final = ("T5EncoderModel", "MT5EncoderModel", "UMT5EncoderModel")
"""Classes that load an encoder without its decoder."""
_WITH_HEAD: Final = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
_REMEDY: Final = (
    "of a diffusion model, describe the whole in the plan instead (kind: diffusion, parameters,"
    " forward_flops, text_encoder_parameters)"
)
INDEX: Final = "model_index.json"
_FOLDER_REMEDY: Final = (
    f"each part that {INDEX} names has its config.json; download those too, or describe the model"
    " in the plan (kind: diffusion, parameters, forward_flops)"
)
_ALONE: Final = (
    "the denoiser alone is read: text encoders are not counted and a usual decoder is assumed;"
    f" name the folder of the whole pipeline ({INDEX}) instead"
)
_OLD_CLASS: Final = "Transformer2DModel"
_OLD: Final = {
    "ada_norm_single": "PixArtTransformer2DModel",
    "ada_norm_zero": "DiTTransformer2DModel",
}
"""Older files than these classes, by their `norm_type`."""
_VIDEO: Final = ("Transformer3DModel", "VideoTransformer", "UNetSpatioTemporal", "UNet3D", "Motion")
_DENOISERS: Final = ("transformer", "unet")
_WITHOUT_WEIGHTS: Final = (
    "scheduler",
    "tokenizer",
    "feature_extractor",
    "image_processor",
    "processor",
)
_DESCRIBE: Final = DESCRIBE.format("")
_USUAL_PIXELS: Final = 1024
"""Side length if the file does not state it, the default of these pipelines."""


def find_denoiser(config: Configuration) -> Mapping[str, Any]:
    """Return the row of a configuration's class."""
    kind = config.text("_class_name")
    wanted = _OLD.get(config.text("norm_type"), kind) if kind == _OLD_CLASS else kind
    denoisers = formula_rows("denoisers")
    if wanted in denoisers:
        return {"class": wanted, **denoisers[wanted]}
    if any(part in kind for part in _VIDEO) or kind.endswith("3DModel"):
        step = DESCRIBE.format(" of one step of a whole clip")
        remedy = f"name a model that is known, such as wan2.2 or hunyuanvideo, or {step}"
        raise wrong("_class_name", f"{kind} makes videos, which are not read", remedy)
    remedy = f"name the folder of a whole pipeline or its denoiser's file, or {_DESCRIBE}"
    fault = f"'{kind}' is no denoiser that is known"
    raise wrong("_class_name", fault, f"{remedy}. Known are {', '.join(denoisers)}")


def _check_allowed(config: Configuration, allowed: Mapping[str, Any]) -> None:
    """Raise for values of parts that are not counted."""
    for key, usual in allowed.items():
        value = config.values.get(key, usual[0])
        listed = config.lists(key)
        plain = listed[0] if listed and listed == listed[:1] * len(listed) else value
        if plain not in usual:
            raise wrong(key, f"{value!r} is not counted", _DESCRIBE)


class LatentDecoder(Struct, frozen=True):
    """Properties of an autoencoder that a plan needs."""

    parameters: float
    """Including the encoder, which pipelines load too."""
    scale: int
    """Pixels per latent pixel, of one side."""


DECODERS: Final[Mapping[str, tuple[float, str]]] = {
    "AutoencoderKL": (83.8e6, "block_out_channels"),
    "AutoencoderKLQwenImage": (126.9e6, "dim_mult"),
    "AutoencoderDC": (312.2e6, "decoder_block_out_channels"),
}
"""By diffusers class: published parameters, within 1% in all pipelines, and the key of
resolutions."""


def read_decoder(values: Mapping[str, object]) -> LatentDecoder:
    """Return the autoencoder of a parsed `config.json`."""
    config = Configuration(values)
    kind = config.text("_class_name")
    if kind not in DECODERS:
        remedy = DESCRIBE.format(", decoder_parameters")
        full_remedy = f"{remedy}. Known are {', '.join(DECODERS)}"
        raise wrong("_class_name", f"'{kind}' is no decoder that is known", full_remedy)
    parameters, levels = DECODERS[kind]
    return LatentDecoder(parameters, 2 ** (len(config.wholes(levels)) - 1))


class RequestedImage(Struct, frozen=True):
    """Image settings of a plan; defaults are those of the model's pipeline."""

    image: int | None = None
    """Pixels per side."""
    steps: int | None = None
    guided: bool | None = None
    frames: int | None = None


class PipelineParts(Struct, frozen=True):
    """Folders of a pipeline, by purpose."""

    denoiser: str
    text_encoders: Mapping[str, str]
    """Class that loads each."""
    others: tuple[str, ...]
    """With weights that are not counted."""


def pipeline_parts(index: Mapping[str, object]) -> PipelineParts:
    """Return the folders in a parsed `model_index.json`."""
    # Entries are [library, class]; absent parts are [null, null], and others are settings.
    named: dict[str, str] = {}
    for name, entry in index.items():
        match entry:
            case [str(), str(kind)] if kind:
                named[name] = kind
    denoiser = next((name for name in _DENOISERS if name in named), "")
    if not denoiser:
        fault = "names neither a transformer nor a unet"
        remedy = f"name the folder of a pipeline that makes images, or {_DESCRIBE}"
        raise RequirementError(f"model_index.json: {fault}; {remedy}")
    if "vae" not in named:
        fault = "vae: is missing, and pipelines without latents are not read"
        raise RequirementError(f"model_index.json: {fault}; {_DESCRIBE}")
    texts = {name: kind for name, kind in named.items() if name.startswith("text_encoder")}
    read = (denoiser, "vae", *texts)
    left = (name for name in named if name not in read)
    others = tuple(name for name in left if not name.startswith(_WITHOUT_WEIGHTS))
    return PipelineParts(denoiser, texts, others)


def read_denoiser(
    values: Mapping[str, object],
    asked: RequestedImage,
    name: str,
    decoder: LatentDecoder | None = None,
) -> PublishedModel[Diffusion]:
    """Return the model of a denoiser's parsed `config.json`, without text encoders."""
    config = Configuration(values)
    row = find_denoiser(config)
    if asked.frames is not None:
        raise RequirementError("model.frames: the model makes images; leave it out")
    functions: Mapping[str, Callable[..., Any]] = {
        **FUNCTIONS,
        **WORKS,
        "stated": config.values.get,
    }
    denoiser = Formulas(row, config, {}, functions)
    scale = decoder.scale if decoder else denoiser["scale"]
    patch = denoiser["token"]
    latents = config.whole("sample_size") if denoiser["has_size"] else None
    pixels = asked.image
    if pixels is None:
        pixels = latents * scale if latents else _USUAL_PIXELS
    side = pixels // scale
    if side < patch:
        fault = f"{pixels} pixels are fewer than the {scale * patch} of one token"
        raise RequirementError(f"model.image: {fault}; give those of a side of the image")
    _check_allowed(config, row["allowed"])
    sized = Formulas(row, config, {"side": side}, functions)
    sized.check()
    work: LayerWork = sized["work"]
    usual = Diffusion(work.parameters)
    taught = config.is_set("guidance_embeds") or bool(config.whole("time_cond_proj_dim"))
    guided = denoiser["is_guided"] and not taught if asked.guided is None else asked.guided
    model = Diffusion(
        parameters=work.parameters,
        forward_flops=work.flops,
        name=name or row["class"],
        steps=usual.steps if asked.steps is None else asked.steps,
        guided=guided,
        decoder_parameters=decoder.parameters if decoder else usual.decoder_parameters,
        image=pixels,
        latent_scale=scale,
        latent_patch=patch,
    )
    check_model(model)
    notes = tuple(assumption_notes(model, asked))
    return PublishedModel(model, checkpoint_format(config), notes=notes)


def assumption_notes(model: Diffusion, asked: RequestedImage) -> Iterator[str]:
    """Yield the settings that are not given and assumed, as usual for the model."""
    twice = "twice, with and without the prompt" if model.guided else "once"
    side = f"{model.image} by {model.image} pixels"
    what = "images"
    usual = {}
    if model.frames > 1:
        usual = {"frames": f"{model.frames} frames"}
        what = "an area"
    usual |= {"image": f"{what} of {side}"}
    usual |= {"steps": f"{model.steps} steps", "guided": f"each step run {twice}"}
    left_out = [key for key in usual if getattr(asked, key) is None]
    if left_out:
        assumed = ", ".join(usual[key] for key in left_out)
        keys = ", ".join(left_out)
        remedy = f"give {keys} beside config where it is otherwise"
        yield f"assumed, as usual for this model: {assumed}; {remedy}"


def read_text_encoder(values: Mapping[str, object], loader: str) -> tuple[float, tuple[str, ...]]:
    """Return parameters and notes for a parsed `config.json` of a transformers class."""
    config = Configuration(values)
    if loader in _HALVES:
        stacks = two_stacks(config, "umt5" if loader == "UMT5EncoderModel" else "t5")
        return float(stacks["encoder_alone"]), ()
    try:
        read = read_config(values)
    except RequirementError as error:
        raise RequirementError(f"{error}; {_REMEDY}") from None
    count = count_parameters(read.model)
    parameters = count.total
    if not loader.endswith(_WITH_HEAD):
        parameters -= count.head
    if loader.endswith("WithProjection"):
        parameters += config.needed("hidden_size") * config.needed("projection_dim")
    return parameters, read.notes


def read_diffusers(
    file: Path, values: Mapping[str, Any], asked: RequestedImage, name: str
) -> PublishedModel[Diffusion]:
    """Return the model of a parsed diffusers file, with the other parts of its pipeline."""
    with errors_of(file):
        if file.name != INDEX and not str(values.get("_class_name")).endswith("Pipeline"):
            read = read_denoiser(values, asked, name)
            return replace(read, notes=(*read.notes, _ALONE))
        parts = pipeline_parts(values)
    folders = (parts.denoiser, "vae", *parts.text_encoders)
    files = {part: file.parent / part / "config.json" for part in folders}
    parsed = {part: parsed_config(path, _FOLDER_REMEDY) for part, path in files.items()}
    return read_pipeline(parts, parsed, files, asked, name)


def read_pipeline(
    parts: PipelineParts,
    parsed: Mapping[str, Any],
    files: Mapping[str, Path],
    asked: RequestedImage,
    name: str,
) -> PublishedModel[Diffusion]:
    """Return the model of a pipeline's parsed files, by folder."""
    with errors_of(files["vae"]):
        decoder = read_decoder(parsed["vae"])
    with errors_of(files[parts.denoiser]):
        read = read_denoiser(parsed[parts.denoiser], asked, name, decoder)
    parameters = 0.0
    notes = [*read.notes]
    for part, kind in parts.text_encoders.items():
        with errors_of(files[part]):
            count, of_text = read_text_encoder(parsed[part], kind)
        parameters += count
        notes += [f"{part}: {note}" for note in of_text]
    if parts.others:
        notes.append(f"not counted of the pipeline: {', '.join(parts.others)}")
    model = replace(read.model, text_encoder_parameters=parameters)
    return replace(read, model=model, notes=tuple(notes))
