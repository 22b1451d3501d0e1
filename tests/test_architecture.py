"""Which package may import what; ARCHITECTURE.md says why."""

import ast
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import pytest

from code_trees import statements, tree_of

PACKAGE: Final = Path(__file__).parent.parent / "daemon" / "rightsizer"

CORE: Final = (
    "model",
    "io",
    "config",
    "catalogue",
    "host",
    "owners",
    "telemetry",
    "recordings",
    "profiles",
    "accounting",
    "sizing",
    "advice",
    "report",
    "exposition",
    "notify",
    "web",
    "console",
)
"""Lowest first; each may import those before it."""

FEATURES: Final = ["planner", "fleet", "profiler", "broker", "actions", "simulator"]
"""Each may import the core, and none another one."""

TOP: Final = ["agent", "cli", "assistant"]
"""Each may import the core, the features, and what stands before it."""

EXCEPTIONS: Final[dict[str, str]] = {
    "__main__": "cli",
    "interface": "advice agent catalogue config console fleet io model planner profiler recordings",
}
"""What is allowed besides, by the beginning of a module's path."""

IMPORTERS: Final = {
    "anyio": "assistant/server",
    "apscheduler": "io/jobs",
    "bcrypt": "web/authenticator",
    "h2": "io/grpc_client",
    "jinja2": "report/ web/",
    "mcp": "assistant/server",
    "mcp_types": "assistant/server",
    "numpy": "fleet/cache/ fleet/cases/ fleet/columns/ fleet/prometheus/ fleet/source"
    " fleet/sources/ fleet/fetch profiles/",
    "orjson": "fleet/prometheus/response_parser",
    "prometheus_client": "exposition/ web/ telemetry/dcgm telemetry/serving",
    "pynvml": "telemetry/nvml",
    "argcomplete": "cli/completion",
    "rich": "console/node_table console/node_panels console/node_screen",
    "structlog": "io/log",
    "urllib3": "io/http",
    "yaml": "io/yaml",
}
"""All that others wrote, and the only places that import it."""

EVERYWHERE: Final = ("msgspec",)
"""What value classes are made of."""

PURE: Final = ("model/", "accounting/", "sizing/", "advice/")
"""These take and return values, but for the files in IMPURE_FILES."""

IMPURE_FILES: Final = (
    "model/table",  # Reads the tables beside it.
    "advice/storage",
    "accounting/history",
    "accounting/service",
    "advice/ledger",
    "advice/service",
)

THROUGH_VALUES: Final = (
    "accounting/",
    "actions/",
    "advice/",
    "agent/",
    "assistant/",
    "broker/",
    "cli/",
    "exposition/",
    "fleet/",
    "host/",
    "notify/",
    "owners/",
    "profiler/",
    "recordings/",
    "simulator/",
    "telemetry/",
    "web/",
)
"""Packages that import the model's values from one place, but for the files in SHORT."""

SHORT: Final = (
    "broker/child_process",
    "broker/launch",
    "broker/lease",
    "broker/queue_command",
    "broker/request",
    "broker/run_command",
    "cli/completion",
    "cli/main",
    "cli/place",
    "cli/plan",
    "cli/release",
    "cli/top",
    "cli/version",
    "host/process_table",
    "host/settings",
    "telemetry/source",
    "web/advice_api",
    "web/message",
    "web/router",
    "web/settings",
)
"""Loaded by commands that end at once, which load no more of the model than they use."""

IMPURE: Final = (
    "asyncio builtins ctypes http io logging multiprocessing os pathlib random shutil signal"
    " socket sqlite3 subprocess sys tempfile threading time urllib"
)
"""The outside world, which the pure packages do not know."""

IMPURE_CALLS: Final = frozenset({"open", "print", "input"})


def may_import(package: str, other: str) -> bool:
    """Whether a package may import another one of ours."""
    if package == other:
        return True
    if package in TOP:
        return other in CORE or other in FEATURES or other in TOP[: TOP.index(package)]
    if package in FEATURES:
        return other in CORE
    return package in CORE and other in CORE[: CORE.index(package)]


