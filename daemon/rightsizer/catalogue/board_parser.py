"""Entry of a board in a catalogue file: figures, efficiencies, MIG, assumptions."""

import math
import re
from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from rightsizer.catalogue.board import (
    AllReduce,
    Board,
    Efficiency,
    FactOrigin,
    MigProfile,
    OriginKind,
    Precision,
)
from rightsizer.model.settings import Spec

EFFICIENCIES: Final = ("gemm", "weight_read", "decode_attention")
"""Keys of the efficiency tables."""
FIGURES: Final[Mapping[str, tuple[str, float]]] = {
    "nominal_memory_bytes": ("memory_gb", 1e9),
    "memory_bytes": ("memory_mib", 2.0**20),
    "memory_bandwidth_bytes_per_second": ("memory_bandwidth_gbs", 1e9),
    "l2_bytes": ("l2_mb", 1e6),
    "sm_count": ("sm_count", 1),
    "power_limit_watts": ("power_limit_watts", 1.0),
    "sm_clock_maximum_hertz": ("sm_clock_maximum_mhz", 1e6),
    "pcie_generation": ("pcie_generation", 1),
    "pcie_width": ("pcie_width", 1),
    "nvlink_generation": ("nvlink_generation", 1),
    # The file has the sum of both directions, a board one direction.
    "nvlink_bytes_per_second": ("nvlink_total_gbs", 1e9 / 2),
    "infinity_fabric_bytes_per_second": ("infinity_fabric_total_gbs", 1e9 / 2),
    "linked_gpu_count": ("linked_gpus", 1),
}
"""Numbers of a board: key in a file, and the unit that they are in there."""
_WITHOUT_PEERS: Final = re.compile("GeForce")
"""Boards whose driver gives no peer access over PCIe (vLLM and NCCL go through the host there)."""
_CAPABILITY: Final = re.compile(r"\d{1,3}\.\d")
_USUAL_PCIE: Final = FactOrigin(OriginKind.ASSUMED, "PCIe 4 with 16 lanes, as most have it")
_USUAL: Final[Mapping[str, int]] = {"pcie_generation": 4, "pcie_width": 16}
_MEASURED: Final = "kernel-tables"
_OVERHEAD_BYTES: Final = 205 * 2**20
"""Subtracted once per instance and once more by its share. Matches an H100 within 0.3%
(9984, 20096, 40448 and 81152 MiB) and an A100 80 GB within 1.5% (9856 MiB)."""


def _capability(value: object) -> object:
    if not _CAPABILITY.fullmatch(str(value)):
        raise ValueError(f'must be a text (got {value!r}); write it like "9.0"')
    return str(value)


def _share(value: object) -> object:
    """Share as a number, which may be written `1/7`."""
    above, slash, under = str(value).partition("/")
    try:
        return float(above) / float(under) if slash else value
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"must be a share like 1/7 or 0.125 (got '{value}')") from None


def _text_keys(value: object) -> object:
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else value


Count: TypeAlias = Annotated[int, Spec(within=(1, 10_000))]
Share: TypeAlias = Annotated[float, Spec(within=(0.001, 1.0), parse=_share)]
Ratios: TypeAlias = Mapping[Precision, Annotated[float, Spec(within=(0.001, 1.0))]]
Peaks: TypeAlias = Mapping[Precision, Annotated[float, Spec(within=(0.001, 1e6))]]


class AllReduceCells(Struct, frozen=True, array_like=True):
    """Bus bandwidth, in GB/s or as a part of the interconnect's, and the least delay."""

    bandwidth: Annotated[float, Spec(within=(1e-3, 1e5))]
    microseconds: Annotated[float, Spec(within=(1e-3, 1e6))]

    def cost(self, unit: float) -> AllReduce:
        """Cost with the bandwidth in a unit."""
        return AllReduce(self.bandwidth * unit, self.microseconds / 1e6)


class AllReduceEntry(Struct, frozen=True):
    """Measured all-reduces by the number of GPUs."""

    two: AllReduceCells | None = field(name="2", default=None)
    four: AllReduceCells | None = field(name="4", default=None)
    eight: AllReduceCells | None = field(name="8", default=None)

    @property
    def by_count(self) -> Mapping[int, AllReduceCells | None]:
        """Cells by the number of GPUs."""
        return {2: self.two, 4: self.four, 8: self.eight}


class AllReduceTable(AllReduceEntry, frozen=True):
    """Usual all-reduces over an interconnect."""

    source: str = ""


class EfficiencyEntry(Struct, frozen=True):
    """Measured parts of peaks and of the memory bandwidth."""

    gemm: Ratios = {}
    weight_read: Ratios = {}
    decode_attention: Ratios = {}


