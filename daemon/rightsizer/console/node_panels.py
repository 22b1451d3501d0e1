"""What a terminal has room for below the table of GPUs: processes, and readings as bars."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rightsizer.console.command import printable
from rightsizer.console.local_process import LocalProcess
from rightsizer.console.node_frame import NodeRow
from rightsizer.console.node_history import Figures, NodeHistory
from rightsizer.model.units import percent_text
from rightsizer.report.labels import ABSENT

_MIB: Final = 2**20
_TABLE_LINES: Final = 3
"""Empty line, names of columns, rule."""
_CHART_LINES: Final = 7
"""Lines for each GPU, of which the bars have all but two."""
_LEAST_BARS: Final = 3
"""Lines below which bars are not drawn."""
_LEAST_WIDTH: Final = 36
_GAP: Final = 2
_COLORS: Final = {"Busy": "green", "Memory": "blue", "Power": "yellow"}
_BARS: Final = " ▁▂▃▄▅▆▇█"


def bars(values: Iterable[float | None], width: int, height: int) -> list[str]:
    """Return lines of bars for shares, the last ones at the right; unknown ones are empty."""
    last = [*values][-width:] if width > 0 else []
    filled = [round(min(1.0, max(0.0, value or 0.0)) * height * 8) for value in last]
    lines = (
        "".join(_BARS[min(8, max(0, steps - 8 * level))] for steps in filled)
        for level in reversed(range(height))
    )
    return [line.rjust(width) for line in lines]


def process_lines(rows: Sequence[NodeRow]) -> int:
    """Return the lines that the processes of some GPUs take, at most; 0 if none is known."""
    count = sum(len(row.processes) for row in rows)
    return count + _TABLE_LINES if count else 0


def processes(
    rows: Sequence[NodeRow], lines: int, local: dict[int, LocalProcess]
) -> RenderableType:
    """Return the table of processes, those with most memory first, in a number of lines.

    Args:
        rows: The GPUs.
        lines: How many it may take.
        local: By pid, what this host tells of it; none for an agent elsewhere.
    """
    held = [(row, process) for row in rows for process in row.processes]
    held.sort(key=lambda pair: -(pair[1]["memory_used_bytes"] or 0))
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("PID", "GPU", "User", "Process", "Holder"):
        table.add_column(name, justify="right" if name == "PID" else "left", no_wrap=True)
    for name in ("Memory", "Busy"):
        table.add_column(name, justify="right", no_wrap=True)
    room = max(0, lines - _TABLE_LINES)
    shown = held if len(held) <= room else held[: max(0, room - 1)]
    for row, process in shown:
        identity = local.get(process["pid"], LocalProcess())
        memory = process["memory_used_bytes"]
        busy = process["gpu_busy"]
        kind = "" if process["kind"] == "compute" else f" ({process['kind']})"
        table.add_row(
            str(process["pid"]),
            Text(row.title),
            Text(printable(identity.user) or ABSENT),
            Text(printable(identity.name or ABSENT) + kind),
            Text(printable(process["workload"] or ABSENT)),
            ABSENT if memory is None else f"{memory / _MIB:,.0f} MiB",
            ABSENT if busy is None else percent_text(busy),
        )
    parts: list[RenderableType] = ["", table]
    if len(shown) < len(held):
        parts.append(Text(f"{len(held) - len(shown)} more processes", style="dim"))
    return Group(*parts)


def charts(
    rows: Sequence[NodeRow],
    history: NodeHistory,
    interval_seconds: float,
    width: int,
    lines: int,
) -> RenderableType:
    """Return the readings of as many GPUs as the lines have room for; one takes them all."""
    count = min(len(rows), max(1, lines // _CHART_LINES))
    heights = [lines // count + (place < lines % count) for place in range(count)] if count else []
    return Group(
        *(
            _chart(row, history.of(row.uuid), interval_seconds, width, height)
            for row, height in zip(rows, heights, strict=False)
        )
    )


def _chart(
    row: NodeRow, figures: Sequence[Figures], interval_seconds: float, width: int, lines: int
) -> RenderableType:
    height = lines - 2
    if height < _LEAST_BARS:
        return Group()
    count = max(1, min(len(_COLORS), width // (_LEAST_WIDTH + _GAP)))
    each_width = width // count - _GAP
    drawn = list[RenderableType]()
    for place, (name, color) in enumerate([*_COLORS.items()][:count]):
        values = [figure[place] for figure in figures]
        last = values[-1] if values else None
        now = ABSENT if last is None else percent_text(last)
        title = Text.assemble(("" if place else f"{row.title}  ", "bold"), f"{name} {now}")
        span = Text(f"last {min(len(values), each_width) * interval_seconds:.0f} s", style="dim")
        title.append("  ")
        title.append_text(span)
        lines_of_bars = "\n".join(bars(values, each_width, height))
        drawn.append(Group(title, Text(lines_of_bars, style=color, no_wrap=True)))
    return Group("", Columns(drawn, width=each_width, padding=(0, _GAP, 0, 0)))
