"""How much memory a board, or a MIG instance of it, shows and keeps for itself."""

from typing import Final

from rightsizer.catalogue.board import Board, MigProfile

__all__ = ["instance_memory_bytes", "reserved_memory_bytes"]

_MIB: Final = 2**20
_GRAIN: Final = 128 * _MIB
_INSTANCE_RATIO: Final = 0.99
"""An instance has less than its slices: 9984 of 10195 MiB for an eighth of an H100."""
_RESERVED_RATIO: Final = 0.0075
"""511 to 620 MiB on boards of 80 GB."""


def instance_memory_bytes(board: Board, profile: MigProfile | None) -> int:
    """What the driver says a board or an instance has in all."""
    if profile is None:
        return int(board.memory_bytes)
    return int(board.memory_bytes * profile.memory_share * _INSTANCE_RATIO) // _GRAIN * _GRAIN


def reserved_memory_bytes(board: Board, profile: MigProfile | None) -> int:
    """What the driver keeps for itself."""
    return int(instance_memory_bytes(board, profile) * _RESERVED_RATIO) // _MIB * _MIB
