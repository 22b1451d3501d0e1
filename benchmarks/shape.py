"""Shape of the code: statements by package, modules loaded by commands and entered on five ways.

`make shape` prints it as tables. A statement is one of the syntax tree that is no docstring and no
other constant that stands alone.
"""

import argparse
import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ways import PLAN, WAYS
from code_trees import packed_assignments, starred_items, tree_of, working_statements
from fleet_command import configured
from fleet_loopback import loopback_store
from measured import machine, table
from profile_examples import launch_bound_trace
from rightsizer.cli.config import WholeSettings
from rightsizer.cli.main import COMMANDS
from rightsizer.config.shape import (
    Group,
    Many,
    Named,
    Nullable,
    Parsed,
    Scalar,
    Shape,
    Tagged,
    shape_of,
)

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "daemon" / "rightsizer"

_GPUS: Final = 16
_AGENT_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 120.0
_RECORDING: Final = "timestamp,device,gpu_busy,power\n" + "".join(
    f"2026-01-01T00:00:{second:02d}Z,gpu-0,0.9,0.5\n" for second in range(60)
)
_AGENT: Final = """
sources: {simulated: {scenario: eight-gpu-node}}
history: {path: ''}
path: {api_socket: ''}
log: {level: error}
"""
_REPORT: Final = """
import atexit, json, os, resource, sys
def tell():
    # No node with a GPU loads the simulator, which stands in for the driver here.
    own = [
        name for name in sys.modules
        if name.partition(".")[0] == "rightsizer" and not name.startswith("rightsizer.simulator")
    ]
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_seconds = used.ru_utime + used.ru_stime
    with open(os.environ["SHAPE_FILE"], "w") as file:
        json.dump({"own": own, "total": len(sys.modules), "cpu_seconds": cpu_seconds}, file)
atexit.register(tell)
from rightsizer.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""Tells at its end what a command has loaded."""


class Size(Struct, frozen=True):
    """Size of a part of the package."""

    modules: int = 0
    statements: int = 0
    packed_assignments: int = 0
    starred_items: int = 0
    settings: int = 0
    """Keys of configuration files, each counted once where it is declared first."""

    @classmethod
    def of(cls, tree: ast.Module) -> Self:
        """Size of a module."""
        return cls(
            1,
            sum(1 for _ in working_statements(tree)),
            sum(1 for _ in packed_assignments(tree)),
            sum(1 for _ in starred_items(tree)),
        )

    def __add__(self, other: Self) -> Self:
        values = (
            getattr(self, field) + getattr(other, field) for field in type(self).__struct_fields__
        )
        return type(self)(*values)

    def row(self, name: str) -> tuple[str, ...]:
        """Cells of a table."""
        return (name, *(f"{getattr(self, field):,}" for field in self.__struct_fields__))


class Loaded(Struct, frozen=True):
    """Modules loaded by a command at its end, and what it took."""

    own: tuple[str, ...]
    """Of the package, without the simulator's."""
    total: int
    cpu_seconds: float


def sizes(package: Path) -> Mapping[str, Size]:
    """Size of each direct part of a package, by name."""
    parts: dict[str, Size] = {}
    for file in sorted(package.rglob("*.py")):
        path = file.relative_to(package)
        name = path.parts[0] if len(path.parts) > 1 else path.stem
        parts[name] = parts.get(name, Size()) + Size.of(tree_of(file))
    for name, count in settings_by_package().items():
        parts[name] += Size(settings=count)
    return parts


def settings_by_package() -> Mapping[str, int]:
    """Count the settings of all configuration files; classes made from others are those others."""
    declared = {
        (_declaring(group.type, entry.name), entry.name)
        for group in _groups(shape_of(WholeSettings))
        for entry in group.entries
        if not isinstance(entry.shape, Group)
    }
    classes = {settings.__name__: settings for settings, _ in declared}
    return Counter(
        classes[settings].__module__.split(".")[1]
        for settings, _ in {(settings.__name__, name) for settings, name in declared}
    )


def _declaring(settings: type, name: str) -> type:
    bases = [base for base in settings.__mro__ if issubclass(base, Struct) and base is not Struct]
    return next(base for base in reversed(bases) if name in base.__struct_fields__)


def _groups(shape: Shape) -> Iterator[Group]:
    match shape:
        case Group():
            yield shape
            for entry in shape.entries:
                yield from _groups(entry.shape)
        case Nullable(inner=value) | Parsed(inner=value) | Many(item=value) | Named(value=value):
            yield from _groups(value)
        case Tagged(groups=groups):
            for group in groups.values():
                yield from _groups(group)
        case Scalar():
            return


