"""What a kind of board supports; what it does not answers NOT_SUPPORTED, never 0."""

from dataclasses import dataclass
from functools import cache
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.telemetry.simulated.physics import nvlink_is_up

__all__ = ["Support", "support_of"]

_ARCHITECTURES: Final = {
    "Pascal": 4,
    "Volta": 5,
    "Turing": 6,
    "Ampere": 7,
    "Ada": 8,
    "Hopper": 9,
    "Blackwell": 10,
}
_UNKNOWN_ARCHITECTURE: Final = 0xFFFFFFFF
_TESLA, _GEFORCE, _QUADRO_RTX, _NVIDIA_RTX, _NVIDIA = 2, 5, 12, 13, 14
_LINK_BYTES_PER_SECOND: Final = {1: 20e9, 2: 25e9, 3: 25e9, 4: 25e9, 5: 50e9}
_HAS_PROFILING: Final = (9, 0)
_HAS_JPEG: Final = (8, 0)
_HAS_OFA: Final = (7, 5)
_HAS_ROW_REMAPPING: Final = (8, 0)


@dataclass(frozen=True, slots=True)
class Support:
    """The capabilities of a board and its driver together."""

    architecture: int
    brand: int
    profiling: bool
    """GPM, the metrics that need no profiler."""
    mig: bool
    ecc: bool
    row_remapping: bool
    retired_pages: bool
    memory_temperature: bool
    jpeg: bool
    ofa: bool
    fan: bool
    nvlink_version: int
    nvlink_links: int
    nvlink_up: bool
    averages_power: bool
    """Whether power is a one-second mean; else it is instantaneous."""


@cache
def _support(key: str, names: str, board: "_Facts") -> Support:
    geforce = "GeForce" in names
    ecc = not geforce
    hbm = board.memory_type.startswith("HBM")
    capability = board.compute_capability
    links = round(
        board.nvlink_bytes_per_second
        / _LINK_BYTES_PER_SECOND.get(board.nvlink_generation or 0, 25e9)
    )
    return Support(
        architecture=_ARCHITECTURES.get(board.architecture, _UNKNOWN_ARCHITECTURE),
        brand=_brand(names),
        profiling=capability >= _HAS_PROFILING and not geforce,
        mig=board.has_mig,
        ecc=ecc,
        row_remapping=ecc and capability >= _HAS_ROW_REMAPPING,
        retired_pages=ecc and capability < _HAS_ROW_REMAPPING,
        memory_temperature=hbm or board.architecture == "Blackwell",
        jpeg=capability >= _HAS_JPEG and (capability != (8, 6)),
        ofa=capability >= _HAS_OFA,
        fan=key.startswith("RTX") and "SE" not in key,
        nvlink_version=(board.nvlink_generation or 0) if links else 0,
        nvlink_links=links,
        nvlink_up=board.nvlink_up,
        averages_power=capability > (8, 0),
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    """The part of a board that can be hashed."""

    architecture: str
    compute_capability: tuple[int, int]
    memory_type: str
    nvlink_generation: int | None
    nvlink_bytes_per_second: float
    nvlink_up: bool
    has_mig: bool


def support_of(board: Board) -> Support:
    """What a board supports."""
    facts = _Facts(
        board.architecture,
        board.compute_capability,
        board.memory_type,
        board.nvlink_generation,
        board.nvlink_bytes_per_second,
        nvlink_is_up(board),
        bool(board.mig_profiles),
    )
    return _support(board.key, board.names[0], facts)


def _brand(name: str) -> int:
    if name.startswith("Tesla"):
        return _TESLA
    if "GeForce" in name:
        return _GEFORCE
    if name.startswith("Quadro RTX"):
        return _QUADRO_RTX
    return _NVIDIA_RTX if " RTX " in name else _NVIDIA
