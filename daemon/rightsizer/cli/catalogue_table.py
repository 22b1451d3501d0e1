"""Many boards for people: a line each."""

from collections.abc import Iterable, Sequence
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.origin import OriginKind
from rightsizer.catalogue.precision import Precision
from rightsizer.catalogue.price import Price
from rightsizer.catalogue.prices import Prices
from rightsizer.cli.short_number import short_number

__all__ = ["table_text"]

_HEADER: Final = (
    "board",
    "architecture",
    "GiB",
    "GB/s",
    "bf16",
    "fp8",
    "fp4",
    "W",
    "links GB/s",
    "MIG",
    "$/h",
    "as of",
)
_TEXTS: Final = frozenset({"board", "architecture", "as of"})
_LEGEND: Final = """\
~ recalled or assumed: nobody compared it with a public table. Peaks in dense tera-operations per
second, links one way, MIG: the most slices. $/h: the median list price of one GPU over clouds in
the months beside it, no quote. 'rightsizer catalogue BOARD' tells where each figure comes from."""
_NOTHING: Final = "-"
_SURE: Final = frozenset({OriginKind.VERIFIED, OriginKind.MEASURED, OriginKind.STATED})
_PEAKS: Final = (Precision.BF16, Precision.FP8, Precision.FP4)
_GIB: Final = 2**30


def table_text(boards: Iterable[Board], prices: Prices) -> str:
    """All of them, under a header, above what the signs mean."""
    rows = [_HEADER, *(_row(board, prices.of(board.key)) for board in boards)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.ljust(width) if name in _TEXTS else cell.rjust(width)
            for cell, width, name in zip(row, widths, _HEADER, strict=True)
        )
        for row in rows
    )
    return "\n".join([*(line.rstrip() for line in lines), "", _LEGEND])


def _row(board: Board, price: Price | None) -> Sequence[str]:
    link = board.link_bytes_per_second
    dollars = None if price is None else price.dollars_per_hour
    return (
        board.key,
        board.architecture,
        _marked(board, "memory_mib", f"{board.memory_bytes / _GIB:.1f}"),
        _marked(board, "memory_bandwidth_gbs", _giga(board.memory_bandwidth_bytes_per_second)),
        *(_peak(board, precision) for precision in _PEAKS),
        _marked(board, "power_limit_watts", short_number(board.power_limit_watts)),
        _marked(board, "nvlink_total_gbs", _giga(link)) if link else _NOTHING,
        str(max((each.maximum_count for each in board.mig_profiles), default=_NOTHING)),
        _NOTHING if dollars is None else f"{dollars:.2f}",
        _NOTHING if dollars is None or price is None else price.period,
    )


def _peak(board: Board, precision: Precision) -> str:
    peak = board.peak_per_second.get(precision)
    if peak is None:
        return _NOTHING
    return _marked(board, f"dense_peak_tera.{precision}", short_number(peak / 1e12))


def _marked(board: Board, figure: str, text: str) -> str:
    return text if board.origin(figure).kind in _SURE else f"~{text}"


def _giga(bytes_per_second: float) -> str:
    return short_number(bytes_per_second / 1e9)
