"""A diffusion model from the `model_index.json` and `config.json` files that diffusers write."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.models import Diffusion
from rightsizer.sizing.number_format import NumberFormat
from rightsizer.sizing.published.checkpoint_format import checkpoint_format
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.diffusion.denoisers import Denoiser, find_denoiser
from rightsizer.sizing.published.diffusion.latent_decoder import LatentDecoder
from rightsizer.sizing.soundness import check_model

__all__ = [
    "AskedImage",
    "PipelineParts",
    "PublishedDiffusion",
    "is_of_diffusers",
    "pipeline_parts",
    "read_denoiser",
]

_DENOISERS: Final = ("transformer", "unet")
_WITHOUT_WEIGHTS: Final = (
    "scheduler",
    "tokenizer",
    "feature_extractor",
    "image_processor",
    "processor",
)
_DESCRIBE: Final = (
    "describe the model in the plan instead (kind: diffusion, parameters, forward_flops)"
)
_USUAL_PIXELS: Final = 1024
"""Of a side, where the file does not tell: as the pipelines of these classes have it."""


@dataclass(frozen=True, slots=True)
class AskedImage:
    """How a plan wants images made; as the model's pipeline does where it does not say."""

    image: int | None = None
    """Pixels of a side."""
    steps: int | None = None
    guided: bool | None = None


@dataclass(frozen=True, slots=True)
class PipelineParts:
    """The folders of a pipeline, by what is read of them."""

    denoiser: str
    decoder: str
    text_encoders: Mapping[str, str]
    """The class that loads each."""
    others: tuple[str, ...]
    """With weights that are not counted."""


@dataclass(frozen=True, slots=True)
class PublishedDiffusion:
    """What configurations say of a diffusion model."""

    model: Diffusion
    weights: NumberFormat | None
    """The format of the denoiser; `None` where the file does not say."""
    notes: tuple[str, ...]


def is_of_diffusers(values: Mapping[str, object]) -> bool:
    """Whether a parsed file is one of diffusers, not of transformers."""
    return "_class_name" in values and "model_type" not in values


def pipeline_parts(index: Mapping[str, object]) -> PipelineParts:
    """What a parsed `model_index.json` says of which folder.

    Raises:
        RequirementError: it names no denoiser, or nothing that makes pixels of latents.
    """
    named = {name: kind for name, entry in index.items() if (kind := _loaded(entry))}
    denoiser = next((name for name in _DENOISERS if name in named), "")
    if not denoiser:
        raise RequirementError(
            "model_index.json: names neither a transformer nor a unet; name the folder of a"
            f" pipeline that makes images, or {_DESCRIBE}"
        )
    if "vae" not in named:
        raise RequirementError(
            "model_index.json: vae: is missing, and pipelines without latents are not read;"
            f" {_DESCRIBE}"
        )
    texts = {name: kind for name, kind in named.items() if name.startswith("text_encoder")}
    read = (denoiser, "vae", *texts)
    others = tuple(
        name for name in named if name not in read and not name.startswith(_WITHOUT_WEIGHTS)
    )
    return PipelineParts(denoiser, "vae", texts, others)


def _loaded(entry: object) -> str:
    """The class of an entry beside its library; empty for settings and for what is left out."""
    match entry:
        case [str(), str(kind)]:
            return kind
    return ""


def read_denoiser(
    values: Mapping[str, object], asked: AskedImage, name: str, decoder: LatentDecoder | None = None
) -> PublishedDiffusion:
    """The model of a denoiser's parsed `config.json`, text encoders left out.

    Args:
        values: The file.
        asked: What the plan says of the images.
        name: The model's; that of its class where it is empty.
        decoder: That of the same pipeline; the usual one where it is not known.

    Raises:
        RequirementError: the class is not known, or has parts that are not counted.
    """
    config = Configuration(values, {})
    known = find_denoiser(config)
    scale = decoder.scale if decoder else known.scale
    patch = known.patch or config.needed("patch_size")
    pixels = _own_pixels(config, known, scale) if asked.image is None else asked.image
    side = pixels // scale
    if side < patch:
        raise RequirementError(
            f"model.image: {pixels} pixels are fewer than the {scale * patch} of one token;"
            " give those of a side of the image"
        )
    work = known.work(config, side, known.text_tokens)
    usual = Diffusion(work.parameters)
    taught = config.is_set("guidance_embeds") or bool(config.whole("time_cond_proj_dim"))
    guided = known.is_guided and not taught if asked.guided is None else asked.guided
    model = Diffusion(
        parameters=work.parameters,
        forward_flops=work.flops,
        name=name or known.name,
        steps=usual.steps if asked.steps is None else asked.steps,
        guided=guided,
        decoder_parameters=decoder.parameters if decoder else usual.decoder_parameters,
        image=pixels,
        latent_scale=scale,
        latent_patch=patch,
    )
    check_model(model)
    return PublishedDiffusion(model, checkpoint_format(config), tuple(_notes(model, asked)))


def _own_pixels(config: Configuration, known: Denoiser, scale: int) -> int:
    """A side of the images that the model was made for."""
    latents = config.whole("sample_size") if known.has_size else None
    return latents * scale if latents else _USUAL_PIXELS


def _notes(model: Diffusion, asked: AskedImage) -> Iterator[str]:
    """What was taken as usual, for no file tells how images are made."""
    twice = "twice, with and without the prompt" if model.guided else "once"
    taken = {
        "image": f"images of {model.image} by {model.image} pixels",
        "steps": f"{model.steps} steps",
        "guided": f"each step run {twice}",
    }
    left_out = [key for key in taken if getattr(asked, key) is None]
    if left_out:
        yield (
            f"taken as usual for this model: {', '.join(taken[key] for key in left_out)}; give"
            f" {', '.join(left_out)} beside config where it is otherwise"
        )
