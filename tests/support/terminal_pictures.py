"""Makes the pictures of commands in a terminal in `docs/screenshots/` again, as SVG.

`python tests/support/terminal_pictures.py [NAME...]`; of a demonstration after its day, and of the
log of the tutorial.
"""

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from agent_process import RIGHTSIZER, agent_process, eventually
from page_screenshots import DAY_SECONDS, DEMO, TICK_SECONDS
from rightsizer.console.color import colored
from rightsizer.console.node_screen import NodeScreen, frame_of
from rightsizer.console.remote_agent import RemoteAgent
from rightsizer.io.http import HttpClient
from rightsizer.io.http_settings import HttpSettings
from screenshots import FOLDER

__all__ = ["PICTURES"]

PICTURES: Final = ("top", "advise", "plan", "replay")
_WIDTH: Final = 132
_MOST_LINES: Final = 40
_SCREEN_LINES: Final = 46
_READINGS: Final = 60
_READINGS_SECONDS: Final = 0.5
_PLAN: Final = "plan llama-3.1-70b --rps 5 --in 2000 --out 300 --ttft 1s --tpot 50ms"
_TUTORIAL: Final = Path(__file__).parents[2] / "docs" / "tutorial.md"
_FONTS: Final = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def _save(name: str, console: Console, title: str) -> None:
    # A reader's own font does; one that is loaded from elsewhere is not wanted.
    image = _FONTS.sub("", console.export_svg(title=title, theme=MONOKAI, unique_id=name))
    (FOLDER / f"{name}.svg").write_text(
        "\n".join(line.rstrip() for line in image.splitlines()) + "\n", "utf-8"
    )


def _console(height: int | None = None) -> Console:
    return Console(
        record=True,
        width=_WIDTH,
        height=height,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )


def _top(url: str) -> None:
    agent = RemoteAgent(HttpClient(url, HttpSettings()))
    screen = NodeScreen(agent, _READINGS_SECONDS)
    console = _console(_SCREEN_LINES)
    frame = frame_of(agent)
    for _ in range(_READINGS):
        frame = frame_of(agent)
        screen.history.add(frame)
        time.sleep(_READINGS_SECONDS)
    screen.press("down", frame)
    console.print(screen.view(frame, console))
    _save("top", console, "rightsizer top")


def _advise(url: str) -> None:
    result = subprocess.run(
        [*RIGHTSIZER, "advise", "--url", url], capture_output=True, text=True, check=True
    ).stdout
    console = _console()
    console.print(Text.from_ansi(colored(result, {})))
    _save("advise", console, "rightsizer advise")


def _printed(name: str, *arguments: str) -> None:
    """What a command prints on a terminal, below how it was called."""
    environment = os.environ | {"COLUMNS": "100"}
    command = [*RIGHTSIZER, *arguments]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    ).stdout
    console = _console()
    lines = result.splitlines()
    shown = [*lines[:_MOST_LINES], "..."] if len(lines) > _MOST_LINES else lines
    console.print(Text.from_ansi(colored("\n".join(shown), {})))
    _save(name, console, f"rightsizer {' '.join(arguments)}")


def _log(folder: Path) -> None:
    """The log of the tutorial."""
    code = re.search(r"python3 - > gpu.csv <<'END'\n(.*?)\nEND\n", _TUTORIAL.read_text(), re.DOTALL)
    assert code is not None
    with (folder / "gpu.csv").open("w") as file:
        subprocess.run([sys.executable, "-c", code[1]], check=True, stdout=file)


_OF_A_DAY: Final = {"top": _top, "advise": _advise}


def main() -> None:
    """Make those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    wanted = set(parser.parse_args().names or PICTURES)
    if "plan" in wanted:
        _printed("plan", *_PLAN.split())
    if wanted & _OF_A_DAY.keys():
        _of_a_day(wanted)
    if "replay" in wanted:
        with tempfile.TemporaryDirectory() as folder:
            _log(Path(folder))
            os.chdir(folder)
            _printed("replay", "replay", "gpu.csv")


def _of_a_day(wanted: AbstractSet[str]) -> None:
    command = (sys.executable, "-c", DEMO, "eight-gpu-node", TICK_SECONDS)
    with (
        tempfile.TemporaryDirectory() as folder,
        agent_process(Path(folder), command=command) as at,
    ):
        began = eventually(lambda: at.json("/api/v1/report"))["time"]
        until = began + DAY_SECONDS - 1800.0
        eventually(lambda: at.json("/api/v1/report")["time"] >= until, 800)
        for name in wanted & _OF_A_DAY.keys():
            _OF_A_DAY[name](at.url)


if __name__ == "__main__":
    main()
