"""Parameters of a model: number, location, and size in each number format."""

from enum import StrEnum
from functools import lru_cache
from typing import Final, Self

from msgspec import Struct

from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    Model,
    RecommenderModel,
    Transformer,
    VisionTransformer,
)


class NumberFormat(StrEnum):
    """Number formats of weights, caches, activations and gradients."""

    bytes_per_parameter: float
    """Including scales and zero points. Sources: format definitions (nf4: 4 bits and an fp32
    scale per 64 weights, arXiv:2305.14314; nvfp4: 4 bits and an fp8 scale per 16); for GGUF the
    files of Llama 3.1 8B (llama.cpp, tools/quantize/README.md)."""

    def __new__(cls, name: str, bytes_per_parameter: float) -> Self:
        """Create a member."""
        made = str.__new__(cls, name)
        made._value_ = name
        made.bytes_per_parameter = bytes_per_parameter
        return made

    FP32 = "fp32", 4.0
    BF16 = "bf16", 2.0
    FP16 = "fp16", 2.0
    FP8 = "fp8", 1.0
    INT8 = "int8", 1.0
    INT4 = "int4", 0.53
    """AWQ and GPTQ in groups of 128, including scales."""
    NF4 = "nf4", 0.5625
    NF4_DOUBLE_QUANTIZED = "nf4-dq", 0.516
    NVFP4 = "nvfp4", 0.5625
    """Including block scales."""
    Q2_K = "q2_k", 0.3949
    """GGUF mixture, including embedding and head; likewise the next five."""
    Q3_K_M = "q3_k_m", 0.4995
    Q4_K_M = "q4_k_m", 0.6118
    Q5_K_M = "q5_k_m", 0.713
    Q6_K = "q6_k", 0.8204
    Q8_0 = "q8_0", 1.0626

    @property
    def is_quantized(self) -> bool:
        """Whether weights are narrower than 16 bits."""
        return self not in {NumberFormat.FP32, NumberFormat.BF16, NumberFormat.FP16}

    @property
    def is_dequantized_whole(self) -> bool:
        """Whether a matrix is unpacked before its product, as in bitsandbytes."""
        return self in {NumberFormat.NF4, NumberFormat.NF4_DOUBLE_QUANTIZED}

    @property
    def bytes_per_embedding(self) -> float:
        """Size of embeddings and head with weights in this format: bf16, except in GGUF files."""
        is_kept = self.is_quantized and self not in GGUF_FORMATS
        return (NumberFormat.BF16 if is_kept else self).bytes_per_parameter


GGUF_FORMATS: Final = frozenset(
    number_format for number_format in NumberFormat if number_format.startswith("q")
)


class ParameterCount(Struct, frozen=True):
    """Parameters of one model, by location."""

    total: float
    active: float
    """Used per token, including embedding and head."""
    embedding: float = 0.0
    """Input table, read but not multiplied."""
    head: float = 0.0
    """Output matrix; 0 if shared with the embedding."""
    unread: float = 0.0
    """In memory but not used by generated tokens: vision or audio encoders, and tables."""
    repeated: float = 0.0
    """Used more than once per token; counts each further use."""
    largest_matrix: float = 0.0
    largest_unit: float = 0.0
    """Maximum gathered at a time in sharded training: one layer, or the embedding."""

    @property
    def layers(self) -> float:
        """All except embedding, head and unread parameters."""
        # Rounding with large unread parameters must not yield a negative number.
        return max(0.0, self.total - self.embedding - self.head - self.unread)

    @property
    def linear(self) -> float:
        """Multiplied per token: N_lin in the serving formulas."""
        return self.active + self.repeated - (self.embedding if self.head else 0.0)


@lru_cache
def count_parameters(model: Model) -> ParameterCount:
    """Parameters of a model: as published if given, else derived from its shape."""
    match model:
        case Transformer():
            return _transformer(model)
        case VisionTransformer():
            return _vision_transformer(model)
        case ConvolutionalNetwork():
            return ParameterCount(model.parameters, model.parameters)
        case Diffusion():
            total = model.parameters + model.text_encoder_parameters + model.decoder_parameters
            return ParameterCount(total, total)
        case RecommenderModel():
            table = model.embedding_rows * model.embedding_width
            active = model.lookups * model.embedding_width + model.dense_parameters
            return ParameterCount(table + model.dense_parameters, active, embedding=table)


