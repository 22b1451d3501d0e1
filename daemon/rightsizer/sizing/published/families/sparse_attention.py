"""Models whose tokens look at those alone that an indexer picked (DeepSeek-V3.2, GLM-5)."""

from dataclasses import replace
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.token_indexer import TokenIndexer

__all__ = ["with_sparse_attention"]

_SKIPPED: Final = 2
"""First layers that all have an indexer, where only each so-many-th one does."""


def with_sparse_attention(shape: Transformer, config: Configuration) -> Transformer:
    """The shape with an indexer in all layers, or in those that the configuration names.

    Raises:
        RequirementError: its queries are not compressed, so that there is nothing to index by.
    """
    if shape.query_lora_rank is None:
        raise RequirementError(
            "config.json: q_lora_rank: is missing; take the file as published with the model"
        )
    indexer = TokenIndexer(
        heads=config.needed("index_n_heads"),
        head_dim=config.needed("index_head_dim"),
        tokens=config.needed("index_topk"),
        layers=_indexed_layers(config, shape.layers),
    )
    added = indexer.layers * indexer.parameters(shape.hidden, shape.query_lora_rank)
    return replace(shape, parameters=(shape.parameters or 0.0) + added, indexer=indexer)


def _indexed_layers(config: Configuration, layers: int) -> int:
    """Those that pick tokens; GLM-5's may look at what an earlier one picked."""
    kinds = config.names("indexer_types") or tuple(
        {"F": "full", "S": "shared"}.get(letter, "") for letter in config.text("index_topk_pattern")
    )
    if kinds:
        if len(kinds) != layers:
            raise RequirementError(
                f"config.json: indexer_types: {len(kinds)} of {layers} layers; name each"
            )
        return kinds.count("full")
    every = max(1, config.whole("index_topk_freq") or 1)
    start = config.whole("index_skip_topk_offset", _SKIPPED) or 0
    return sum(max(layer - start + 1, 0) % every == 0 for layer in range(layers))
