"""Models from published files: config.json of Hugging Face's transformers and diffusers.

Values that are unreadable or implausible raise a `RequirementError` with the key and a remedy.
"""

from typing import Generic, TypeVar

from msgspec import Struct

from rightsizer.sizing.models import Model
from rightsizer.sizing.parameters import NumberFormat

_Model_co = TypeVar("_Model_co", bound=Model, covariant=True)


class PublishedModel(Struct, Generic[_Model_co], frozen=True):
    """Model, described in a plan or read from its configuration."""

    model: _Model_co
    weights: NumberFormat | None = None
    """Format of the checkpoint, for diffusion that of its denoiser; `None` if not stated."""
    context_tokens: int | None = None
    """Maximum text length of the model; `None` if the file does not state it.

    Also `None` if prompt and answer have separate stacks, each with its own length.
    """
    notes: tuple[str, ...] = ()
    """What is counted beside the text, what is not, and assumptions."""
    named_weights: NumberFormat | None = None
    """Format that the name tells, as of `...-AWQ`, whatever the checkpoint has."""
