"""Which room may import what. The tables are the specification; docs/architecture.md tells why."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

PACKAGE: Final = Path(__file__).parent.parent / "daemon" / "rightsizer"

ROOMS: Final = {
    "domain": "",
    "edge": "domain",
    "catalogue": "domain edge",
    "telemetry": "domain edge catalogue",
    "accounting": "domain",
    "sizing": "domain catalogue",
    "placement": "domain catalogue",
    "advice": "domain sizing catalogue placement",
    "fleet": "domain edge catalogue accounting sizing advice",
    "profiles": "domain edge",
    "publish": "domain edge catalogue",
    "config": "domain edge",
    "runtime": (
        "domain edge catalogue telemetry accounting sizing placement advice fleet profiles publish"
        " config"
    ),
    "cli": (
        "domain edge catalogue telemetry accounting sizing placement advice fleet profiles publish"
        " config runtime"
    ),
}
"""What a room may import of ours, beside itself."""

MORE: Final = {"accounting/history": "edge", "advice/ledger": "edge", "__main__": "cli"}
"""Files whose names start so may import this too."""

IMPORTERS: Final = {
    "apscheduler": "runtime/",
    "bcrypt": "publish/web/toolkit/passwords",
    "h2": "telemetry/owners/",
    "jinja2": "publish/",
    "prometheus_client": "publish/metrics publish/web telemetry/dcgm telemetry/serving/page",
    "pynvml": "telemetry/nvml",
    "structlog": "runtime/ telemetry/ publish/ fleet/ cli/",
    "urllib3": "edge/http",
    "yaml": "edge/yaml",
}
"""All that others wrote, and the only places that import it."""

PURE: Final = ("domain/", "accounting/", "sizing/", "placement/", "advice/")
"""These take and return values, but for the two files in MORE."""

IMPURE: Final = (
    "asyncio builtins ctypes http io logging multiprocessing os pathlib random shutil signal"
    " socket sqlite3 subprocess sys tempfile threading time urllib"
)
"""The outside world, which the pure rooms do not know."""

IMPURE_CALLS: Final = frozenset({"open", "print", "input"})


def violations(path: str, source: str) -> list[str]:
    """What a file, named from the package's root, imports or calls against the tables."""
    tree = ast.parse(source)
    room = path.partition("/")[0].removesuffix(".py")
    more = " ".join(names for prefix, names in MORE.items() if path.startswith(prefix)).split()
    is_pure = path.startswith(PURE) and not path.startswith(tuple(MORE))
    found = []
    for module in _imports(tree):
        top, _, rest = module.partition(".")
        if top == "rightsizer":
            other = rest.partition(".")[0]
            if other in ROOMS and other not in (room, *ROOMS.get(room, "").split(), *more):
                found.append(f"{path} imports {module}: {room} may not import {other}")
        elif top in sys.stdlib_module_names:
            if is_pure and top in IMPURE.split():
                found.append(f"{path} imports {module}: {room} is pure")
        elif not path.startswith(tuple(IMPORTERS.get(top, "nowhere/").split())):
            found.append(f"{path} imports {module}: only {IMPORTERS.get(top, 'nobody')} may")
    if is_pure:
        found += [f"{path} calls {name}: {room} is pure" for name in _calls(tree) & IMPURE_CALLS]
    return found


def _imports(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported anywhere: in functions and for type checkers too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide their room"
            names = [alias.name for alias in node.names]
            if node.module == "rightsizer":
                yield from (f"rightsizer.{name}" for name in names)
            else:
                yield str(node.module)


def _calls(tree: ast.AST) -> set[str]:
    return {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


def _files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_the_package_keeps_to_the_tables() -> None:
    """Rooms import downwards only, and each foreign library has its one door."""
    found = [
        violation
        for file in _files()
        for violation in violations(
            file.relative_to(PACKAGE).as_posix(), file.read_text(encoding="utf-8")
        )
    ]

    assert not found, "\n".join(found)


def test_every_file_is_in_a_room() -> None:
    """A new folder needs a line in the table first."""
    rooms = {file.relative_to(PACKAGE).parts[0] for file in _files()}

    assert rooms - ROOMS.keys() <= {"__init__.py", "__main__.py"}


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("domain/x.py", "import yaml"),
        ("domain/x.py", "from rightsizer.edge.clock import Clock"),
        ("domain/x.py", "from rightsizer import edge"),
        ("accounting/x.py", "def f():\n    from rightsizer.edge import database"),
        ("accounting/x.py", "if TYPE_CHECKING:\n    import rightsizer.edge.database"),
        ("accounting/x.py", "import time"),
        ("accounting/x.py", "open('x')"),
        ("advice/rules/x.py", "import os.path"),
        ("advice/rules/x.py", "import structlog"),
        ("sizing/x.py", "from pathlib import Path"),
        ("telemetry/x.py", "import pynvml"),
        ("telemetry/nvml/x.py", "import prometheus_client"),
        ("publish/x.py", "from rightsizer.accounting import states"),
        ("publish/grafana/x.py", "import prometheus_client"),
        ("runtime/x.py", "from rightsizer.cli import main"),
        ("runtime/x.py", "import pydantic"),
        ("cli/x.py", "from apscheduler import schedulers"),
        ("cli/x.py", "import rich"),
        ("fleet/x.py", "import numpy as np"),
    ],
)
def test_a_forbidden_import_is_caught(path: str, source: str) -> None:
    """The check itself works: in functions, under aliases and for type checkers."""
    assert len(violations(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("domain/x.py", "import dataclasses\nfrom rightsizer.domain.units import Unit"),
        ("accounting/history.py", "import time\nfrom rightsizer.edge import database"),
        ("advice/ledger_store.py", "import os\nfrom rightsizer.edge import database"),
        ("telemetry/dcgm.py", "from prometheus_client import parser"),
        ("publish/x.py", "from rightsizer import __version__"),
        ("cli/x.py", "from rightsizer.runtime import agent\nimport sys"),
    ],
)
def test_an_allowed_import_is_not(path: str, source: str) -> None:
    """The check is no stricter than its tables."""
    assert violations(path, source) == []
