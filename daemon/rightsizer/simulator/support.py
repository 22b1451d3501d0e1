"""Table of board features by architecture; determines every NOT_SUPPORTED answer."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from rightsizer.catalogue.board import Board
from rightsizer.model.table import table_rows
from rightsizer.simulator.physics import has_switches, link_count, nvlink_is_up


class BoardFeature(StrEnum):
    """A feature that a board's driver may offer."""

    UTILIZATION = "utilization"
    ENCODER_DECODER = "encoder_decoder"
    JPEG = "jpeg"
    OFA = "ofa"
    MEMORY = "memory"
    POWER = "power"
    POWER_AVERAGE = "power_average"
    """Power is a mean over a second; otherwise instantaneous."""
    ENERGY = "energy"
    CLOCKS = "clocks"
    APPLICATION_CLOCKS = "application_clocks"
    CLOCK_EVENTS = "clock_events"
    TEMPERATURE = "temperature"
    TEMPERATURE_THRESHOLDS = "temperature_thresholds"
    TEMPERATURE_MARGIN = "temperature_margin"
    MEMORY_TEMPERATURE = "memory_temperature"
    FANS = "fans"
    PCIE = "pcie"
    PCIE_COUNTERS = "pcie_counters"
    """Bytes since the driver was loaded."""
    NVLINK = "nvlink"
    NVLINK_NEW_COUNTERS = "nvlink_new_counters"
    """Packets, symbol errors and bit error rates."""
    FABRIC = "fabric"
    ECC = "ecc"
    VOLATILE_ECC = "volatile_ecc"
    ROW_REMAPPING = "row_remapping"
    RETIRED_PAGES = "retired_pages"
    GPM = "gpm"
    PROCESSES = "processes"
    PROCESS_UTILIZATION = "process_utilization"
    MIG = "mig"
    NUMA_NODE = "numa_node"
    """The GPU's memory is a NUMA node of the host."""
    SERIAL = "serial"
    CORES = "cores"


SUPPORT_TABLE: Final[Mapping[BoardFeature, Mapping[str, str]]] = {
    BoardFeature(row["feature"]): row for row in table_rows(__file__, "support.csv")
}
"""By feature and architecture: `y`, `n` or a trait (`_traits`); `with_mig` tells whether a GPU with
MIG instances has the feature."""
ARCHITECTURES: Final = tuple(SUPPORT_TABLE[BoardFeature.MEMORY])[1:-1]
_ARCHITECTURE_CODES: Final = {name: code for code, name in enumerate(ARCHITECTURES, 4)}
_UNKNOWN_ARCHITECTURE: Final = 0xFFFFFFFF
_TESLA = 2
_GEFORCE = 5
_QUADRO_RTX = 12
_NVIDIA_RTX = 13
_NVIDIA = 14
_NVLINK_VERSIONS: Final = {1: 1, 2: 2, 3: 5, 4: 6, 5: 7}
"""NVML's codes by generation, for example 5 for an A100's third."""
_WITHOUT_JPEG: Final = (8, 6)
_GA100: Final = (8, 0)


class BoardSupport(Struct, frozen=True):
    """Capabilities of a board with its driver."""

    architecture: int
    brand: int
    features: frozenset[BoardFeature]
    features_with_mig: frozenset[BoardFeature]
    """Features of a GPU with MIG instances."""
    nvlink_version: int
    """NVML's code; 0 without NVLink."""
    nvlink_links: int
    nvlink_up: bool
    """Whether its links are connected."""

    def has(self, feature: BoardFeature) -> bool:
        """Whether the undivided GPU has a feature."""
        return feature in self.features


_CACHE: Final[dict[str, tuple[Board, BoardSupport]]] = {}


def support_of(board: Board) -> BoardSupport:
    """Return the capabilities of a board."""
    cached = _CACHE.get(board.key)
    if cached is None or (cached[0] is not board and cached[0] != board):
        _CACHE[board.key] = cached = board, _support(board)
    return cached[1]


def _support(board: Board) -> BoardSupport:
    traits = {"y", *_traits(board)}
    features = frozenset(
        feature
        for feature, row in SUPPORT_TABLE.items()
        if row.get(board.architecture, "n") in traits
    )
    has_links = BoardFeature.NVLINK in features
    return BoardSupport(
        architecture=_ARCHITECTURE_CODES.get(board.architecture, _UNKNOWN_ARCHITECTURE),
        brand=_brand(board.usual_name),
        features=features,
        features_with_mig=frozenset(
            feature for feature in features if SUPPORT_TABLE[feature]["with_mig"]
        ),
        nvlink_version=_NVLINK_VERSIONS.get(board.nvlink_generation or 0, 0) if has_links else 0,
        nvlink_links=link_count(board) if has_links else 0,
        nvlink_up=has_links and nvlink_is_up(board),
    )


def _traits(board: Board) -> Iterator[str]:
    """Yield the traits that differ between boards of one architecture."""
    holds = {
        # Datacenter or workstation boards, which have ECC.
        "datacenter": not any("GeForce" in name for name in board.names),
        "hbm": board.memory_type.startswith("HBM"),
        "jpeg": board.compute_capability != _WITHOUT_JPEG,
        "fan": board.key.startswith("RTX") and "SE" not in board.key,
        "averaged": board.compute_capability > _GA100,
        "nvlink": bool(board.nvlink_bytes_per_second),
        "switched": has_switches(board),
        "mig": bool(board.mig_profiles),
        "grace": board.key.startswith(("GH", "GB")),
    }
    return (trait for trait, is_so in holds.items() if is_so)


def _brand(name: str) -> int:
    if name.startswith("Tesla"):
        return _TESLA
    if "GeForce" in name:
        return _GEFORCE
    if name.startswith("Quadro RTX"):
        return _QUADRO_RTX
    return _NVIDIA_RTX if " RTX " in name else _NVIDIA
