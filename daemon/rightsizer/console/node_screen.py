"""Table of a node's GPUs in a terminal: printed once, or live with keys."""

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import quote

from msgspec.structs import replace
from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.text import Text

from rightsizer.console.agent_client import asked_at, user_name
from rightsizer.console.local_process import LocalProcess, local_process
from rightsizer.console.node_frame import SORTS, NodeFrame, NodeRow
from rightsizer.console.node_history import NodeHistory
from rightsizer.console.node_panels import charts, process_lines, processes
from rightsizer.console.node_table import TableView, node_view, shown_rows
from rightsizer.console.remote_agent import ADVICE_PATH, RemoteAgent
from rightsizer.host.settings import PathSettings
from rightsizer.io.local import LocalClient
from rightsizer.model.errors import RightsizerError
from rightsizer.report.block_text import text_of
from rightsizer.report.explanation import read_explanation
from rightsizer.report.explanation_blocks import explanation_blocks
from rightsizer.report.labels import action_label
from rightsizer.report.rows import GPU_COLUMNS

_KEYS: Final = "h help  q quit  ↑↓ select  e explain  c claim  s sort: {sort}  / search: {wanted}"
_PAGE_KEYS: Final = "↑↓ PgUp PgDn scroll  Esc back  q quit"
_POLL_SECONDS: Final = 0.1
_ESCAPE: Final = "\x1b"
_NAMED: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "erase",
    "\b": "erase",
}
_KEY: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|.", re.DOTALL)
_FIRST_PRINTABLE: Final = " "
_STEPS: Final = {
    "down": 1,
    "j": 1,
    "up": -1,
    "k": -1,
    "page down": 10,
    " ": 10,
    "page up": -10,
}
"""Lines that a key scrolls by."""
_SPAN: Final = "24h"
_CHART_LINES: Final = 8
"""Lines that bars get before processes do."""
_SIMULATED: Final = "simulated"
_HELP: Final = """\
rightsizer top: what each GPU of this node does, and what to do about it

  ↑ ↓      select a GPU: its recommendation, its processes, its readings
  e Enter  explain its recommendation: evidence, savings, risk, commands
  c        claim it, so that others know that you are at it
  s        sort by urgency, then by each column
  /        search by GPU, model, state or holder; Enter keeps it, Esc ends it
  Esc      back: from this page, a question, a search, a selection
  q        quit

{columns}

States: docs/definitions.md of Rightsizer. Names and users of processes are this host's.
"""


def frame_of(agent: RemoteAgent) -> NodeFrame:
    """Fetch the agent's present answer; raises `RightsizerError` before its first sample."""
    report = agent.get("/api/v1/report", "devices")
    if report is None:
        raise RightsizerError("the agent has taken no sample yet; try again in a moment")
    return NodeFrame(report, agent.get(f"/api/v1/strip?span={_SPAN}"))


def _has_color(console: Console) -> bool:
    return console.color_system is not None and not console.no_color


def print_node(agent: RemoteAgent) -> None:
    """Print one table in the terminal's width."""
    console = Console()
    console.print(
        node_view(frame_of(agent), TableView(width=console.width, has_color=_has_color(console)))
    )


