"""Table of a node's GPUs for a terminal: state, past, figures, holder, recommended action."""

import re
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Final

from msgspec import Struct
from rich import box
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from rightsizer.console.command import printable, program
from rightsizer.console.node_frame import SORTS, NodeFrame, NodeRow, node_rows
from rightsizer.report.advice_groups import to_do
from rightsizer.report.blocks import GLYPHS, Key
from rightsizer.report.labels import ABSENT, GROUP_NAMES, GROUP_OF, GROUPS, display_name
from rightsizer.report.rows import GPU_COLUMNS, RowColumn, saves_text
from rightsizer.report.served_labels import served_detail

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
_STYLES: Final = COLORS | _SEVERITIES
_IDLE: Final = ("idle_held", "idle_empty")
_WIDE: Final = 120
"""Width below which boards of different models are not named."""
_WIDER: Final = 140
"""Width below which strips are halved for the recommendation."""
_NARROW: Final = 76
"""Width below which instances are named without their profile."""
_FRAME_LINES: Final = 6
"""Headline, table header, omitted rows, footer."""
_MOST_INSTRUCTIONS: Final = 2
_GLYPHS: Final[Mapping[str, str]] = {
    state: GLYPHS[GROUPS.index(group)] for state, group in GROUP_OF.items()
}
"""Of states in a strip without colors."""
_KEY: Final = Key(tuple(GROUP_NAMES.items()), is_of_bars=True)
_CHOSEN: Final = "on grey23"
"""Background of the selected row; states keep their colors."""
_FIGURES: Final = ("number", "below number", "saves")
_SHORTENED: Final = ("Now", "To do")
"""Columns that shrink in a narrow terminal."""
_LONGER: Final = {"Wasted": "Wasted, 24 h", "Saves": "Saves a day"}
"""Headings with the time that they are of."""
_HOLDER: Final = "Holder"
"""Column of models too, which goes on in further lines where those are not counted."""


class TableView(Struct, frozen=True):
    """Selection and layout of the table."""

    sort: str = "urgency"
    """A key of `SORTS`."""
    wanted: str = ""
    """Substring of name, board, state or holder; empty for all GPUs."""
    selected: str = ""
    """UUID of the GPU whose advice is shown."""
    width: int = 120
    height: int | None = None
    """Available lines; `None` for no limit."""
    has_color: bool = True
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
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0), show_edge=False)
    # Models beside their holders leave no room for what to do.
    shortened = [*_SHORTENED, *([_HOLDER] if any(row.served for row in visible) else [])]
    columns = [column for column in GPU_COLUMNS if column.least_width <= view.width]
    for column in columns:
        justify: JustifyMethod = "right" if column.kind in _FIGURES else "left"
        name = column.name
        if view.width >= _WIDER:
            name = _LONGER.get(name, name)
        table.add_column(name, justify=justify, no_wrap=column.name not in shortened)
    names_model = view.width >= _WIDE and len({row.model for row in shown} - {""}) > 1
    for row in visible:
        title = _title(row, view.width, names_model=names_model, is_chosen=row is chosen)
        cells = (_cell(column, row, title, view) for column in columns)
        table.add_row(*cells, style=_CHOSEN if row is chosen else "")
    parts: list[RenderableType] = [_headline(frame), table]
    if not view.has_color and any(column.kind == "past" for column in columns):
        parts.append(_KEY.text)
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
    advice = (form for form in frame.report["advice"] if form["closed"] is None)
    due = to_do(advice, lambda form: (form.get("exclusive_group"), form["id"]))
    boards = {row.model for row in rows}
    devices = frame.report["devices"]
    instances = sum(bool(device["mig_profile"]) for device in devices)
    gpus = f"x {min(boards)}" if len(boards) == 1 and all(boards) and not instances else "GPUs"
    divided = f", {instances} MIG instances" if instances else ""
    counts = ((idle, "idle"), (stalled, "stalled"), (silent, "unknown"))
    rest = "".join(f", {count} {word}" for count, word in counts if count)
    return Text.assemble(
        (f"{len(devices) - instances} {gpus}{divided}: {working} working{rest}", "bold"),
        f"   {len(due)} to do   {frame.report['agent']['source']}",
    )


def _title(row: NodeRow, width: int, *, names_model: bool, is_chosen: bool) -> Text:
    model = (f" {row.model}", "dim") if names_model else ""
    # Without the profile of an instance, which leaves no room for what to do.
    has_room = width >= (_WIDER if names_model else _NARROW)
    name = row.title if has_room else row.title.partition(" (")[0]
    return Text.assemble("▸ " if is_chosen else "  ", (name, "bold"), model)


def _cell(column: RowColumn, row: NodeRow, title: Text, view: TableView) -> Text:
    if column.kind == "gpu":
        return title
    if column.kind == "past":
        states = row.cells if view.width >= _WIDER else row.cells[::2]
        glyphs = {} if view.has_color else _GLYPHS
        drawn = (glyphs.get(state, "█") if state else " " for state in states)
        return Text.assemble(*zip(drawn, (COLORS.get(state, "") for state in states), strict=True))
    text = printable(saves_text(row) if column.kind == "saves" else column.text(row)) or ABSENT
    style = _STYLES.get(column.tone(row), "")
    if column.name == _HOLDER and view.height is None:
        return Text(text, style, overflow="fold")
    return Text(text, style, no_wrap=True, overflow="ellipsis")


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
    for instruction in advice["instructions"][:_MOST_INSTRUCTIONS]:
        lines.append(Text(f"{printable(instruction['title'])}:"))
        text = printable(instruction["text"]).strip()
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