class EfficiencyTable(EfficiencyEntry, frozen=True):
    """Usual parts of similar boards."""

    full_speed_watts_per_tera: float | None = None
    """Watts for each dense 16-bit tera-operation that hold the clocks; 0 for any."""
    source: str = ""


class CatalogueAssumptions(Struct, frozen=True):
    """What is taken where nothing was measured."""

    efficiency: Mapping[str, EfficiencyTable]
    all_reduce: Mapping[str, Annotated[AllReduceTable, Spec(parse=_text_keys)]]


class MigCells(Struct, frozen=True, array_like=True):
    """Profile of MIG instances."""

    name: str
    compute_share: Share
    memory_share: Share
    sm_count: Count | None
    maximum_count: Annotated[int, Spec(within=(1, 100))]
    visible_mib: Annotated[float | None, Spec(within=(1, 10_000_000))] = None

    def profile(self, board_bytes: float) -> MigProfile:
        """Profile on a board with this much memory."""
        overhead_bytes = _OVERHEAD_BYTES * (1.0 + self.memory_share)
        assumed_bytes = max(0.0, board_bytes * self.memory_share - overhead_bytes)
        mib = self.visible_mib
        return MigProfile(
            name=self.name,
            compute_share=self.compute_share,
            memory_share=self.memory_share,
            sm_count=self.sm_count,
            maximum_count=self.maximum_count,
            memory_bytes=assumed_bytes if mib is None else mib * 2.0**20,
            is_memory_assumed=mib is None,
        )


class BoardEntry(Struct, frozen=True):
    """Entry of a board."""

    architecture: str
    compute_capability: Annotated[str, Spec(parse=_capability)]
    sm_count: Count
    memory_mib: Annotated[float, Spec(within=(1024, 10_000_000))]
    memory_bandwidth_gbs: Annotated[float, Spec(within=(10, 100_000))]
    power_limit_watts: Annotated[float, Spec(within=(1, 10_000))]
    dense_peak_tera: Peaks
    names: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()
    release_year: Annotated[int | None, Spec(within=(2006, 2100))] = None
    memory_gb: Annotated[float | None, Spec(within=(1, 10_000))] = None
    l2_mb: Annotated[float | None, Spec(within=(0.1, 10_000))] = None
    sm_clock_maximum_mhz: Annotated[float | None, Spec(within=(100, 10_000))] = None
    pcie_generation: Annotated[int | None, Spec(within=(1, 6))] = None
    pcie_width: Annotated[int | None, Spec(within=(1, 32))] = None
    nvlink_generation: Annotated[int | None, Spec(within=(1, 20))] = None
    nvlink_total_gbs: Annotated[float, Spec(within=(1, 100_000))] = 0.0
    infinity_fabric_total_gbs: Annotated[float, Spec(within=(1, 100_000))] = 0.0
    linked_gpus: Annotated[int | None, Spec(within=(2, 10_000))] = None
    efficiency: EfficiencyEntry = EfficiencyEntry()
    all_reduce: Annotated[AllReduceEntry, Spec(parse=_text_keys)] = AllReduceEntry()
    mig_profiles: tuple[MigCells, ...] = ()
    verified: Mapping[str, tuple[str, ...]] = {}
    vendor: str = "NVIDIA"
    form_factor: str = ""
    memory_type: str = ""
    source: str = ""
    notes: str = ""

    def __post_init__(self) -> None:
        if bool(self.nvlink_generation) != bool(self.nvlink_total_gbs):
            fault = "NVLink needs nvlink_generation and nvlink_total_gbs both"
            raise ValueError(f"nvlink_total_gbs: {fault}")
        if Precision.BF16 not in self.dense_peak_tera:
            fault = "needs bf16, in dense tera-operations: {bf16: 989.4}"
            raise ValueError(f"dense_peak_tera: {fault}")

    def board(self, key: str, texts: Mapping[str, str], assumptions: CatalogueAssumptions) -> Board:
        """Board by key; `texts` has the sources by the short names used in entries."""
        assumed = {name: usual for name, usual in _USUAL.items() if getattr(self, name) is None}
        entry = replace(self, **assumed)
        major, minor = self.compute_capability.split(".")
        bare = Board(
            key=key,
            names=self.names,
            other_names=self.other_names,
            architecture=self.architecture,
            compute_capability=(int(major), int(minor)),
            release_year=self.release_year,
            peak_per_second={
                precision: peak * 1e12 for precision, peak in self.dense_peak_tera.items()
            },
            vendor=self.vendor,
            form_factor=self.form_factor,
            memory_type=self.memory_type,
            source=self.source,
            notes=self.notes,
            reaches_peers=not any(map(_WITHOUT_PEERS.search, self.names)),
            **entry.figures(),
        )
        measured = FactOrigin(OriginKind.MEASURED, texts.get(_MEASURED, ""))
        board, of_efficiency = _with_efficiency(self.efficiency, bare, assumptions, measured)
        costs, of_all_reduce = _all_reduce(self.all_reduce, bare, assumptions, measured)
        verified = {
            figure: FactOrigin(OriginKind.VERIFIED, texts.get(source, source))
            for source, figures in self.verified.items()
            for figure in figures
        }
        usual = dict.fromkeys(assumed, _USUAL_PCIE)
        return replace(
            board,
            mig_profiles=tuple(cells.profile(bare.memory_bytes) for cells in self.mig_profiles),
            all_reduce=costs,
            origins=usual | of_efficiency | of_all_reduce | verified,
        )

    def figures(self) -> dict[str, Any]:
        """Numbers of the board in its own units."""
        given = ((name, getattr(self, key), unit) for name, (key, unit) in FIGURES.items())
        return {name: None if value is None else value * unit for name, value, unit in given}