def attention_parameters(model: Transformer) -> float:
    """Attention matrices of one layer, including biases and norms of queries and keys."""
    width = model.head_width
    if model.kv_lora_rank:
        return _latent_attention(model, model.kv_lora_rank, width)
    queries = model.heads * width
    keys = model.key_value_heads * width
    count = model.hidden * (2 * queries + 2 * keys)
    count += queries + 2 * keys if model.attention_bias else 0
    return float(count + (2 * width if model.query_key_norm else 0))


def _latent_attention(model: Transformer, rank: int, width: int) -> float:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1)."""
    rope = model.rope_head_dim
    values = model.value_head_dim or width
    queries = model.heads * (width + rope)
    of_queries = model.hidden * queries
    if model.query_lora_rank:
        of_queries = model.query_lora_rank * (model.hidden + 1 + queries)
    compressed = model.hidden * (rank + rope) + rank
    expanded = rank * model.heads * (width + values)
    return float(of_queries + compressed + expanded + model.heads * values * model.hidden)


def expert_parameters(model: Transformer, count: ParameterCount) -> float:
    """Parameters of all experts that a token may choose, inferred from those it does not use."""
    share = model.experts_per_token / model.experts
    if share >= 1.0:
        return 0.0
    idle = max(0.0, count.layers - max(0.0, count.active - count.embedding - count.head))
    return min(count.layers, idle / (1.0 - share))


def _transformer(model: Transformer) -> ParameterCount:
    embedding = float(model.vocab * model.hidden)
    head = 0.0 if model.tied_embeddings else embedding
    matrices = 3 if model.gated_ffn else 2
    attention = attention_parameters(model) + 2 * model.hidden
    expert = float(matrices * model.hidden * model.ffn_width)
    dense = float(matrices * model.hidden * (model.dense_ffn or model.ffn_width))
    mixed_layers = model.layers - model.dense_layers if model.experts > 1 else 0
    dense_layers = model.layers - mixed_layers
    router = float(model.hidden * model.experts)
    mixed = attention + router + (model.experts + model.shared_experts) * expert
    plain = dense_layers * (attention + (dense if model.experts > 1 else expert))
    by_shape = embedding + head + model.hidden + plain + mixed_layers * mixed
    total = model.parameters or by_shape
    unread = model.unread.total
    idle = mixed_layers * max(0, model.experts - model.experts_per_token) * expert
    # A published total may be smaller than the given vocabulary implies.
    embedding = min(embedding, total / 3)
    head = min(head, total / 3)
    layers = total - embedding - head
    # If shape and published total disagree, this fraction of experts is still used.
    least = total * (model.experts_per_token / model.experts)
    return ParameterCount(
        total=total + unread,
        active=model.active_parameters or max(total - idle, least),
        embedding=embedding,
        head=head,
        unread=unread,
        repeated=model.repeated_parameters,
        largest_matrix=max(embedding, float(model.hidden * model.ffn_width)),
        largest_unit=max(embedding, layers / model.layers),
    )


def plain_layer(hidden: int, ffn: int) -> int:
    """Attention and two matrices with biases, and two norms with two vectors each."""
    return 4 * hidden * (hidden + 1) + 2 * hidden * ffn + ffn + hidden + 4 * hidden


def _vision_transformer(model: VisionTransformer) -> ParameterCount:
    """Class token, learned positions, biases in all matrices (arXiv:2010.11929, table 1)."""
    hidden = model.hidden
    ffn = model.ffn or 4 * model.hidden
    layer = plain_layer(hidden, ffn)
    embedding = hidden * (3 * model.patch**2 + 1) + hidden + model.tokens * hidden
    by_shape = embedding + model.layers * layer + 2 * hidden + model.classes * (hidden + 1)
    total = model.parameters or float(by_shape)
    return ParameterCount(
        total, total, largest_matrix=float(hidden * ffn), largest_unit=total / model.layers
    )
