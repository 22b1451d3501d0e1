"""Files of a model on disk: its `config.json`, a pipeline's folder, or its denoiser alone."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rightsizer.io.yaml import YamlError, load_yaml
from rightsizer.model.errors import RequirementError
from rightsizer.planner.models import PublishedModel
from rightsizer.planner.models.configuration import Configuration
from rightsizer.planner.models.diffusers import (
    PipelineParts,
    RequestedImage,
    pipeline_parts,
    read_denoiser,
)
from rightsizer.planner.models.encoder_decoder import t5_encoder_parameters
from rightsizer.planner.models.hugging_face import read_config
from rightsizer.planner.models.latent_decoder import read_decoder
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
_QUANTIZATION: Final = "hf_quant_config.json"
"""Where NVIDIA's Model Optimizer tells the format of a checkpoint, if not in its `config.json`."""
_QUANTIZED: Final = "quantization_config"
_FOLDER_REMEDY: Final = (
    f"each part that {INDEX} names has its config.json; download those too, or describe the model"
    " in the plan (kind: diffusion, parameters, forward_flops)"
)
_ALONE: Final = (
    "the denoiser alone is read: text encoders are not counted and the decoder is taken as usual;"
    f" name the folder of the whole pipeline ({INDEX}) instead"
)


def parsed_config(
    file: Path, remedy: str = "name the config.json that comes with the model"
) -> dict[str, Any]:
    """What a JSON file holds, with the format of the checkpoint that a file beside it tells."""
    try:
        data = load_yaml(file.read_text(encoding="utf-8-sig").replace("\t", " "), str(file)).data
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RequirementError(f"model.config: {file}: {reason}; {remedy}") from None
    except (UnicodeDecodeError, YamlError) as error:
        raise RequirementError(f"model.config: {file}: is no JSON: {error}; {remedy}") from None
    if not isinstance(data, dict):
        raise RequirementError(f"model.config: {file}: is no JSON object; {remedy}")
    beside = file.with_name(_QUANTIZATION)
    if _QUANTIZED not in data and file.name != _QUANTIZATION and beside.is_file():
        found = parsed_config(beside, remedy).get("quantization")
        given = found if isinstance(found, Mapping) else {}
        data[_QUANTIZED] = {**given, "ignore": given.get("exclude_modules")} if given else None
    return data


@contextmanager
def errors_of(file: Path) -> Iterator[None]:
    """What is wrong with values of a file with the file before it; of the plan's, as it is."""
    try:
        yield
    except RequirementError as error:
        if str(error).startswith("model."):
            raise
        raise RequirementError(f"model.config: {file}: {error}") from None


def read_text_encoder(values: Mapping[str, object], loader: str) -> tuple[float, tuple[str, ...]]:
    """Parameters of a parsed `config.json` that a class of transformers loads, and notes."""
    config = Configuration(values)
    if loader in _HALVES:
        return t5_encoder_parameters(config, is_umt5=loader == "UMT5EncoderModel"), ()
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
    """What a parsed file of diffusers describes, with the other parts of its pipeline."""
    with errors_of(file):
        if file.name != INDEX and not str(values.get("_class_name")).endswith("Pipeline"):
            read = read_denoiser(values, asked, name)
            return replace(read, notes=(*read.notes, _ALONE))
        parts = pipeline_parts(values)
    folders = (parts.denoiser, "vae", *parts.text_encoders)
    files = {part: file.parent / part / "config.json" for part in folders}
    parsed = {part: parsed_config(each, _FOLDER_REMEDY) for part, each in files.items()}
    return read_pipeline(parts, parsed, files, asked, name)


def read_pipeline(
    parts: PipelineParts,
    parsed: Mapping[str, Any],
    files: Mapping[str, Path],
    asked: RequestedImage,
    name: str,
) -> PublishedModel[Diffusion]:
    """The model of a pipeline's parsed files, by the folder of each."""
    with errors_of(files["vae"]):
        decoder = read_decoder(parsed["vae"])
    with errors_of(files[parts.denoiser]):
        read = read_denoiser(parsed[parts.denoiser], asked, name, decoder)
    parameters, notes = 0.0, [*read.notes]
    for part, kind in parts.text_encoders.items():
        with errors_of(files[part]):
            count, of_text = read_text_encoder(parsed[part], kind)
        parameters += count
        notes += [f"{part}: {note}" for note in of_text]
    if parts.others:
        notes.append(f"not counted of the pipeline: {', '.join(parts.others)}")
    model = replace(read.model, text_encoder_parameters=parameters)
    return replace(read, model=model, notes=tuple(notes))
