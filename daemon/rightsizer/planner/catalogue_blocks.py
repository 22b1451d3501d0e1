"""Blocks of the catalogue: one board with its costs, or a table of many."""

from collections.abc import Iterable, Iterator
from typing import Final

from rightsizer.catalogue.board import Board, OriginKind, Precision
from rightsizer.catalogue.prices import Price, Prices
from rightsizer.model.units import GIB
from rightsizer.planner.display import SourceNotes, labels_of, short_number
from rightsizer.report.blocks import Block, Cell, CellKind, Items, section, table

_TERMS: Final = {1: "reserved for 1 year", 3: "reserved for 3 years"}
_PEAKS: Final = {Precision(precision): words for precision, words in labels_of("peak").items()}
_EFFICIENCIES: Final = labels_of("efficiency")
_Line = tuple[str, str, str]
"""Label, figure, and its name in the catalogue's file."""
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
_UNNAMED: Final = ("", "", "")
_PRICES: Final = "List prices of one GPU by date, not quotes"
_LEGEND: Final = (
    "~ assumed, or of a datasheet: not verified against a public table. Peaks in dense "
    "tera-operations per second, links one way, MIG: the most slices. $/h: the median list price "
    "of one GPU over clouds in the months beside it, no quote. 'rightsizer catalogue BOARD' has "
    "each figure's source."
)
_SURE: Final = frozenset({OriginKind.VERIFIED, OriginKind.MEASURED, OriginKind.STATED})
_TABLE_PEAKS: Final = (Precision.BF16, Precision.FP8, Precision.FP4)


def _costs(key: str, prices: Prices, notes: SourceNotes) -> Iterator[tuple[str, str, str]]:
    """Yield label, price, and its date with its source."""
    price = prices.of(key)
    if price is None:
        yield "unknown", "", ""
        return
    about = (price.dated, ", ".join(price.clouds), "; ".join(price.sources))
    note = ": ".join(filter(None, about)) if price.on_demand or price.sources else ""
    seen = f"{price.period} {notes.mark(note)}".rstrip()
    if price.on_demand is not None:
        offered = price.on_demand
        low = offered.low_dollars_per_hour
        high = offered.high_dollars_per_hour
        yield "on demand", _hourly(offered.median_dollars_per_hour, low, high), seen
        at_large = offered.hyperscaler_dollars_per_hour
        if at_large is not None:
            yield "on demand, hyperscalers", _hourly(at_large), seen
    if price.spot_dollars_per_hour is not None:
        yield "spot", _hourly(price.spot_dollars_per_hour), seen
    for years, label in _TERMS.items():
        offer = prices.reserved(key, years)
        if offer is not None:
            assumed = f"assumed {notes.mark(prices.reserved_terms.source)}".rstrip()
            low = offer.low_dollars_per_hour
            high = offer.high_dollars_per_hour
            text = _hourly(offer.dollars_per_hour, low, high)
            yield label, text, assumed if offer.is_assumed else seen
    for purchase in price.purchases:
        date = f"{purchase.date or 'undated'} {notes.mark(purchase.source)}".rstrip()
        yield "to buy", f"${purchase.dollars:,.0f}", date


def _hourly(dollars: float, low: float = 0.0, high: float = 0.0) -> str:
    spread = f" (${low:.2f} to ${high:.2f})" if low < high else ""
    return f"${dollars:.2f} an hour{spread}"


def card(board: Board, prices: Prices) -> Iterator[Block]:
    """Yield the card of one board."""
    notes = SourceNotes()
    year = "" if board.release_year is None else str(board.release_year)
    about = (board.vendor, board.architecture, board.form_factor, year)
    called = "what drivers call it is unknown"
    if names := ", ".join((*board.names, *board.other_names)):
        called = f"{names}  {_origin(board, 'names', notes)}"
    figures = {
        "Memory and limits": _limits(board),
        "Dense peaks, tera-operations per second": _peaks(board),
        "Achieved": _achieved(board),
        "Sums over GPUs (all-reduce): bus bandwidth, small message": _sums(board),
        "MIG": _slices(board),
    }
    yield section(board.key, ", ".join(filter(None, about)), called)
    for title, lines in figures.items():
        cells = ((label, text, _origin(board, name, notes)) for label, text, name in lines)
        yield section(title, table(_UNNAMED, cells))
    yield section(_PRICES, table(_UNNAMED, _costs(board.key, prices, notes)))
    yield f"Note: {board.notes}" if board.notes else ""
    yield section("Sources", Items(tuple(notes.lines())))


def _origin(board: Board, figure: str, notes: SourceNotes) -> str:
    origin = board.origin(figure)
    kind = "unverified" if origin.kind is OriginKind.RECALLED else origin.kind
    return f"{kind} {notes.mark(origin.source)}".rstrip()


