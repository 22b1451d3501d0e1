"""Roofline of a board: compute formats, collectives, and seconds of a pass by what they go to."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from rightsizer.catalogue.board import AllReduce, Board, Precision
from rightsizer.sizing.number_format import NumberFormat

_UNITS: Final[Mapping[NumberFormat, Precision]] = MappingProxyType(
    {
        NumberFormat.FP32: Precision.FP32,
        NumberFormat.FP8: Precision.FP8,
        NumberFormat.INT8: Precision.INT8,
        NumberFormat.NVFP4: Precision.FP4,
    }
)
"""Of formats whose engines quantize activations too; all others are unpacked to 16 bits."""


def compute_format(board: Board, number_format: NumberFormat) -> Precision:
    """That of the weights where the board has units for it and they are faster, else 16 bits."""
    precision = _UNITS.get(number_format, Precision.BF16)
    if precision is Precision.FP32 and board.peak(precision) is not None:
        return precision
    own, usual = board.achieved(precision) or 0.0, board.achieved(Precision.BF16) or 0.0
    return precision if own > usual else Precision.BF16


def matrix_flops_per_second(board: Board, number_format: NumberFormat) -> float:
    """What large products of such weights reach; 0 where the board's peak is not known."""
    return board.achieved(compute_format(board, number_format)) or 0.0


_ENGINE_LATENCY_SECONDS: Final[Mapping[int, float]] = MappingProxyType(
    {2: 6.4e-6, 4: 9.6e-6, 8: 15.75e-6}
)
"""Of a small sum over links of their own, by GPUs, at most: serving engines sum small messages with
kernels of their own, so that NCCL's higher figures on newer boards do not count. As measured on the
H100 SXM (kernel tables of aiconfigurator-core 0.12.0)."""
_PCIE_SHARE: Final = 0.6
_SMALL_SECONDS: Final = 1e-5
"""Of handing on, and of each doubling of a group that nobody has measured; assumed."""
_SEND_SHARE: Final = 0.85
"""Of a link's bandwidth, from one GPU to the next (85-92 % over PCIe)."""


def all_reduce_seconds(board: Board, gpus: int, payload_bytes: float) -> float:
    """A sum of so many bytes over so many boards."""
    if gpus == 1:
        return 0.0
    cost = _all_reduce(board, gpus)
    return cost.small_message_seconds + 2.0 * (gpus - 1) / gpus * payload_bytes / (
        cost.bytes_per_second
    )


def send_seconds(board: Board, payload_bytes: float) -> float:
    """Handing so many bytes to the next stage."""
    link = board.link_bytes_per_second or board.pcie_bytes_per_second
    return _SMALL_SECONDS + payload_bytes / (_SEND_SHARE * link)


def _all_reduce(board: Board, gpus: int) -> AllReduce:
    """As measured or assumed for such a group, or the next larger one."""
    count = min((each for each in board.all_reduce if each >= gpus), default=0)
    if not count:
        return _beyond(board, gpus)
    cost = board.all_reduce[count]
    if not (board.link_bytes_per_second and count <= (board.linked_gpu_count or 0)):
        return cost
    small = min(cost.small_message_seconds, _ENGINE_LATENCY_SECONDS[count])
    return AllReduce(cost.bytes_per_second, small)


def _beyond(board: Board, gpus: int) -> AllReduce:
    """Of a group larger than any that is known: as slow as the largest, each step as long."""
    largest = max(board.all_reduce, default=1)
    if largest == 1:
        return AllReduce(_PCIE_SHARE * board.pcie_bytes_per_second, _SMALL_SECONDS * gpus)
    cost = board.all_reduce[largest]
    return AllReduce(cost.bytes_per_second, cost.small_message_seconds * gpus / largest)


class Bound(StrEnum):
    """What most of the time goes to."""

    COMPUTE = "compute"
    BANDWIDTH = "bandwidth"
    COMMUNICATION = "communication"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class PassCost:
    """Parts that add up: of what overlaps, each has what is due to it."""

    compute: float = 0.0
    bandwidth: float = 0.0
    communication: float = 0.0
    latency: float = 0.0

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.compute + self.bandwidth + self.communication + self.latency

    @property
    def bound(self) -> Bound:
        """The largest part."""
        return max(Bound, key=lambda part: float(getattr(self, part.value)))

    def plus(self, other: "PassCost", times: float = 1.0) -> "PassCost":
        """Both, the other several times."""
        return PassCost(
            self.compute + times * other.compute,
            self.bandwidth + times * other.bandwidth,
            self.communication + times * other.communication,
            self.latency + times * other.latency,
        )