def violations(path: str, source: str) -> list[str]:
    """What a file, named from the package's root, imports or calls against the tables."""
    tree = ast.parse(source)
    package = path.partition("/")[0].removesuffix(".py")
    more = {
        name
        for start, names in EXCEPTIONS.items()
        if path.startswith(start)
        for name in names.split()
    }
    is_pure = path.startswith(PURE) and path.removesuffix(".py") not in IMPURE_FILES
    found = []
    for module in _imports(tree):
        top, _, rest = module.partition(".")
        if top == "rightsizer":
            other = rest.partition(".")[0]
            is_package = other in CORE or other in FEATURES or other in TOP
            if is_package and other not in more and not may_import(package, other):
                found.append(f"{path} imports {module}: {package} may not import {other}")
        elif top in sys.stdlib_module_names:
            if is_pure and top in IMPURE.split():
                found.append(f"{path} imports {module}: {package} is pure")
        elif top not in EVERYWHERE and not path.startswith(
            tuple(IMPORTERS.get(top, "nowhere/").split())
        ):
            found.append(f"{path} imports {module}: only {IMPORTERS.get(top, 'nobody')} may")
    if is_pure:
        found += [f"{path} calls {name}: {package} is pure" for name in _calls(tree) & IMPURE_CALLS]
    return found