def _with_efficiency(
    entry: EfficiencyEntry, board: Board, assumptions: CatalogueAssumptions, measured: FactOrigin
) -> tuple[Board, dict[str, FactOrigin]]:
    """Add the efficiency to a board, with the origin of each figure.

    Among tables of similar boards, the most specific wins, per figure. A power limit lowers the
    clock, which follows its square root, but not the fraction of cycles in which a pipe is busy.
    """
    given: dict[str, Mapping[Precision, float]] = {
        kind: getattr(entry, kind) for kind in EFFICIENCIES
    }
    capability = "{}.{}".format(*board.compute_capability)
    names = ("default", board.architecture, f"{board.architecture} {capability}", board.key)
    tables = [table for name in names if (table := assumptions.efficiency.get(name))]
    assumed: dict[str, dict[Precision, float]] = {kind: {} for kind in EFFICIENCIES}
    for table, kind in product(tables, EFFICIENCIES):
        assumed[kind] |= getattr(table, kind)
    watts = [table.full_speed_watts_per_tera for table in tables]
    watts_per_tera = next((watt for watt in reversed(watts) if watt is not None), 0.0)
    source = next((table.source for table in reversed(tables) if table.source), "")
    is_measured = Precision.BF16 in given["gemm"]
    peak = board.peak_per_second
    needed = 0.0 if is_measured else watts_per_tera * peak[Precision.BF16] / 1e12
    cap = min(1.0, math.sqrt(board.power_limit_watts / needed)) if needed else 1.0
    gemm = {
        precision: ratio * (1.0 if precision is Precision.FP32 else cap)
        for precision, ratio in assumed["gemm"].items()
        if precision in peak
    }
    usual = {**assumed, "gemm": gemm}
    reached = {kind: {**usual[kind], **given[kind]} for kind in EFFICIENCIES}
    efficiency = Efficiency(**reached, power_cap_ratio=cap)
    origins = {"efficiency": FactOrigin(OriginKind.ASSUMED, source)} | {
        f"efficiency.{kind}.{precision}": measured for kind in given for precision in given[kind]
    }
    rated_board = replace(
        board,
        efficiency=efficiency,
        achievable_compute_ratio=(given if is_measured else assumed)["gemm"][Precision.BF16],
        achievable_bandwidth_ratio=efficiency.weight_read[Precision.BF16],
    )
    return rated_board, origins


def _all_reduce(
    entry: AllReduceEntry, board: Board, assumptions: CatalogueAssumptions, measured: FactOrigin
) -> tuple[dict[int, AllReduce], dict[str, FactOrigin]]:
    costs: dict[int, AllReduce] = {}
    origins: dict[str, FactOrigin] = {}
    for count, given in entry.by_count.items():
        interconnect, bandwidth = _interconnect(board, count)
        table = assumptions.all_reduce.get(interconnect, AllReduceTable())
        usual = table.by_count[count]
        if given is not None:
            costs[count] = given.cost(1e9)
            origins[f"all_reduce.{count}"] = measured
        elif usual is not None:
            costs[count] = usual.cost(bandwidth)
            source = f"{interconnect}: {table.source}"
            origins[f"all_reduce.{count}"] = FactOrigin(OriginKind.ASSUMED, source)
    return costs, origins


def _interconnect(board: Board, count: int) -> tuple[str, float]:
    """Name and bandwidth of the interconnect between this number of boards."""
    if count <= (board.linked_gpu_count or 0) and board.link_bytes_per_second:
        generation = board.nvlink_generation
        interconnect = "Infinity Fabric" if generation is None else f"NVLink {generation}"
        return interconnect, board.link_bytes_per_second
    return f"PCIe {board.pcie_generation}", board.pcie_bytes_per_second
