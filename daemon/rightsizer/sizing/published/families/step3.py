"""Step-3: queries in two steps, so that each of few caches serves many heads."""

from dataclasses import replace

from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import head_dimension
from rightsizer.sizing.published.configuration import Configuration

__all__ = ["with_factorized_queries"]


def with_factorized_queries(shape: Transformer, config: Configuration) -> Transformer:
    """The shape with queries that pass a narrow width first (arXiv:2507.19427, section 3)."""
    narrow = config.needed("share_q_dim")
    queries = shape.heads * head_dimension(shape)
    layer = narrow * (shape.hidden + 1 + queries) - shape.hidden * queries
    return replace(shape, parameters=(shape.parameters or 0.0) + shape.layers * layer)
