"""Measured kernels of experts: how much longer a layer takes than its reads and products."""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from msgspec import Struct

from rightsizer.catalogue.board import Board
from rightsizer.model.table import table_rows

TABLE: Final = "expert_kernels.csv"
SHAPES: Final = "expert_shapes.csv"
READS_SECONDS: Final = (1e-6, 8e-6, 64e-6, 512e-6, 4096e-6)
"""Times to read a layer's used weights at full bandwidth that have a row of the table."""
ROWS: Final = (1, 4, 16, 64, 256, 1024, 8192)
"""Mean tokens of a used expert that have a column."""
WIDTHS: Final = (128, 2048)
"""Widths of an expert's part on one GPU that have rows."""
TOKENS: Final = (1, 16384)
GROUPS: Final = (1, 32)
"""Tokens of a pass, and GPUs that an expert is cut over, for which the deviations of measured
models are stated."""
FIXED_SECONDS: Final = 20e-6
"""In what is multiplied, beside reads and products: factors then vary less over small layers."""

_Factors = Sequence[Sequence[float]]
_Logs = tuple[float, ...]
_Key = tuple[str, str, str]
"""Engine, format, compute capability."""


def _logarithms(values: Sequence[float]) -> _Logs:
    return tuple(math.log(value) for value in values)


_LOG_READS: Final = _logarithms(READS_SECONDS)
_LOG_ROWS: Final = _logarithms(ROWS)
_LOG_WIDTHS: Final = _logarithms(WIDTHS)
_LOG_TOKENS: Final = _logarithms(TOKENS)
_LOG_GROUPS: Final = _logarithms(GROUPS)
_UNMEASURED: Final = (0.0,) * len(TOKENS) * len(GROUPS)


class ExpertShape(NamedTuple):
    """What kernels of experts depend on in a model."""

    hidden: int
    """Width of what experts receive and return."""
    width: int
    chosen: int
    """Experts of a token."""
    experts: int


class ExpertKernels(Struct, frozen=True):
    """Kernels of one engine, format and compute capability, for experts of one width."""

    factors: tuple[_Logs, ...]
    """Logarithms, by time to read (rows) and tokens of an expert (columns)."""
    deviations: _Logs = (0.0, 0.0)
    """Further ones of the model's own shape, by tokens of a pass; 0 if it was not measured."""
    is_shape_measured: bool = False
    fixed_seconds: float = FIXED_SECONDS

    def factor(self, read_seconds: float, rows: float, tokens: float) -> float:
        """How much longer a layer takes than reads, products and a fixed time; held beyond ends."""
        down, below = _place(_LOG_READS, math.log(read_seconds))
        along, right = _place(_LOG_ROWS, math.log(rows))
        upper, lower = self.factors[down : down + 2]
        first = upper[along] + right * (upper[along + 1] - upper[along])
        second = lower[along] + right * (lower[along + 1] - lower[along])
        few, many = self.deviations
        _, share = _place(_LOG_TOKENS, math.log(tokens))
        return math.exp(first + below * (second - first) + few + share * (many - few))


def expert_kernels(
    engine: str, number_format: str, board: Board, shape: ExpertShape, tensor: int
) -> ExpertKernels | None:
    """Kernels for experts cut over a group of GPUs, or `None` if nothing alike was measured."""
    major, minor = board.compute_capability
    key = (engine, number_format, f"{major}.{minor}")
    tables = _tables().get(key)
    if tables is None:
        return None
    place, wide = _place(_LOG_WIDTHS, math.log(shape.width / tensor))
    pairs = zip(tables[place], tables[place + 1], strict=True)
    factors = tuple(_between(*pair, wide) for pair in pairs)
    measured = _deviations().get((key, shape))
    deviations = measured or _UNMEASURED
    _, cut = _place(_LOG_GROUPS, math.log(tensor))
    few_and_many = _between(deviations[:2], deviations[2:], cut)
    return ExpertKernels(factors, few_and_many, is_shape_measured=measured is not None)


@cache
def _tables() -> Mapping[_Key, Sequence[_Factors]]:
    """Logarithms by width, time to read and tokens of an expert."""
    tables = defaultdict[_Key, list[list[_Logs]]](lambda: [[] for _ in WIDTHS])
    for row in table_rows(__file__, TABLE):
        tables[_key(row)][WIDTHS.index(int(row["width"]))].append(_factors(row))
    return tables


@cache
def _deviations() -> Mapping[tuple[_Key, ExpertShape], _Logs]:
    """Logarithms of measured models: of few and many tokens, whole and cut."""
    return {
        (_key(row), ExpertShape(*map(int, row["shape"].split()))): _factors(row)
        for row in table_rows(__file__, SHAPES)
    }


def _key(row: Mapping[str, str]) -> _Key:
    return row["engine"], row["format"], row["compute_capability"]


def _factors(row: Mapping[str, str]) -> _Logs:
    return _logarithms([float(factor) for factor in row["factors"].split()])


def _place(nodes: Sequence[float], value: float) -> tuple[int, float]:
    """Node at or before a value, and its share of the way to the next; ends hold beyond them."""
    place = min(max(bisect_right(nodes, value), 1), len(nodes) - 1) - 1
    share = (value - nodes[place]) / (nodes[place + 1] - nodes[place])
    return place, min(max(share, 0.0), 1.0)


def _between(first: Sequence[float], second: Sequence[float], share: float) -> _Logs:
    return tuple(start + share * (end - start) for start, end in zip(first, second, strict=True))
