"""Table of a node's GPUs for a terminal: state, past, figures, holder, recommended action."""

import re
from collections.abc import Sequence
from textwrap import wrap
from typing import Final

from msgspec import Struct
from rich import box
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from rightsizer.console.advice import dollars_per_day
from rightsizer.console.command import printable, program
from rightsizer.console.node_frame import SORTS, JsonMapping, NodeFrame, NodeRow, node_rows
from rightsizer.model.units import dollars_text, percent_text
from rightsizer.report.labels import ABSENT, action_label, display_name
from rightsizer.report.served_labels import served_detail, served_label

COLORS: Final = {
    "compute_bound": "green",
    "memory_bandwidth_bound": "bright_green",
    "productive": "bright_green",
    "launch_bound": "bright_yellow",
    "host_bound": "yellow",
    "storage_bound": "yellow",
    "pcie_bound": "dark_orange",
    "hidden_stall": "red",
    "idle_held": "blue",
    "idle_empty": "bright_blue",
    "unknown": "bright_black",
}
"""Colors of states, as on the page."""
_QUOTED: Final = re.compile("'[^']*'")
_SEVERITIES: Final = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "blue"}
_IDLE: Final = ("idle_held", "idle_empty")
_GIB: Final = 2**30
_WIDE: Final = 120
"""Width below which board names, strips and holders are omitted."""
_WIDER: Final = 140
"""Width below which strips are halved for the recommendation."""
_COLUMNS: Final = (
    "GPU",
    "Last 24 h",
    "Now",
    "Wasted",
    "Busy",
    "Memory",
    "Power",
    "Holder",
    "To do",
    "Saves",
)
_NARROW_COLUMNS: Final = ("GPU", "Now", "Wasted", "Memory", "To do", "Saves")
_NARROW: Final = 76
"""Width below which only the main columns are shown."""
_NARROWEST_COLUMNS: Final = ("GPU", "Wasted", "To do", "Saves")
_FRAME_LINES: Final = 6
"""Headline, table header, omitted rows, footer."""
_MOST_INSTRUCTIONS: Final = 2
_CHOSEN: Final = "on grey23"
"""Background of the selected row; states keep their colors."""
_FIGURES: Final = frozenset({"Wasted", "Busy", "Memory", "Power", "Saves"})

_SHORTENED: Final = frozenset({"Now", "To do"})
"""Columns that shrink in a narrow terminal."""


class TableView(Struct, frozen=True):
    """Selection and layout of the table."""

    sort: str = "savings"
    """A key of `SORTS`."""
    wanted: str = ""
    """Substring of name, board, state or holder; empty for all GPUs."""
    selected: str = ""
    """UUID of the GPU whose advice is shown."""
    width: int = 120
    height: int | None = None
    """Available lines; `None` for no limit."""
    flags: str = ""
    """Flags by which a command asks the same agent."""


def shown_rows(frame: NodeFrame, view: TableView) -> list[NodeRow]:
    """Return the filtered rows, sorted."""
    rows = sorted(node_rows(frame), key=SORTS[view.sort])
    return [row for row in rows if view.wanted.lower() in row.text]


def node_view(frame: NodeFrame, view: TableView) -> RenderableType:
    """Return headline, table and details of the selected GPU."""
    shown = shown_rows(frame, view)
    chosen = next((row for row in shown if row.uuid == view.selected), None)
    details = _details(chosen, view) if chosen else []
    visible = _visible(shown, chosen, view.height, len(details))
    is_wide = view.width >= _WIDE
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0), show_edge=False)
    # Models beside their holders leave no room for what to do.
    shortened = _SHORTENED | ({"Holder"} if any(row.served for row in visible) else set())
    for name in _columns(view.width):
        justify: JustifyMethod = "right" if name in _FIGURES else "left"
        table.add_column(name, justify=justify, no_wrap=name not in shortened)
    names_boards = is_wide and len({row.board for row in shown} - {""}) > 1
    for row in visible:
        cells = _cells(row, view.width, names_board=names_boards, is_chosen=row is chosen)
        table.add_row(*cells, style=_CHOSEN if row is chosen else "")
    parts: list[RenderableType] = [_headline(frame), table]
    if hidden := len(shown) - len(visible):
        parts.append(Text(f"{hidden} more GPUs; ↑↓ go through them", style="dim"))
    if not shown:
        trouble = frame.report["agent"]["trouble"] or "There are no GPUs here."
        parts.append(
            Text(f"No GPU matches '{view.wanted}'; Esc shows all." if view.wanted else trouble)
        )
    parts += details
    return Group(*parts)


