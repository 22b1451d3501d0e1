"""A diffusion model on disk: the folder of a pipeline, or the file of its denoiser alone."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rightsizer.runtime.config_file import parsed_config, told_of
from rightsizer.sizing.published.diffusion.diffusers import (
    AskedImage,
    PublishedDiffusion,
    pipeline_parts,
    read_denoiser,
)
from rightsizer.sizing.published.diffusion.latent_decoder import read_decoder
from rightsizer.sizing.published.diffusion.text_encoder import read_text_encoder

__all__ = ["INDEX", "read_diffusers"]

INDEX: Final = "model_index.json"
_REMEDY: Final = (
    f"each part that {INDEX} names has its config.json; download those too, or describe the model"
    " in the plan (kind: diffusion, parameters, forward_flops)"
)
_ALONE: Final = (
    "the denoiser alone is read: text encoders are not counted and the decoder is taken as usual;"
    f" name the folder of the whole pipeline ({INDEX}) instead"
)


def read_diffusers(
    file: Path, values: Mapping[str, Any], asked: AskedImage, name: str
) -> PublishedDiffusion:
    """What a parsed file of diffusers describes, with the other parts of its pipeline.

    Args:
        file: Where it lies; the parts of a pipeline are folders beside its index.
        values: What it holds.
        asked: What the plan says of the images.
        name: The model's; empty where the plan does not say.

    Raises:
        RequirementError: it, or a file of a part, cannot be read or counted.
    """
    if file.name == INDEX or str(values.get("_class_name")).endswith("Pipeline"):
        return _pipeline(file, values, asked, name)
    with told_of(file):
        read = read_denoiser(values, asked, name)
    return replace(read, notes=(*read.notes, _ALONE))


def _pipeline(
    file: Path, index: Mapping[str, Any], asked: AskedImage, name: str
) -> PublishedDiffusion:
    with told_of(file):
        parts = pipeline_parts(index)
    files = {
        part: file.parent / part / "config.json"
        for part in (parts.denoiser, parts.decoder, *parts.text_encoders)
    }
    parsed = {part: parsed_config(each, _REMEDY) for part, each in files.items()}
    with told_of(files[parts.decoder]):
        decoder = read_decoder(parsed[parts.decoder])
    with told_of(files[parts.denoiser]):
        read = read_denoiser(parsed[parts.denoiser], asked, name, decoder)
    parameters, notes = 0.0, [*read.notes]
    for part, kind in parts.text_encoders.items():
        with told_of(files[part]):
            text = read_text_encoder(parsed[part], kind)
        parameters += text.parameters
        notes += [f"{part}: {note}" for note in text.notes]
    if parts.others:
        notes.append(f"not counted of the pipeline: {', '.join(parts.others)}")
    model = replace(read.model, text_encoder_parameters=parameters)
    return replace(read, model=model, notes=tuple(notes))
