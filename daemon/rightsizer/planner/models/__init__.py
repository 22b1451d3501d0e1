"""Models from their published files: config.json of Hugging Face's transformers and diffusers.

What cannot be read, counted or true is refused: a `RequirementError` with the key and a remedy.
"""

from typing import Generic, TypeVar

from rightsizer.model.frozen import dataclass
from rightsizer.sizing.models import Model
from rightsizer.sizing.parameters import NumberFormat

_Model_co = TypeVar("_Model_co", bound=Model, covariant=True)


@dataclass(frozen=True, slots=True)
class PublishedModel(Generic[_Model_co]):
    """A model, described in a plan or read from its configuration."""

    model: _Model_co
    weights: NumberFormat | None = None
    """The format of the checkpoint, of a diffusion model its denoiser's; `None` if not stated."""
    context_tokens: int | None = None
    """The longest text that the model was made for; `None` where the file does not say.

    Nor where prompt and answer have a stack each, and a length of their own.
    """
    notes: tuple[str, ...] = ()
    """What is counted beside the text, what is not, and what was taken as usual."""
