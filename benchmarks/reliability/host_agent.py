"""A program: an agent on this machine's processes, with a simulated driver that can be spoiled.

RELIABILITY_FOLDER names a folder with the scenario. RELIABILITY_GARBAGE is a function of the
library and a number, which it answers on GPU 3 while the folder has a file `garbage`. A file
`replaced` puts other boards into the slots. Arguments are those of `rightsizer`.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from msgspec.structs import replace

from garbled_driver import Garbled
from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.main import entry_point
from rightsizer.io.clock import SystemClock
from rightsizer.simulator.library.simulated_library import SimulatedLibrary
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.telemetry.nvml.library import use_library

GARBAGE_FILE: Final = "garbage"
REPLACED_FILE: Final = "replaced"
_GARBLED_GPU: Final = 3
_OTHER_SEED: Final = 2


class SpoiledLibrary:
    """Stands for the loaded library; files say which one answers."""

    def __init__(self, folder: Path, function: str, number: int) -> None:
        catalogue = built_in()
        clock = SystemClock()
        scenario = load_scenario(str(folder / "scenario.yaml"), catalogue, 0.0)
        self._folder = folder
        self._usual, self._replaced = (
            SimulatedLibrary(SimulatedNode(boards, catalogue, clock.wall_time()), clock.wall_time)
            for boards in (scenario, replace(scenario, seed=_OTHER_SEED))
        )
        self._garbled = Garbled(self._usual, {_GARBLED_GPU: function}, number)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        getattr(self._usual, name)  # A missing symbol is missing at once.

        def call(*arguments: Any) -> Any:
            return getattr(self._library(), name)(*arguments)

        return call

    def _library(self) -> Any:
        if (self._folder / REPLACED_FILE).exists():
            return self._replaced
        if (self._folder / GARBAGE_FILE).exists():
            return self._garbled
        return self._usual


def main() -> None:
    """Install the library, and run the command."""
    function, _, number = os.environ.get("RELIABILITY_GARBAGE", "none 0").partition(" ")
    folder = Path(os.environ["RELIABILITY_FOLDER"])
    use_library(SpoiledLibrary(folder, function, int(number)))
    sys.argv[0] = "rightsizer"
    entry_point()


if __name__ == "__main__":
    main()
