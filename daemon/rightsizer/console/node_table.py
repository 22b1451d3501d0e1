"""Table of a node's GPUs for a terminal: state, past, figures, holder, recommended action."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, Final

from msgspec import Struct
from rich import box
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from rightsizer.console.advice import dearest_first, dollars_per_day
from rightsizer.console.command import printable, program
from rightsizer.model.finding import UNADVISED, Rank
from rightsizer.model.units import dollars_text, percent_text
from rightsizer.report.labels import ABSENT, STATE_ORDER, action_label, display_name

JsonMapping = Mapping[str, Any]

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
_STRIP_CELLS: Final = 24
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


class NodeFrame(Struct, frozen=True):
    """An agent's answers at one time."""

    report: JsonMapping
    strip: JsonMapping


class NodeRow(Struct, frozen=True):
    """A GPU or MIG instance."""

    uuid: str
    title: str
    board: str
    state: str
    cells: tuple[str, ...]
    """Dominant state of each interval; empty if unknown."""
    wasted_ratio: float | None
    """Wasted share of the known past: idle, stalled or throttled; `None` if unknown."""
    signals: JsonMapping
    holders: tuple[str, ...]
    down: str
    advice: JsonMapping | None
    """First open recommendation, in the order of `advise`."""

    @property
    def text(self) -> str:
        """Text that a filter searches."""
        return " ".join((self.title, self.board, self.state, *self.holders)).lower()


def node_rows(frame: NodeFrame) -> list[NodeRow]:
    """Return a row for each device with states of its own."""
    past = {each["uuid"]: each for each in frame.strip["devices"]}
    opened = [each for each in frame.report["advice"] if each["closed"] is None]
    return [
        _row(each, past.get(each["uuid"], {}), opened)
        for each in frame.report["devices"]
        if not each["has_mig_instances"]
    ]


def _row(device: JsonMapping, past: JsonMapping, opened: Sequence[JsonMapping]) -> NodeRow:
    uuid = device["uuid"]
    down = device["down"]
    waste: Mapping[str, float] = past.get("waste_seconds", {})
    known = past.get("used_seconds", 0.0) + sum(waste.values())
    wasted = sum(seconds for cause, seconds in waste.items() if cause != "headroom")
    about = [each for each in opened if uuid in each["devices"]]
    profile = device["mig_profile"]
    return NodeRow(
        uuid=uuid,
        title=f"GPU {device['index']}" + (f" {profile}" if profile else ""),
        board=printable((device["name"] or device["board"] or "").removeprefix("NVIDIA ")),
        state=device["state"],
        cells=_stretches(past.get("cells", ())),
        wasted_ratio=wasted / known if known else None,
        signals=device["signals"],
        holders=tuple(printable(each["workload"]) for each in device["workloads"]),
        down="" if down is None else printable(str(down.get("detail") or down.get("reason"))),
        advice=min(about, key=dearest_first, default=None),
    )


def _stretches(cells: Sequence[JsonMapping]) -> tuple[str, ...]:
    """Reduce the strip to the number of cells that fit a row."""
    size = max(1, -(-len(cells) // _STRIP_CELLS))
    found = list[str]()
    for at in range(0, len(cells), size):
        seconds = Counter[str]()
        for cell in cells[at : at + size]:
            seconds.update(cell["state_seconds"])
        found.append(max(seconds, key=seconds.__getitem__, default=""))
    return tuple(found)


def _most_to_save_first(row: NodeRow) -> tuple[bool, Rank, bool, float, str]:
    """Sort key of the page's order."""
    rank = dearest_first(row.advice) if row.advice else UNADVISED
    is_cause = row.advice is not None and row.uuid in row.advice["culprits"]
    return not row.down, rank, not is_cause, -(row.wasted_ratio or 0.0), row.title


SORTS: Final = {
    "savings": _most_to_save_first,
    "wasted": lambda row: (not row.down, -(row.wasted_ratio or 0.0), row.title),
    "gpu": lambda row: row.title,
    "state": lambda row: (STATE_ORDER.index(row.state), row.title),
    "memory": lambda row: -float(row.signals.get("memory_used_bytes", 0.0)),
    "power": lambda row: -float(row.signals.get("power_watts", 0.0)),
}
"""Sort orders by name; the first one is the default."""


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
    footer: str = ""
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
    for name in _columns(view.width):
        justify: JustifyMethod = "right" if name in _FIGURES else "left"
        table.add_column(name, justify=justify, no_wrap=name not in _SHORTENED)
    names_boards = is_wide and len({row.board for row in shown}) > 1
    for row in visible:
        cells = _cells(row, view.width, names_board=names_boards, is_chosen=row is chosen)
        table.add_row(*cells, style=_CHOSEN if row is chosen else "")
    parts: list[RenderableType] = [_headline(frame), table]
    if hidden := len(shown) - len(visible):
        parts.append(Text(f"{hidden} more GPUs; ↑↓ go through them", style="dim"))
    if not shown:
        trouble = frame.report["agent"]["trouble"] or "There are no GPUs here."
        parts.append(Text(f"No GPU matches '{view.wanted}'." if view.wanted else trouble))
    parts += details
    if view.footer:
        parts.append(Text(view.footer, style="dim"))
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
    instances = sum(bool(each["mig_profile"]) for each in devices)
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
    title = Text.assemble("▸ " if is_chosen else "  ", (row.title, "bold"), board)
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
        "Holder": ", ".join(each.rpartition("/")[2] for each in row.holders) or ABSENT,
        "To do": to_do,
        "Saves": saves,
    }
    return [cells[name] for name in _columns(width)]


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
    advice = row.advice
    if advice is None:
        return [*lines, Text("No open advice.", style="dim")]
    lines.append(Text(printable(advice["summary"]), style=_SEVERITIES[advice["severity"]]))
    for each in advice["instructions"][:_MOST_INSTRUCTIONS]:
        lines.append(Text(f"{printable(each['title'])}:"))
        text = printable(each["text"]).strip()
        lines += [Text(f"  {line}", overflow="fold") for line in text.split("\n")]
    commands = (f"{program()} {verb} {advice['id']}{view.flags}" for verb in ("explain", "claim"))
    return [*lines, *(Text(line, "dim") for each in commands for line in _to_copy(each, view))]


def _to_copy(command: str, view: TableView) -> list[str]:
    """Return the lines of a command, which a shell joins; words in quotes stay whole."""
    whole = _QUOTED.sub(lambda found: found[0].replace(" ", "\0"), command)
    lines = wrap(whole, view.width - 2, break_long_words=False, break_on_hyphens=False)
    *before, last = (line.replace("\0", " ") for line in lines)
    return [*(f"{line} \\" for line in before), last]