def _visible(
    rows: Sequence[NodeRow], chosen: NodeRow | None, height: int | None, detail_lines: int
) -> Sequence[NodeRow]:
    """Return the rows that fit, including the selected one."""
    if height is None:
        return rows
    room = max(1, height - detail_lines - _FRAME_LINES)
    place = rows.index(chosen) if chosen else 0
    first = max(0, min(place - room // 2, len(rows) - room))
    return rows[first : first + room]


def _headline(frame: NodeFrame) -> Text:
    rows = node_rows(frame)
    idle = sum(row.state in _IDLE for row in rows)
    stalled = sum(row.state == "hidden_stall" for row in rows)
    silent = sum(bool(row.down) or row.state == "unknown" for row in rows)
    working = len(rows) - idle - stalled - silent
    opened = sum(each["closed"] is None for each in frame.report["advice"])
    boards = {row.board for row in rows}
    devices = frame.report["devices"]
    instances = sum(bool(device["mig_profile"]) for device in devices)
    gpus = f"x {min(boards)}" if len(boards) == 1 and all(boards) and not instances else "GPUs"
    divided = f", {instances} MIG instances" if instances else ""
    counts = ((idle, "idle"), (stalled, "stalled"), (silent, "unknown"))
    rest = "".join(f", {count} {word}" for count, word in counts if count)
    return Text.assemble(
        (f"{len(devices) - instances} {gpus}{divided}: {working} working{rest}", "bold"),
        f"   {opened} to do   {frame.report['agent']['source']}",
    )


def _cells(row: NodeRow, width: int, *, names_board: bool, is_chosen: bool) -> list[RenderableType]:
    signals = row.signals
    board = (f" {row.board}", "dim") if names_board else ""
    # Without the profile of an instance, which leaves no room for what to do.
    has_room = width >= (_WIDER if names_board else _NARROW)
    name = row.title if has_room else row.title.partition(" (")[0]
    title = Text.assemble("▸ " if is_chosen else "  ", (name, "bold"), board)
    states = row.cells if width >= _WIDER else row.cells[::2]
    strip = (("█" if state else " ", COLORS.get(state, "")) for state in states)
    to_do: RenderableType = ABSENT
    saves = ABSENT
    if row.advice is not None:
        label = action_label(row.advice["action"], row.advice["finding"])
        to_do = _short(label, _SEVERITIES[row.advice["severity"]])
        worth = dollars_per_day(row.advice)
        saves = f"{dollars_text(worth)}/day" if worth > 0 else ABSENT
    cells: dict[str, RenderableType] = {
        "GPU": title,
        "Last 24 h": Text.assemble(*strip),
        "Now": _short(row.down or display_name(row.state), COLORS.get(row.state, "")),
        "Wasted": ABSENT if row.wasted_ratio is None else percent_text(row.wasted_ratio),
        "Busy": percent_text(signals["gpu_busy"]) if "gpu_busy" in signals else ABSENT,
        "Memory": _of(signals, "memory_used_bytes", "memory_total_bytes", _GIB, "GiB"),
        "Power": _of(signals, "power_watts", "power_limit_watts", 1.0, "W"),
        "Holder": _short(_holders(row), ""),
        "To do": to_do,
        "Saves": saves,
    }
    return [cells[name] for name in _columns(width)]


def _holders(row: NodeRow) -> str:
    """Return who holds it, what is served on it, and what that needs."""
    names = [name.rpartition("/")[2] for name in row.holders]
    served = [printable(served_label(load)) for load in row.served]
    needs = [f"needs {printable(need.short)}" for need in row.needs]
    return "; ".join(filter(None, map(", ".join, (names, served, needs)))) or ABSENT


def _columns(width: int) -> tuple[str, ...]:
    if width >= _WIDE:
        return _COLUMNS
    return _NARROW_COLUMNS if width >= _NARROW else _NARROWEST_COLUMNS


def _short(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _of(signals: JsonMapping, part: str, whole: str, size: float, unit: str) -> str:
    if part not in signals:
        return ABSENT
    of = f"/{signals[whole] / size:.0f}" if whole in signals else ""
    return f"{signals[part] / size:.0f}{of} {unit}"


def _details(row: NodeRow, view: TableView) -> list[RenderableType]:
    """Return the lines on one GPU: its full advice, with the commands to copy."""
    about = "; ".join((row.down or display_name(row.state), *row.holders))
    lines = [Text.assemble((f"{row.title}: ", "bold"), about)]
    lines += [Text(f"Serves {printable(served_detail(load))}.") for load in row.served]
    lines += [Text(f"{printable(str(need))}.") for need in row.needs]
    advice = row.advice
    if advice is None:
        return [*lines, Text("No open advice.", style="dim")]
    lines.append(Text(printable(advice["summary"]), style=_SEVERITIES[advice["severity"]]))
    for each in advice["instructions"][:_MOST_INSTRUCTIONS]:
        lines.append(Text(f"{printable(each['title'])}:"))
        text = printable(each["text"]).strip()
        lines += [Text(f"  {line}", overflow="fold") for line in text.split("\n")]
    commands = (f"{program()} {verb} {advice['id']}{view.flags}" for verb in ("explain", "claim"))
    return [
        *lines,
        *(Text(line, "dim") for command in commands for line in _to_copy(command, view)),
    ]


def _to_copy(command: str, view: TableView) -> list[str]:
    """Return the lines of a command, which a shell joins; words in quotes stay whole."""
    whole = _QUOTED.sub(lambda match: match[0].replace(" ", "\0"), command)
    lines = wrap(whole, view.width - 2, break_long_words=False, break_on_hyphens=False)
    *before, last = (line.replace("\0", " ") for line in lines)
    return [*(f"{line} \\" for line in before), last]
