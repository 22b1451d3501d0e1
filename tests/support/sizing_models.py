"""Well-known models, for tests of requirements."""

from typing import Final

from published_models import PUBLISHED
from rightsizer.planner.models.hugging_face import read_config
from rightsizer.sizing.models import Transformer

__all__ = ["GIB", "published"]

GIB: Final = 2.0**30


def published(name: str) -> Transformer:
    """A published transformer by name."""
    model = read_config(PUBLISHED[name][0], name).model
    assert isinstance(model, Transformer)
    return model