class NodeScreen:
    """Full-screen table, refreshed at intervals and on each key."""

    def __init__(
        self,
        agent: RemoteAgent,
        interval_seconds: float,
        flags: str = "",
        socket: str = str(PathSettings().api_socket),
    ) -> None:
        self._agent = agent
        self._interval_seconds = interval_seconds
        self._socket = socket
        self._is_here: bool | None = None
        """Whether it is this host's agent; `None` until that is known."""
        self._table = TableView(flags=flags)
        self._is_typing = False
        self._page: Sequence[str] = ()
        """Lines of help or explanation in place of the table; empty for none."""
        self._scrolled = 0
        self._claims: Mapping[str, Any] | None = None
        """Recommendation that the question in the last line is about."""
        self._said = ""
        self._trouble = ""
        """Why the last answer of the agent is older than it should be."""
        self.history = NodeHistory()
        self.is_over = False

    def run(self) -> None:
        """Run until quit; keep waiting if the agent goes away later.

        Raises:
            RightsizerError: there is no agent at the start.
        """
        console = Console()
        frame = frame_of(self._agent)
        due = 0.0
        with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
            while not self.is_over:
                if time.monotonic() >= due:
                    frame = self.renew(frame)
                    due = time.monotonic() + self._interval_seconds
                live.update(self.view(frame, console), refresh=True)
                self.press(next(keys), frame)

    def press(self, key: str, frame: NodeFrame) -> None:
        """Handle a key; empty keys are ignored."""
        if not key:
            return
        if self._claims is not None:
            self._answer(key)
        elif self._is_typing:
            self._type(key)
        elif key == "q":
            self.is_over = True
        elif self._page:
            self._turn(key)
        else:
            self._said = ""
            self._command(key, frame)

    def _command(self, key: str, frame: NodeFrame) -> None:
        names = list(SORTS)
        commands: Mapping[str, Callable[[], None]] = {
            "e": lambda: self._explain(frame),
            "enter": lambda: self._explain(frame),
            "c": lambda: self._ask(frame),
            "h": lambda: self._open(_help()),
            "?": lambda: self._open(_help()),
            "down": lambda: self._select(frame, 1),
            "j": lambda: self._select(frame, 1),
            "up": lambda: self._select(frame, -1),
            "k": lambda: self._select(frame, -1),
            _ESCAPE: self._clear,
        }
        if key == "s":
            place = names.index(self._table.sort) + 1
            self._show(sort=names[place % len(names)])
        elif key == "/":
            self._is_typing = True
        elif key in commands:
            commands[key]()

    def _clear(self) -> None:
        """End the selection, or without one the search."""
        if self._table.selected:
            self._show(selected="")
        else:
            self._show(wanted="")

    def _show(self, **fields: str) -> None:
        """Change what the table shows."""
        self._table = replace(self._table, **fields)

    def _open(self, text: str) -> None:
        self._page = text.splitlines()
        self._scrolled = 0

    def _turn(self, key: str) -> None:
        if key in {_ESCAPE, "h", "?", "e", "enter"}:
            self._page = ()
        self._scrolled = max(0, min(self._scrolled + _STEPS.get(key, 0), len(self._page) - 1))

    def _explain(self, frame: NodeFrame) -> None:
        advice = self._advice(frame)
        if advice is None:
            return
        try:
            self._open(
                text_of(explanation_blocks(read_explanation(self._agent.get(_target(advice)))))
            )
        except RightsizerError as error:
            self._said = str(error)

    def _ask(self, frame: NodeFrame) -> None:
        self._claims = self._advice(frame)

    def _answer(self, key: str) -> None:
        advice = self._claims
        self._claims = None
        if advice is None or key not in {"y", "Y"}:
            self._said = "Nothing was claimed."
            return
        try:
            claimed = self._claimed(advice)
        except RightsizerError as error:
            self._said = str(error)
        else:
            self._said = f"Claimed by {claimed['actor']}."

    def _claimed(self, advice: Mapping[str, Any]) -> Any:
        """Claim by this host's socket, where the kernel tells who asks, else over TCP."""
        target = f"{_target(advice)}/claim"
        body = {"actor": user_name()}

        def ask(agent: LocalClient | RemoteAgent) -> Any:
            return agent.post(target, body)["advice"]

        claimed = asked_at(self._socket, ask) if self._is_here else None
        return ask(self._agent) if claimed is None else claimed

    def _advice(self, frame: NodeFrame) -> Mapping[str, Any] | None:
        """Return the selected GPU's recommendation, or say why there is none."""
        row = self._chosen(frame)
        if row is None:
            self._said = "Select a GPU first, with ↑ and ↓."
        elif row.advice is None:
            self._said = f"{row.title} has no open recommendation."
        return row.advice if row else None

    def renew(self, frame: NodeFrame) -> NodeFrame:
        """Return the agent's present answer, or the last one while it is away."""
        try:
            node_frame = frame_of(self._agent)
        except RightsizerError as error:
            self._trouble = str(error)
            return frame
        self._trouble = ""
        self.history.add(node_frame)
        return node_frame

    def view(self, frame: NodeFrame, console: Console) -> RenderableType:
        """Return the whole screen."""
        width, height = console.size
        body: RenderableType
        if self._page:
            lines = self._page[self._scrolled : self._scrolled + height - 1]
            body = Text("\n".join(lines))
        else:
            body = self._body(frame, console, width, height - 1)
        whole = Layout()
        whole.split_column(
            Layout(body, name="body"), Layout(Text(self._footer(), style="dim"), size=1)
        )
        return whole

    def _body(self, frame: NodeFrame, console: Console, width: int, height: int) -> RenderableType:
        view = replace(self._table, width=width, height=height, has_color=_has_color(console))
        table = node_view(frame, view)
        parts = [table]
        room = height - len(console.render_lines(table, console.options.update(width=width)))
        chosen = self._chosen(frame)
        shown = shown_rows(frame, view)
        rows = [chosen] if chosen else shown
        lines = min(process_lines(rows), room - _CHART_LINES)
        if lines >= process_lines(rows[:1]) > 0:
            parts.append(processes(rows, lines, self._local(frame, rows)))
            room -= lines
        drawn = [*rows, *(row for row in shown if row.uuid != chosen.uuid)] if chosen else shown
        interval = max(self._interval_seconds, frame.report["agent"]["interval_seconds"])
        return Group(*parts, charts(drawn, self.history, interval, width, room))

    def _local(self, frame: NodeFrame, rows: Sequence[NodeRow]) -> dict[int, LocalProcess]:
        """Return what this host tells of processes; nothing if they are another's, or pretended."""
        if self._is_here is None:
            self._is_here = self.is_agent_of_host(frame)
        if not self._is_here or str(frame.report["agent"]["source"]).startswith(_SIMULATED):
            return {}
        pids = {process["pid"] for row in rows for process in row.processes}
        return {pid: local_process(pid) for pid in pids}

    def is_agent_of_host(self, frame: NodeFrame) -> bool:
        """Whether the socket here is of the same agent: an address may lead through a tunnel."""
        with suppress(RightsizerError):
            report = asked_at(self._socket, lambda client: client.get("/api/v1/report"))
            started = frame.report["agent"]["started"]
            return report is not None and bool(report["agent"]["started"] == started)
        return False

    def _footer(self) -> str:
        if self._claims is not None:
            label = action_label(self._claims["action"], self._claims["finding"])
            return f"Claim '{label}' ({self._claims['id']}) as {user_name()}? y n"
        if self._page:
            return _PAGE_KEYS
        typed = self._table.wanted + ("▏" if self._is_typing else "")
        said = "; ".join(filter(None, (self._said, self._trouble)))
        return said or _KEYS.format(sort=self._table.sort, wanted=typed)

    def _chosen(self, frame: NodeFrame) -> NodeRow | None:
        rows = shown_rows(frame, self._table)
        return next((row for row in rows if row.uuid == self._table.selected), None)

    def _type(self, key: str) -> None:
        if key in {"enter", _ESCAPE}:
            self._is_typing = False
            self._show(wanted="" if key == _ESCAPE else self._table.wanted)
        elif key == "erase":
            self._show(wanted=self._table.wanted[:-1])
        elif len(key) == 1 and key >= _FIRST_PRINTABLE:
            self._show(wanted=self._table.wanted + key)

    def _select(self, frame: NodeFrame, step: int) -> None:
        uuids = [row.uuid for row in shown_rows(frame, self._table)]
        if uuids:
            selected = self._table.selected
            place = uuids.index(selected) + step if selected in uuids else 0
            self._show(selected=uuids[place % len(uuids)])


def _help() -> str:
    meanings = (f"  {column.name:<9}  {column.meaning}" for column in GPU_COLUMNS if column.meaning)
    return _HELP.format(columns="\n".join(meanings))


def _target(advice: Mapping[str, Any]) -> str:
    return f"{ADVICE_PATH}/{quote(advice['id'], safe='')}"


@contextmanager
def _keys() -> Iterator[Iterator[str]]:
    """Yield keys as pressed, empty on timeout; restores the terminal at the end."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)

    def pressed() -> Iterator[str]:
        while True:
            if not select.select([descriptor], [], [], _POLL_SECONDS)[0]:
                yield ""
                continue
            raw = os.read(descriptor, 64).decode(errors="replace")
            # A closed terminal reads as empty forever: quit.
            yield from (_NAMED.get(key, key) for key in _KEY.findall(raw) or ["q"])

    try:
        yield pressed()
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
