"""Table of a node's GPUs in a terminal: printed once, or live with keys."""

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.live import Live

from rightsizer.console.node_table import SORTS, NodeFrame, TableView, node_view, shown_rows
from rightsizer.console.remote_agent import RemoteAgent
from rightsizer.model.errors import RightsizerError

_KEYS: Final = "↑↓ select   s sort: {sort}   / filter: {wanted}   q quit"
_POLL_SECONDS: Final = 0.1
_ARROWS: Final = {"\x1b[A": "k", "\x1b[B": "j"}
_KEY: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|.", re.DOTALL)
_ESCAPE: Final = "\x1b"
_FIRST_PRINTABLE: Final = " "
_SPAN: Final = "24h"


def frame_of(agent: RemoteAgent) -> NodeFrame:
    """Fetch the agent's present answer; raises `RightsizerError` before its first sample."""
    report = agent.get("/api/v1/report", "devices")
    if report is None:
        raise RightsizerError("the agent has taken no sample yet; try again in a moment")
    return NodeFrame(report, agent.get(f"/api/v1/strip?span={_SPAN}"))


def print_node(agent: RemoteAgent) -> None:
    """Print one table in the terminal's width."""
    console = Console()
    console.print(node_view(frame_of(agent), TableView(width=console.width)))


class NodeScreen:
    """Full-screen table, refreshed at intervals and on each key."""

    def __init__(self, agent: RemoteAgent, interval_seconds: float) -> None:
        self._agent = agent
        self._interval_seconds = interval_seconds
        self._sort = next(iter(SORTS))
        self._wanted = ""
        self._selected = ""
        self._is_typing = self._is_over = False
        self._trouble = ""

    def run(self) -> None:
        """Run until quit; keep waiting if the agent goes away later.

        Raises:
            RightsizerError: there is no agent at the start.
        """
        console = Console()
        frame = frame_of(self._agent)
        due = 0.0
        with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
            while not self._is_over:
                if time.monotonic() >= due:
                    frame = self._renewed(frame)
                    due = time.monotonic() + self._interval_seconds
                live.update(node_view(frame, self._view(console)), refresh=True)
                self.press(next(keys), frame)

    def press(self, key: str, frame: NodeFrame) -> None:
        """Handle a key; empty keys are ignored."""
        if self._is_typing:
            self._type(key)
        elif key in {"q", _ESCAPE}:
            self._is_over = True
        elif key == "s":
            names = list(SORTS)
            self._sort = names[(names.index(self._sort) + 1) % len(names)]
        elif key == "/":
            self._is_typing = True
        elif key in {"j", "k"}:
            self._select(frame, 1 if key == "j" else -1)

    def _renewed(self, frame: NodeFrame) -> NodeFrame:
        try:
            found = frame_of(self._agent)
        except RightsizerError as error:
            self._trouble = str(error)
            return frame
        self._trouble = ""
        return found

    def _view(self, console: Console) -> TableView:
        typed = self._wanted + ("▏" if self._is_typing else "")
        return TableView(
            sort=self._sort,
            wanted=self._wanted,
            selected=self._selected,
            width=console.width,
            height=console.height,
            flags=f" --url {self._agent.url}",
            footer=self._trouble or _KEYS.format(sort=self._sort, wanted=typed),
        )

    def _type(self, key: str) -> None:
        if key in {"\r", "\n", _ESCAPE}:
            self._is_typing = False
            self._wanted = "" if key == _ESCAPE else self._wanted
        elif key in {"\x7f", "\b"}:
            self._wanted = self._wanted[:-1]
        elif len(key) == 1 and key >= _FIRST_PRINTABLE:
            self._wanted += key

    def _select(self, frame: NodeFrame, step: int) -> None:
        view = TableView(sort=self._sort, wanted=self._wanted)
        uuids = [row.uuid for row in shown_rows(frame, view)]
        if uuids:
            place = uuids.index(self._selected) + step if self._selected in uuids else 0
            self._selected = uuids[place % len(uuids)]


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
            yield from (_ARROWS.get(key, key) for key in _KEY.findall(raw) or ["q"])

    try:
        yield pressed()
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
