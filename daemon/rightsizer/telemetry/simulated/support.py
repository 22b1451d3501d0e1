"""What a board supports with its driver: its row of the table, and NVML's numbers for it."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.telemetry.simulated.feature import SUPPORT, Feature, Trait
from rightsizer.telemetry.simulated.nvlinks import has_switches, link_count
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
_NVLINK_VERSIONS: Final = {1: 1, 2: 2, 3: 5, 4: 6, 5: 7}
"""NVML's codes for generations: an A100, of the third, answers 5."""
_WITHOUT_JPEG: Final = (8, 6)
_GA100: Final = (8, 0)
_BOARDS: Final = 256


@dataclass(frozen=True, slots=True)
class Support:
    """The capabilities of a board and its driver together."""

    architecture: int
    brand: int
    features: frozenset[Feature]
    features_when_cut: frozenset[Feature]
    """Of a GPU with MIG instances."""
    nvlink_version: int
    """NVML's code; 0 without NVLink."""
    nvlink_links: int
    nvlink_up: bool
    """Whether its links lead somewhere."""

    def has(self, feature: Feature) -> bool:
        """Whether the GPU, whole, offers something."""
        return feature in self.features


def support_of(board: Board) -> Support:
    """What a board supports."""
    return _support(_Keyed(board))


class _Keyed:
    """A board that can be looked up by its key and figures."""

    __slots__ = ("board",)

    def __init__(self, board: Board) -> None:
        self.board = board

    def __hash__(self) -> int:
        return hash(self.board.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.board == other.board


@lru_cache(_BOARDS)
def _support(keyed: _Keyed) -> Support:
    board = keyed.board
    traits = {str(trait) for trait in _traits(board)} | {"y"}
    features = frozenset(
        feature for feature, row in SUPPORT.items() if row.cell(board.architecture) in traits
    )
    has_links = Feature.NVLINK in features
    return Support(
        architecture=_ARCHITECTURES.get(board.architecture, _UNKNOWN_ARCHITECTURE),
        brand=_brand(board.usual_name),
        features=features,
        features_when_cut=frozenset(feature for feature in features if SUPPORT[feature].when_cut),
        nvlink_version=_NVLINK_VERSIONS.get(board.nvlink_generation or 0, 0) if has_links else 0,
        nvlink_links=link_count(board) if has_links else 0,
        nvlink_up=has_links and nvlink_is_up(board),
    )


def _traits(board: Board) -> frozenset[Trait]:
    geforce = any("GeForce" in name for name in board.names)
    answers = {
        Trait.DATACENTER: not geforce,
        Trait.HBM: board.memory_type.startswith("HBM"),
        Trait.JPEG: board.compute_capability != _WITHOUT_JPEG,
        Trait.FAN: board.key.startswith("RTX") and "SE" not in board.key,
        Trait.AVERAGED: board.compute_capability > _GA100,
        Trait.NVLINK: bool(board.nvlink_bytes_per_second),
        Trait.SWITCHED: has_switches(board),
        Trait.MIG: bool(board.mig_profiles),
        Trait.GRACE: board.key.startswith(("GH", "GB")),
    }
    return frozenset(trait for trait, holds in answers.items() if holds)


def _brand(name: str) -> int:
    if name.startswith("Tesla"):
        return _TESLA
    if "GeForce" in name:
        return _GEFORCE
    if name.startswith("Quadro RTX"):
        return _QUADRO_RTX
    return _NVIDIA_RTX if " RTX " in name else _NVIDIA
