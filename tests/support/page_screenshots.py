"""Makes the pictures of the page in `docs/screenshots/` again, of a demonstration after its day.

`python tests/support/page_screenshots.py [NAME...]`; `screenshots.py` beside it makes those of
reports.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from agent_process import agent_process, eventually
from screenshots import DARK, FOLDER, FRAME, LIGHT, photograph

__all__ = ["DAY_SECONDS", "DEMO", "PICTURES", "SCENARIOS", "TICK_SECONDS", "Picture"]

DAY_SECONDS: Final = 86400.0
TICK_SECONDS: Final = "30"
_COARSE_TICK_SECONDS: Final = "300"
"""Of nodes whose every reading takes long."""
DEMO: Final = """\
import sys
from rightsizer.cli.demo import DemoSettings, run_demo
run_demo(
    DemoSettings(
        scenario=sys.argv[1], listen_address="127.0.0.1:0", speed=3600.0,
        tick_seconds=float(sys.argv[2]),
    ),
    lambda text: print(text, flush=True),
)
"""


class Picture(Struct, frozen=True):
    """What is shown, and how."""

    width: int
    height: int
    scheme: str = LIGHT
    scenario: str = "eight-gpu-node"
    """A built-in one, or one of `SCENARIOS`."""
    query: str = ""
    """With the uuid of a GPU in place of `{gpu}`."""
    anchor: str = ""
    """The section that stands at the top."""
    is_open: bool = False
    """Whether all that can be unfolded is."""
    is_framed: bool = False
    """For widths that no window has."""


_LOOKED_AT: Final = 5
"""The GPU that waits for its data loader before noon, and for its kernels' launches after it."""
_INSTANCES: Final = "mig: [1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb, 1g.10gb]"
_SIXTEEN: Final = """\
name: sixteen-gpus
seed: 16
cores: 224
boards: [{board: H100-SXM5-80GB, count: 16}]
workloads:
  - name: pretrain
    kind: slurm
    class: batch
    allocator: growing
    gpus: [0, 1, 2, 3, 4, 5, 6, 7]
    memory_gib: 60
    phases: [{activity: matrix_training, state: compute_bound}]
  - name: chat-api
    kind: kubernetes
    namespace: production
    class: serving
    allocator: growing
    gpus: [8, 9, 10]
    memory_gib: 40
    phases: [{activity: request_serving, state: productive}]
  - name: notebook-kim
    kind: kubernetes
    namespace: notebooks
    class: notebook
    allocator: growing
    gpus: [11]
    memory_gib: 12
    phases: [{activity: nothing, state: idle_held}]
"""
_DIVIDED: Final = f"""\
name: eight-divided-gpus
seed: 87
cores: 112
boards:
{"".join(f"  - {{board: H100-SXM5-80GB, {_INSTANCES}}}" + chr(10) for _ in range(8))}
workloads:
  - name: small-api
    kind: kubernetes
    namespace: production
    class: serving
    allocator: growing
    instances: ["0/0", "0/1", "1/0"]
    memory_gib: 4
    phases: [{{activity: request_serving, state: productive}}]
"""
SCENARIOS: Final = {"sixteen-gpus": _SIXTEEN, "eight-divided-gpus": _DIVIDED}
"""Nodes that are too large or too dull to be built in."""
PICTURES: Final[Mapping[str, Picture]] = {
    "page-light": Picture(1440, 900),
    "page-dark": Picture(1440, 900, DARK, query="?span=7d"),
    "page-advice": Picture(1160, 1500, anchor="s-advice", is_open=True),
    "page-gpu": Picture(1160, 1150, query="?gpu={gpu}", anchor="s-devices"),
    "page-topology": Picture(1160, 1150, anchor="s-topology"),
    "page-mig": Picture(1440, 900, DARK, "h100-mig"),
    "page-phone": Picture(390, 1500, is_framed=True),
    "page-one-gpu": Picture(1440, 1150, scenario="single-h100"),
    "page-sixteen": Picture(1440, 1250, scenario="sixteen-gpus"),
    "page-mig-8x7": Picture(1440, 1150, scenario="eight-divided-gpus"),
}


def _take(name: str, picture: Picture, page: str, folder: Path) -> None:
    document = page
    if picture.is_open:
        document = document.replace("<details ", "<details open ")
    if picture.anchor:
        # Nothing scrolls in a picture: what stands above is left out.
        hidden = f"main > :not(#{picture.anchor}):not(#{picture.anchor} ~ *):not(svg)"
        document = document.replace("</style>", f"{hidden} {{ display: none; }}</style>", 1)
    file = folder / f"{name}.html"
    file.write_text(document, encoding="utf-8")
    if picture.is_framed:
        frame = folder / "frame.html"
        frame.write_text(FRAME.format(file.name, picture.width, picture.height), encoding="utf-8")
        file = frame
    size = (picture.width + (110 if picture.is_framed else 0), picture.height)
    photograph(file, FOLDER / f"{name}.png", size, picture.scheme)


def _take_all(scenario: str, pictures: Mapping[str, Picture], folder: Path) -> None:
    tick = TICK_SECONDS
    if scenario in SCENARIOS:
        tick = _COARSE_TICK_SECONDS
        file = folder / f"{scenario}.yaml"
        file.write_text(SCENARIOS[scenario], encoding="utf-8")
        scenario = str(file)
    command = (sys.executable, "-c", DEMO, scenario, tick)
    with agent_process(folder, command=command) as process:
        began = eventually(lambda: process.json("/api/v1/report"))["time"]
        until = began + DAY_SECONDS - 1800.0
        eventually(lambda: process.json("/api/v1/report")["time"] >= until, 800)
        devices = process.json("/api/v1/summary")["devices"]
        gpu = devices[min(_LOOKED_AT, len(devices) - 1)]["uuid"]
        addresses = {name: f"/{each.query.format(gpu=gpu)}" for name, each in pictures.items()}
        pages = {name: process.get(address)[1] for name, address in addresses.items()}
    for name, picture in pictures.items():
        _take(name, picture, pages[name], folder)


def main() -> None:
    """Make those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    wanted = parser.parse_args().names or list(PICTURES)
    chosen = {name: PICTURES[name] for name in wanted}
    for scenario in sorted({picture.scenario for picture in chosen.values()}):
        of_it = {name: each for name, each in chosen.items() if each.scenario == scenario}
        with tempfile.TemporaryDirectory() as folder:
            _take_all(scenario, of_it, Path(folder))


if __name__ == "__main__":
    main()
