"""The NVLinks of a board: how many, how fast, and which GPU is at the other end."""

from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.telemetry.simulated.physics import nvlink_is_up

__all__ = ["has_switches", "link_count", "link_megabytes_per_second", "peer_of_link"]

_BYTES_PER_SECOND: Final = {1: 20e9, 2: 25e9, 3: 25e9, 4: 25e9, 5: 50e9}
"""One direction of one link, by generation."""
_TOLD_MEGABYTES_PER_SECOND: Final = {1: 20_000, 2: 25_781, 3: 25_781, 4: 26_562, 5: 53_125}
_FIRST_WITH_SWITCHES: Final = 3


def link_count(board: Board) -> int:
    """How many links the board has, whether or not they lead anywhere."""
    each = _BYTES_PER_SECOND.get(board.nvlink_generation or 0, 25e9)
    return round(board.nvlink_bytes_per_second / each)


def link_megabytes_per_second(board: Board) -> int:
    """The speed of a link as the driver tells it, with what framing takes."""
    return _TOLD_MEGABYTES_PER_SECOND.get(board.nvlink_generation or 0, 25_000)


def has_switches(board: Board) -> bool:
    """Whether the links lead to switches, which join all GPUs of a node."""
    return nvlink_is_up(board) and (board.nvlink_generation or 0) >= _FIRST_WITH_SWITCHES


def peer_of_link(board: Board, gpu: int, link: int, gpus: int) -> int | None:
    """The GPU that a link leads to directly; `None` for one to a switch or to nowhere.

    Before NVSwitch the links of a GPU were shared out among its neighbors. Neighbors differ from
    it in one binary digit or more of their index, which makes every link the same from both ends.
    """
    if not nvlink_is_up(board) or has_switches(board):
        return None
    span = 1 << (gpus - 1).bit_length()
    neighbors = min(link_count(board), span - 1)
    if not neighbors:
        return None
    peer = gpu ^ (1 + link % neighbors)
    return peer if peer < gpus else None
