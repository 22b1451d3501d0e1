"""Families whose layers have what no other family's have, and what adds it to their shape."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.sizing.models import Transformer
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.families.gemma3n import with_layer_embeddings
from rightsizer.sizing.published.families.longcat import with_double_layers
from rightsizer.sizing.published.families.mllama import with_cross_attention
from rightsizer.sizing.published.families.sparse_attention import with_sparse_attention
from rightsizer.sizing.published.families.step3 import with_factorized_queries

__all__ = ["FAMILY_LAYERS"]

FAMILY_LAYERS: Final[Mapping[str, Callable[[Transformer, Configuration], Transformer]]] = (
    MappingProxyType(
        {
            "gemma3n_text": with_layer_embeddings,
            "mllama_text_model": with_cross_attention,
            "deepseek_v32": with_sparse_attention,
            "glm_moe_dsa": with_sparse_attention,
            "longcat_flash": with_double_layers,
            "step3_text": with_factorized_queries,
        }
    )
)
"""By `model_type`."""
