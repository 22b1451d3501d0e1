"""The number formats that a board computes in."""

from enum import StrEnum


class Precision(StrEnum):
    """The number formats that a peak is known for. All peaks are dense, without sparsity."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    """Also fp16; either accumulates in fp32."""
    FP16_ACC16 = "fp16_acc16"
    """Accumulates in fp16, which GeForce boards do at twice the rate."""
    FP8 = "fp8"
    INT8 = "int8"
    FP4 = "fp4"
