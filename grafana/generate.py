"""Write the dashboards: `python -m grafana.generate`; with `--check`, only compare."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.boards.advice import advice_board
from grafana.boards.estate import estate
from grafana.boards.fleet import fleet
from grafana.boards.gpu import gpu
from grafana.boards.health import health
from grafana.boards.node import node
from grafana.boards.waste import waste
from grafana.boards.workload import workload
from grafana.levels import with_setting

__all__ = ["BOARDS", "FOLDER", "dashboards", "main"]

_MENU: Final = "inControlsMenu"
FOLDER: Final = Path(__file__).parent / "dashboards"
BOARDS: Final[tuple[Callable[[], Dashboard], ...]] = (
    fleet,
    node,
    gpu,
    workload,
    waste,
    advice_board,
    health,
    estate,
)


def main(arguments: Sequence[str] | None = None, folder: Path = FOLDER) -> int:
    """Write or compare; the exit code is 1 where a committed file differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    only_check = parser.parse_args(arguments).check
    made = dashboards()
    differing = [name for name, text in made.items() if _committed(folder / name) != text]
    left_over = sorted({path.name for path in folder.glob("*.json")} - set(made))
    for name in differing:
        sys.stdout.write(f"grafana/dashboards/{name} {'is stale' if only_check else 'written'}\n")
        if not only_check:
            (folder / name).write_text(made[name])
    for name in left_over:
        sys.stdout.write(f"grafana/dashboards/{name} is of no dashboard; delete it\n")
    return 1 if left_over or (only_check and differing) else 0


def dashboards() -> dict[str, str]:
    """Each dashboard's file name and text."""
    return {f"{each.uid}.json": _text(each) for each in (make().build() for make in BOARDS)}


def _text(built: object) -> str:
    made = json.loads(json.dumps(built, cls=JSONEncoder), object_hook=_finished)
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _finished(made: dict[str, Any]) -> dict[str, Any]:
    """A part that says which setting it needs, and that is in sight.

    The SDK puts every link and every annotation away into a menu, and cannot do otherwise.
    """
    kept = {key: value for key, value in made.items() if key != "placement" or value != _MENU}
    return with_setting(kept)


def _committed(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
