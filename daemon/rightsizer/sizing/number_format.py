"""The formats that numbers are kept in, and what a parameter takes in each."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class NumberFormat(StrEnum):
    """How weights, caches, activations or gradients are kept."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"
    """AWQ and GPTQ in groups of 128, scales included."""
    NF4 = "nf4"
    NF4_DOUBLE_QUANTIZED = "nf4-dq"
    NVFP4 = "nvfp4"
    """With its block scales."""
    Q4_K_M = "q4_k_m"
    """GGUF's mixture."""

    @property
    def is_quantized(self) -> bool:
        """Whether embeddings and head stay in bf16, as quantized checkpoints have them."""
        return self not in {NumberFormat.FP32, NumberFormat.BF16, NumberFormat.FP16}

    @property
    def is_dequantized_whole(self) -> bool:
        """Whether a matrix is unpacked before it is multiplied with, as bitsandbytes does."""
        return self in {NumberFormat.NF4, NumberFormat.NF4_DOUBLE_QUANTIZED}

    @property
    def bytes_per_parameter(self) -> float:
        """Scales and zero points included."""
        return BYTES_PER_PARAMETER[self]

    @property
    def bytes_per_embedding(self) -> float:
        """Of embeddings and head beside weights in this format."""
        return BYTES_PER_PARAMETER[NumberFormat.BF16 if self.is_quantized else self]


BYTES_PER_PARAMETER: Final[Mapping[NumberFormat, float]] = MappingProxyType(
    {
        NumberFormat.FP32: 4.0,
        NumberFormat.BF16: 2.0,
        NumberFormat.FP16: 2.0,
        NumberFormat.FP8: 1.0,
        NumberFormat.INT8: 1.0,
        NumberFormat.INT4: 0.53,
        NumberFormat.NF4: 0.5625,
        NumberFormat.NF4_DOUBLE_QUANTIZED: 0.516,
        NumberFormat.NVFP4: 0.5625,
        NumberFormat.Q4_K_M: 0.606,
    }
)
"""Scales and zero points included. Sources: the formats' definitions (nf4: 4 bits and an fp32 scale
for 64 weights, arXiv:2305.14314; nvfp4: 4 bits and an fp8 scale for 16; Q4_K_M: 4.85 bits)."""
