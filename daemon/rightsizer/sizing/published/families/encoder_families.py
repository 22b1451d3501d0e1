"""Families of encoders, which keep no cache."""

from types import MappingProxyType
from typing import Final

from rightsizer.sizing.published.families.family import Family

__all__ = ["ENCODERS"]

ENCODERS: Final = (
    Family(
        "bert roberta xlm-roberta camembert",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        has_final_norm=False,
        has_embedding_norm=True,
        attention_bias="all",
        ffn_bias="all",
        positions="max_position_embeddings",
        has_pooler=True,
        is_encoder=True,
    ),
    Family(
        "electra",
        embedding="embedding_size",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        has_final_norm=False,
        has_embedding_norm=True,
        attention_bias="all",
        ffn_bias="all",
        positions="max_position_embeddings",
        is_encoder=True,
    ),
    # The final norm takes the place of the one that the first layer lacks.
    Family(
        "modernbert",
        window="",
        is_tied=True,
        has_final_norm=False,
        has_embedding_norm=True,
        attention_bias="attention_bias",
        ffn_bias="mlp_bias",
        head_bias="decoder_bias",
        switched_on=("decoder_bias",),
        has_pooler=True,
        is_encoder=True,
    ),
    Family(
        "distilbert",
        layers="n_layers",
        hidden="dim",
        heads="n_heads",
        ffn="hidden_dim",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        has_final_norm=False,
        has_embedding_norm=True,
        attention_bias="all",
        ffn_bias="all",
        positions="max_position_embeddings",
        is_encoder=True,
    ),
    Family(
        "clip_text_model",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        attention_bias="all",
        ffn_bias="all",
        positions="max_position_embeddings",
        is_encoder=True,
        defaults=MappingProxyType(
            {
                "hidden_size": 512,
                "intermediate_size": 2048,
                "num_hidden_layers": 12,
                "num_attention_heads": 8,
                "vocab_size": 49408,
                "max_position_embeddings": 77,
            }
        ),
    ),
    Family(
        "siglip_text_model",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        attention_bias="all",
        ffn_bias="all",
        positions="max_position_embeddings",
        has_pooler=True,
        is_encoder=True,
        defaults=MappingProxyType(
            {
                "hidden_size": 768,
                "intermediate_size": 3072,
                "num_hidden_layers": 12,
                "num_attention_heads": 12,
                "vocab_size": 32000,
                "max_position_embeddings": 64,
            }
        ),
    ),
)
"""Each as its class in transformers has it; the tests hold them against published counts."""
