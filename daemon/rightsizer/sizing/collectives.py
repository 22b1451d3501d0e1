"""Exchanges between GPUs: which of them share a server, sums, transfers."""

import math
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import AllReduce, Board

SERVER_GPUS: Final = 8
"""In a usual server; used first if more GPUs exchange."""
_ENGINE_LATENCY_SECONDS: Final = {2: 6.4e-6, 4: 9.6e-6, 8: 15.75e-6}
"""Maximum latency of a small all-reduce over dedicated links, by GPUs: serving engines use kernels
of their own for small messages, so NCCL's higher latency on newer boards does not apply. Measured
on the H100 SXM (kernel tables of aiconfigurator-core 0.12.0). Other vendors' boards have none: nine
steps of Llama 3.1 on eight MI300X are x1.15 off without, x1.21 with them (ROCm/vllm)."""
_PAIR: Final = 2
_PCIE_SHARE: Final = 0.6
_SLOT_SHARE: Final = 0.2
"""Minimum fraction of slot bandwidth reached by all-reduces without links: geometric mean of those
measured over 4 and 8 L40S (0.18, 0.05) and RTX PRO 6000 (0.42, 0.39)."""
_STAGED_SECONDS: Final = 17e-6
"""Further latency of an all-reduce through the host's memory: 40 us over eight RTX 4090 (NCCL's
issue 1530), 23 us over eight L40S that reach each other."""
_SMALL_SECONDS: Final = 1e-5
"""Latency of a transfer, and of each doubling of an unmeasured group; assumed."""
_SEND_SHARE: Final = 0.85
"""Fraction of link bandwidth from one GPU to the next (85-92% over PCIe)."""


class HostLink(StrEnum):
    """What joins the GPUs of a host."""

    NVLINK = "nvlink"
    """Links of the boards' own, of any vendor."""
    PCIE = "pcie"
    """Each reads the memory of another."""
    NONE = "none"
    """No peer access: all goes through the host's memory."""


def joined_by(board: Board, link: HostLink | None) -> Board | None:
    """Return a board as a host joins it; `None` if it lacks such links.

    By default by all it has. Of boards without links, sums over PCIe are as the catalogue says.
    """
    if link is None:
        return board
    if link is HostLink.NVLINK:
        return board if board.link_bytes_per_second else None
    reached = replace(board, reaches_peers=link is HostLink.PCIE)
    if not board.link_bytes_per_second:
        return reached
    return replace(
        reached,
        nvlink_generation=None,
        nvlink_bytes_per_second=0.0,
        infinity_fabric_bytes_per_second=0.0,
        linked_gpu_count=None,
        all_reduce={},
    )


def joined_gpus(board: Board, server_gpus: int = SERVER_GPUS) -> int:
    """Number of GPUs connected without a network: by links, or in a usual server."""
    return max(server_gpus, board.linked_gpu_count or 1)


class ServerLinks(Struct, frozen=True):
    """Links of equal boards, and the network between their servers.

    Neighbors fill a server before the next one: tensor parallel ranks, then replicas, then stages.
    """

    board: Board
    network_bytes_per_second: float
    """Send rate of each GPU."""
    server_gpus: int = SERVER_GPUS

    @property
    def joined(self) -> int:
        """Number of GPUs connected without a network."""
        return joined_gpus(self.board, self.server_gpus)

    def servers(self, gpus: int) -> float:
        """Number of servers with so many neighbors."""
        return max(1.0, gpus / self.joined)

    def neighbors(self, gpus: int, apart: int = 1) -> int:
        """How many of a group with so many GPUs from one to the next share a server."""
        return max(1, min(gpus, self.joined // apart))

    def sum_seconds(self, gpus: int, payload_bytes: float, apart: int = 1) -> float:
        """Time of an all-reduce: first within each server, then each part between servers."""
        inside = self.neighbors(gpus, apart)
        seconds = all_reduce_seconds(self.board, inside, payload_bytes)
        servers = gpus / inside
        if servers <= 1.0:
            return seconds
        moved = 2.0 * (servers - 1.0) / servers * payload_bytes / inside
        latency = 2.0 * _SMALL_SECONDS * math.log2(servers)
        return seconds + latency + moved / self.network_bytes_per_second

    def stage_seconds(self, stages: int, tensor: int, payload_bytes: float) -> float:
        """Time of the transfers from the first stage of a pipeline to its last.

        Over the network each rank sends its part.
        """
        far = min(stages, math.ceil(self.servers(stages * tensor))) - 1
        sent = payload_bytes / tensor / self.network_bytes_per_second
        near = (stages - 1 - far) * send_seconds(self.board, payload_bytes)
        return near + far * (_SMALL_SECONDS + sent)


def all_reduce_seconds(board: Board, gpus: int, payload_bytes: float) -> float:
    """Time of an all-reduce over equal boards."""
    if gpus == 1:
        return 0.0
    cost = _all_reduce(board, gpus)
    moved = 2.0 * (gpus - 1) / gpus * payload_bytes
    return cost.small_message_seconds + moved / cost.bytes_per_second


def send_seconds(board: Board, payload_bytes: float) -> float:
    """Time of a transfer to the next pipeline stage."""
    link = board.link_bytes_per_second or board.pcie_bytes_per_second
    if not (board.link_bytes_per_second or board.reaches_peers):
        link /= 2.0  # In turn to the host, and from it.
    return _SMALL_SECONDS + payload_bytes / (_SEND_SHARE * link)


def other_servers(servers: float, choices: float) -> float:
    """Mean number of servers beside a token's own that have experts which it chooses.

    Each of its independent choices falls on any of the servers.
    """
    return (servers - 1.0) * (1.0 - math.pow(1.0 - 1.0 / servers, choices))


def _all_reduce(board: Board, gpus: int) -> AllReduce:
    """Cost for a group of this size or the next larger one, as measured or assumed."""
    least = _SLOT_SHARE * board.pcie_bytes_per_second
    if not board.all_reduce:
        pair = _PCIE_SHARE * board.pcie_bytes_per_second
        cost = AllReduce(pair if gpus <= _PAIR else least, _SMALL_SECONDS * gpus)
        return cost if board.reaches_peers else _staged(cost, least)
    largest = max(board.all_reduce)
    count = min((gpu_count for gpu_count in board.all_reduce if gpu_count >= gpus), default=largest)
    cost = board.all_reduce[count]
    if count < gpus:
        # Group larger than any known one: bandwidth of the largest, latency in proportion.
        return AllReduce(cost.bytes_per_second, cost.small_message_seconds * gpus / largest)
    if not (board.link_bytes_per_second and count <= (board.linked_gpu_count or 0)):
        if not board.reaches_peers:
            return _staged(cost, least)
        # Servers differ; a measurement on one of them may not apply to others.
        return AllReduce(max(least, cost.bytes_per_second), cost.small_message_seconds)
    if board.vendor != "NVIDIA":
        return cost
    small = min(cost.small_message_seconds, _ENGINE_LATENCY_SECONDS[count])
    return AllReduce(cost.bytes_per_second, small)


def _staged(cost: AllReduce, bytes_per_second: float) -> AllReduce:
    """Cost through the host's memory, which is written and read for each message."""
    return AllReduce(bytes_per_second, cost.small_message_seconds + _STAGED_SECONDS)
