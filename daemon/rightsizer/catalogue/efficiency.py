"""What boards achieve of what their datasheets promise: Efficiency and AllReduce."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rightsizer.catalogue.precision import Precision

_STAND_INS: Final[Mapping[Precision, Precision]] = {
    Precision.FP4: Precision.FP8,
    Precision.INT8: Precision.FP8,
    Precision.FP8: Precision.BF16,
    Precision.FP16_ACC16: Precision.BF16,
    Precision.TF32: Precision.BF16,
    Precision.FP32: Precision.BF16,
}
"""What a format is likest to where nothing is known of itself: first in width, then in kind."""


def _plain_ratios() -> Mapping[Precision, float]:
    return {Precision.BF16: 0.8}


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Achieved parts of a board's dense peaks and of its memory bandwidth, by number format."""

    gemm: Mapping[Precision, float] = field(default_factory=_plain_ratios)
    """Large matrix products, of the peak; what a low power limit takes is taken off."""
    weight_read: Mapping[Precision, float] = field(default_factory=_plain_ratios)
    """Products with few rows, of the memory bandwidth."""
    decode_attention: Mapping[Precision, float] = field(default_factory=_plain_ratios)
    """Attention of one new token, of the memory bandwidth, by the format of the cache."""
    power_cap_ratio: float = 1.0
    """What the power limit leaves of the assumed parts; 1 where they are measured."""

    def gemm_ratio(self, precision: Precision) -> float:
        """The part of a format's peak, or that of the format likest to it."""
        return _nearest(self.gemm, precision)

    def weight_read_ratio(self, precision: Precision) -> float:
        """The part of the bandwidth at which weights of a format are read."""
        return _nearest(self.weight_read, precision)

    def decode_attention_ratio(self, precision: Precision) -> float:
        """The part of the bandwidth at which a cache of a format is read."""
        return _nearest(self.decode_attention, precision)


@dataclass(frozen=True, slots=True)
class AllReduce:
    """What a sum over several GPUs costs."""

    bytes_per_second: float
    """Bus bandwidth: algorithm bandwidth times 2 (n - 1) / n, as the NCCL tests print it."""
    small_message_seconds: float


def _nearest(ratios: Mapping[Precision, float], precision: Precision) -> float:
    while precision not in ratios and precision in _STAND_INS:
        precision = _STAND_INS[precision]
    return ratios[precision]