def _imports(tree: ast.Module) -> Iterator[str]:
    """Every module that is imported anywhere: in functions and for type checkers too."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide their package"
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
    """Packages import downwards only, features no other feature, and each library has one door."""
    found = [
        violation
        for file in _files()
        for violation in violations(
            file.relative_to(PACKAGE).as_posix(), file.read_text(encoding="utf-8")
        )
    ]

    assert not found, "\n".join(found)


def test_values_of_the_model_are_imported_from_one_place() -> None:
    """Modules that `model/values.py` does not gather are imported alone."""
    gathered = set(_imports(tree_of(PACKAGE / "model" / "values.py")))
    passed_by = {
        f"{path}: {module}"
        for file in _files()
        if (path := file.relative_to(PACKAGE).as_posix()).startswith(THROUGH_VALUES)
        and path.removesuffix(".py") not in SHORT
        for module in _imports(tree_of(file))
        if module in gathered
    }

    assert passed_by == set()


def test_every_file_is_in_a_package_of_the_tables() -> None:
    """A new folder needs a line in the tables first."""
    packages = {file.relative_to(PACKAGE).parts[0] for file in _files()}

    assert packages - {*CORE, *FEATURES, *TOP} <= {"__init__.py", "__main__.py", "interface.py"}


def test_no_two_modules_import_each_other() -> None:
    """Imports at the top of modules form no circle."""
    modules = _modules()
    edges = {name: set(_own_imports(file, modules)) for name, file in modules.items()}
    done: set[str] = set()

    def follow(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join((*way[way.index(name) :], name))
        if name not in done:
            for other in sorted(edges.get(name, ())):
                follow(other, (*way, name))
            done.add(name)

    for name in sorted(edges):
        follow(name, ())


def test_the_bases_of_receivers_know_none_of_them() -> None:
    """What Grafana, webhooks and mail build on imports nothing of theirs."""
    notify = PACKAGE / "notify"
    receivers = tuple(f"rightsizer.notify.{file.parent.name}." for file in notify.glob("*/*.py"))
    bases = ("delivery", "receiver", "routing")

    modules = {name: _imports(tree_of(notify / f"{name}.py")) for name in bases}
    users = {
        name: [module for module in imported if module.startswith(receivers)]
        for name, imported in modules.items()
    }

    assert receivers
    assert users == {name: [] for name in bases}


def _modules() -> dict[str, Path]:
    return {
        ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        ): file
        for file in _files()
    }


def _own_imports(file: Path, modules: Collection[str]) -> Iterator[str]:
    for node in tree_of(file).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in modules:
                    yield whole
                elif node.module in modules:
                    yield node.module


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("model/x.py", "import yaml"),
        ("model/x.py", "from rightsizer.io.clock import Clock"),
        ("model/x.py", "from rightsizer import io"),
        ("accounting/x.py", "def f():\n    from rightsizer.advice import ledger"),
        ("accounting/x.py", "if TYPE_CHECKING:\n    import rightsizer.sizing.memory"),
        ("accounting/x.py", "import time"),
        ("accounting/history_codec.py", "import time"),
        ("accounting/x.py", "open('x')"),
        ("advice/rules/x.py", "import os.path"),
        ("advice/rules/x.py", "import structlog"),
        ("sizing/x.py", "from pathlib import Path"),
        ("telemetry/x.py", "import pynvml"),
        ("telemetry/nvml/x.py", "import prometheus_client"),
        ("report/x.py", "from rightsizer.web import server"),
        ("notify/grafana.py", "import prometheus_client"),
        ("broker/x.py", "from rightsizer.planner import search"),
        ("planner/x.py", "from rightsizer.agent import settings"),
        ("agent/x.py", "from rightsizer.cli import main"),
        ("agent/x.py", "import pydantic"),
        ("cli/x.py", "from apscheduler import schedulers"),
        ("cli/x.py", "import rich"),
        ("fleet/rules/x.py", "import numpy as np"),
        ("accounting/x.py", "import numpy as np"),
        ("fleet/sources/x.py", "import orjson"),
    ],
)
def test_a_forbidden_import_is_caught(path: str, source: str) -> None:
    """The check itself works: in functions, under aliases and for type checkers."""
    assert len(violations(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("model/x.py", "import dataclasses\nfrom rightsizer.model.units import Unit"),
        ("accounting/history.py", "import time\nfrom rightsizer.io import database"),
        ("telemetry/dcgm/page.py", "from prometheus_client import parser"),
        ("report/x.py", "from rightsizer import __version__"),
        ("fleet/x.py", "from rightsizer.advice import ledger"),
        ("agent/x.py", "from rightsizer.broker import lease"),
        ("cli/x.py", "from rightsizer.agent import agent\nimport sys"),
    ],
)
def test_an_allowed_import_is_not(path: str, source: str) -> None:
    """The check is no stricter than its tables."""
    assert violations(path, source) == []


def comparisons_of_kinds(source: str) -> list[int]:
    """Lines that compare with a kind of workload, or list kinds to look one up."""
    compared = (ast.Compare, ast.Set, ast.Tuple, ast.List, ast.Dict, ast.MatchValue)
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, compared)
        for part in ast.iter_child_nodes(node)
        if ast.unparse(part).startswith("WorkloadKind.")
    ]


def test_only_owners_compare_kinds_of_workloads() -> None:
    """What differs by the kind of owner is a method of its class; see `owner_of`."""
    found = [
        f"{file.relative_to(PACKAGE)}:{line}"
        for file in _files()
        if file.relative_to(PACKAGE).parts[0] != "owners"
        if "WorkloadKind." in (source := file.read_text(encoding="utf-8"))
        for line in comparisons_of_kinds(source)
    ]

    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "kind is WorkloadKind.SLURM",
        "kind in (WorkloadKind.SLURM, WorkloadKind.USER)",
        "x = {WorkloadKind.SLURM: 1}",
        "match kind:\n    case WorkloadKind.SLURM:\n        pass",
    ],
)
def test_a_comparison_of_kinds_is_caught(source: str) -> None:
    """The check itself works, and lets a workload be made of a kind."""
    assert comparisons_of_kinds(source)
    assert not comparisons_of_kinds("Workload(key, WorkloadKind.SLURM, name)")


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_map_names_what_is_there(document: str) -> None:
    """A path of the package in a document exists; NAME and FEATURE stand for what one writes."""
    root = PACKAGE.parent.parent
    text = (root / document).read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:daemon/rightsizer/)?([a-z_]+/[a-z_/]*(?:[a-z_]+\.py)?)`", text))
    ours = {name for name in named if name.partition("/")[0] in {*CORE, *FEATURES, *TOP}}

    assert len(ours) > 5
    assert {name for name in ours if not (PACKAGE / name).exists()} == set()