def _limits(board: Board) -> Iterator[_Line]:
    nominal = board.nominal_memory_bytes
    bandwidth = board.memory_bandwidth_bytes_per_second
    yield "memory", f"{board.memory_bytes / GIB:.2f} GiB {board.memory_type}", "memory_mib"
    if nominal is not None:
        yield "nominal memory", f"{short_number(nominal / 1e9)} GB", "memory_gb"
    yield "memory bandwidth", f"{short_number(bandwidth / 1e9)} GB/s", "memory_bandwidth_gbs"
    if board.l2_bytes is not None:
        yield "L2 cache", f"{short_number(board.l2_bytes / 1e6)} MB", "l2_mb"
    yield "SMs" if board.vendor == "NVIDIA" else "compute units", str(board.sm_count), "sm_count"
    if board.sm_clock_maximum_hertz is not None:
        clock = short_number(board.sm_clock_maximum_hertz / 1e6)
        yield "highest SM clock", f"{clock} MHz", "sm_clock_maximum_mhz"
    yield "power limit", f"{short_number(board.power_limit_watts)} W", "power_limit_watts"
    link = f"gen{board.pcie_generation} x{board.pcie_width}"
    yield "PCIe", f"{link}, {board.pcie_bytes_per_second / 1e9:.1f} GB/s one way", "pcie_generation"
    if not board.link_bytes_per_second:
        return
    name = "Infinity Fabric"
    figure = "infinity_fabric_total_gbs"
    if board.nvlink_generation is not None:
        name = f"NVLink {board.nvlink_generation}"
        figure = "nvlink_total_gbs"
    yield name, f"{short_number(board.link_bytes_per_second / 1e9)} GB/s one way", figure
    if board.linked_gpu_count is not None:
        yield "GPUs that it joins", f"at most {board.linked_gpu_count}", "linked_gpus"


def _peaks(board: Board) -> Iterator[_Line]:
    for precision, label in _PEAKS.items():
        peak = board.peak_per_second.get(precision)
        if peak is not None:
            yield label, short_number(peak / 1e12), f"dense_peak_tera.{precision}"


def _achieved(board: Board) -> Iterator[_Line]:
    for kind, label in _EFFICIENCIES.items():
        for precision, ratio in getattr(board.efficiency, kind).items():
            yield f"{label}, {precision}", f"{ratio:.3f}", f"efficiency.{kind}.{precision}"


def _sums(board: Board) -> Iterator[_Line]:
    for count, cost in board.all_reduce.items():
        text = f"{cost.bytes_per_second / 1e9:.1f} GB/s, {cost.small_message_seconds * 1e6:.1f} us"
        yield f"{count} GPUs", text, f"all_reduce.{count}"


def _slices(board: Board) -> Iterator[_Line]:
    for profile in board.mig_profiles:
        memory = "" if profile.memory_bytes is None else f"{profile.memory_bytes / GIB:.2f} GiB"
        parts = [
            "SMs unknown" if profile.sm_count is None else f"{profile.sm_count} SMs",
            f"about {memory}" if profile.is_memory_assumed and memory else memory,
            f"at most {profile.maximum_count}",
        ]
        yield profile.name, ", ".join(filter(None, parts)), "mig_profiles"


def boards_blocks(boards: Iterable[Board], prices: Prices) -> Iterator[Block]:
    """Yield a table of boards, and a legend of signs."""
    rows = (_row(board, prices.of(board.key)) for board in boards)
    columns = (name if name in _TEXTS else (name, CellKind.NUMBER) for name in _HEADER)
    yield table(columns, rows)
    yield _LEGEND


def _row(board: Board, price: Price | None) -> tuple[Cell, ...]:
    link = board.link_bytes_per_second
    bandwidth = board.memory_bandwidth_bytes_per_second
    dollars = None if price is None else price.dollars_per_hour
    return (
        board.key,
        board.architecture,
        _marked(board, "memory_mib", f"{board.memory_bytes / GIB:.1f}"),
        _marked(board, "memory_bandwidth_gbs", short_number(bandwidth / 1e9)),
        *(
            _marked(board, f"dense_peak_tera.{precision}", short_number(peak / 1e12))
            if (peak := board.peak_per_second.get(precision)) is not None
            else None
            for precision in _TABLE_PEAKS
        ),
        _marked(board, "power_limit_watts", short_number(board.power_limit_watts)),
        _marked(board, "nvlink_total_gbs", short_number(link / 1e9)) if link else None,
        max((profile.maximum_count for profile in board.mig_profiles), default=None),
        None if dollars is None else f"{dollars:.2f}",
        None if dollars is None or price is None else price.period,
    )


def _marked(board: Board, figure: str, text: str) -> str:
    return text if board.origin(figure).kind in _SURE else f"~{text}"