def runs(folder: Path) -> Iterator[tuple[str, Loaded]]:
    """What commands load when they do their work."""
    recording = folder / "recording.csv"
    recording.write_text(_RECORDING, encoding="utf-8")
    agent = folder / "agent.yaml"
    agent.write_text(_AGENT, encoding="utf-8")
    profile = launch_bound_trace(folder)
    yield "--version", _loaded("--version")
    yield "--help", _loaded("--help")
    yield "plan, one line", _loaded(*PLAN.split())
    yield "replay FILE", _loaded("replay", recording, "--board", "h100-sxm5-80gb")
    yield "profile FILE", _loaded("profile", profile)
    with loopback_store(_GPUS) as store:
        config = configured(folder, store.url)
        yield "fleet, one look", _loaded("fleet", "--no-progress", "--config.file", config)
    yield (
        f"agent, for {_AGENT_SECONDS:.0f} seconds",
        _loaded(
            "agent",
            "--config.file",
            agent,
            "--web.listen-address",
            "127.0.0.1:0",
            seconds=_AGENT_SECONDS,
        ),
    )


def helps() -> Iterator[tuple[str, Loaded]]:
    """What each command loads to print its help, which is what it imports first."""
    for entry in COMMANDS:
        yield f"{entry.name} --help", _loaded(entry.name, "--help")


def _loaded(*arguments: object, seconds: float | None = None) -> Loaded:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "shape.json"
        process = subprocess.Popen(
            [sys.executable, "-c", _REPORT, *map(str, arguments)],
            env={**os.environ, "SHAPE_FILE": str(file)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if seconds is not None:
            time.sleep(seconds)
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=_PATIENCE_SECONDS)
        if process.returncode:
            raise RuntimeError(f"rightsizer {arguments[0]} exited: {errors}")
        document = json.loads(file.read_text(encoding="utf-8"))
    return Loaded(tuple(document["own"]), document["total"], document["cpu_seconds"])


class Walked(Struct, frozen=True):
    """Modules entered on a way, and value classes passed."""

    modules: tuple[str, ...]
    carriers: tuple[str, ...]


def _walked(name: str) -> Walked:
    """In a process of its own: what others have cached would shorten the way."""
    program = Path(__file__).with_name("ways.py")
    answer = subprocess.run(
        [sys.executable, str(program), name], capture_output=True, check=True, text=True
    )
    document = json.loads(answer.stdout)
    return Walked(tuple(document["modules"]), tuple(document["carriers"]))


def _size_table() -> str:
    parts = sizes(PACKAGE)
    lines = [size.row(name) for name, size in parts.items()]
    total = sum(parts.values(), Size())
    headings = (field.replace("_", " ") for field in Size.__struct_fields__)
    return table([total.row("**all**"), *lines], ("package", *headings))


def _loaded_table(commands: Iterable[tuple[str, Loaded]], *, names: bool) -> Iterator[str]:
    listed = list(commands)
    lines = [
        (f"`{what}`", str(len(loaded.own)), str(loaded.total), f"{loaded.cpu_seconds:.2f} s")
        for what, loaded in listed
    ]
    yield table(lines, ("command", "own modules", "all modules", "CPU"))
    if names:
        for what, loaded in listed:
            yield f"{what} loads: {' '.join(sorted(loaded.own))}"


def _ways_table(*, names: bool) -> Iterator[str]:
    ways = {name: _walked(name) for name in WAYS}
    lines = [(name, str(len(way.modules)), str(len(way.carriers))) for name, way in ways.items()]
    yield table(lines, ("way", "modules entered", "carriers"))
    if names:
        for name, way in ways.items():
            yield f"{name} enters: {' '.join(way.modules)}"
            yield f"{name} passes: {' '.join(way.carriers)}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--names", action="store_true", help="name modules and carriers too")
    names = parser.parse_args().names
    print(f"Measured on: {machine()}.\n")
    print(_size_table())
    with tempfile.TemporaryDirectory() as folder:
        for text in _loaded_table(runs(Path(folder)), names=names):
            print(f"\n{text}", flush=True)
    for text in (*_ways_table(names=names), *_loaded_table(helps(), names=names)):
        print(f"\n{text}", flush=True)


if __name__ == "__main__":
    main()
