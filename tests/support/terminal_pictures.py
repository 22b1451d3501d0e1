"""Makes the pictures of commands in a terminal in `docs/screenshots/` again, as SVG.

`python tests/support/terminal_pictures.py`; all are of a demonstration after its day, and of the
log of the documentation.
"""

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from agent_process import RIGHTSIZER, agent_process, eventually
from page_screenshots import DAY_SECONDS, DEMO
from rightsizer.console.color import colored
from rightsizer.console.node_screen import frame_of
from rightsizer.console.node_table import TableView, node_view, shown_rows
from rightsizer.console.remote_agent import RemoteAgent
from rightsizer.io.http import HttpClient
from screenshots import FOLDER

__all__ = ["PICTURES"]

PICTURES: Final = ("top", "advise")
_WIDTH: Final = 132
_FONTS: Final = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def _save(name: str, console: Console, title: str) -> None:
    # A reader's own font does; one that is loaded from elsewhere is not wanted.
    image = _FONTS.sub("", console.export_svg(title=title, theme=MONOKAI, unique_id=name))
    (FOLDER / f"{name}.svg").write_text(
        "\n".join(line.rstrip() for line in image.splitlines()) + "\n", "utf-8"
    )


def _console() -> Console:
    return Console(
        record=True,
        width=_WIDTH,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )


def _top(url: str) -> None:
    frame = frame_of(RemoteAgent(HttpClient(url)))
    first = shown_rows(frame, TableView())[0]
    console = _console()
    console.print(node_view(frame, TableView(selected=first.uuid, width=_WIDTH)))
    _save("top", console, "rightsizer top")


def _advise(url: str) -> None:
    result = subprocess.run(
        [*RIGHTSIZER, "advise", "--url", url], capture_output=True, text=True, check=True
    ).stdout
    console = _console()
    console.print(Text.from_ansi(colored(result, {})))
    _save("advise", console, "rightsizer advise")


def main() -> None:
    """Make them."""
    command = (sys.executable, "-c", DEMO, "eight-gpu-node")
    with (
        tempfile.TemporaryDirectory() as folder,
        agent_process(Path(folder), command=command) as at,
    ):
        began = eventually(lambda: at.json("/api/v1/report"))["time"]
        until = began + DAY_SECONDS - 1800.0
        eventually(lambda: at.json("/api/v1/report")["time"] >= until, 300)
        _top(at.url)
        _advise(at.url)


if __name__ == "__main__":
    main()
