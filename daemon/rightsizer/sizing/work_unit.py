"""Unit of the work that a model does: what its rates and costs are counted in."""

from enum import StrEnum

from rightsizer.sizing.models import Model, RecommenderModel, Transformer
from rightsizer.sizing.requirement import RequestLoad


class WorkUnit(StrEnum):
    """What people count the work of a model in."""

    TOKENS = "tokens"
    """Of the output."""
    SEQUENCES = "sequences"
    """Read by an encoder: a text to embed, to classify or to rank."""
    IMAGES = "images"
    SAMPLES = "samples"
    AUDIO_SECONDS = "audio-seconds"


def work_unit(model: Model) -> WorkUnit:
    """The unit of what a model serves."""
    if isinstance(model, Transformer):
        if model.sound_seconds:
            return WorkUnit.AUDIO_SECONDS
        return WorkUnit.SEQUENCES if model.is_encoder else WorkUnit.TOKENS
    return WorkUnit.SAMPLES if isinstance(model, RecommenderModel) else WorkUnit.IMAGES


def units_per_request(model: Model, load: RequestLoad) -> float:
    """How much of it one request is."""
    match work_unit(model):
        case WorkUnit.TOKENS:
            return max(1.0, load.output_tokens)
        case WorkUnit.AUDIO_SECONDS if isinstance(model, Transformer):
            return load.chunk_seconds or model.sound_seconds
        case _:
            return 1.0


def units_per_token(model: Model, load: RequestLoad) -> float:
    """How much of it one token is that serving counts: of the output, of an encoder the input."""
    if not isinstance(model, Transformer):
        return 1.0
    tokens = load.input_tokens if model.is_encoder else load.output_tokens
    return units_per_request(model, load) / max(1.0, tokens)
