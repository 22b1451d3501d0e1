"""What it costs that GPUs tell each other their parts: sums over all of them, and handing on."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.efficiency import AllReduce

__all__ = ["all_reduce_seconds", "send_seconds"]

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
