"""The program runs no code from text, and starts only programs listed here with reasons."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

PACKAGE: Final = Path(__file__).parent.parent.parent / "daemon" / "rightsizer"

MODULES: Final = frozenset(
    {"subprocess", "pty", "multiprocessing", "pickle", "marshal", "shelve", "code", "runpy"}
)
"""Ways to start programs, and data formats that run code when read."""

BUILT_IN: Final = frozenset({"eval", "exec", "compile", "__import__"})
SYSTEM: Final = ("system", "popen", "exec", "spawn", "posix_spawn", "fork", "startfile")
"""Prefixes of names in `os` that start a program."""

UNSAFE_YAML: Final = frozenset(
    {"load", "load_all", "full_load", "unsafe_load", "Loader", "FullLoader", "UnsafeLoader"}
)

EXCEPTIONS: Final[dict[str, str]] = {
    "fleet/process_pool.py: multiprocessing": "the fleet's own workers, "
    "which it starts and alone talks to",
    "fleet/process_pool.py: multiprocessing.connection": "the pipe to each of them",
    "fleet/process_pool.py: multiprocessing.context": "the name of its type",
    "io/program.py: subprocess": "the profiler or the action that an operator has configured, "
    "and this very program, which plans what engines serve, of fleets and of nodes with the form; "
    "an argument list, never a shell, with bounds on time and output, and without a secret",
    "profiler/capture/isolated_reader.py: subprocess": "this very program, "
    "which reads one file that landed within bounds of its own, so that no file can hurt the agent",
    "broker/child_process.py: os.fork": "the command that somebody gives to `rightsizer run`, "
    "with his own rights and in his own terminal; no agent loads it",
    "broker/child_process.py: os.execvpe": "the same",
    "web/plan_route.py: subprocess": "this very program, which makes the page of a plan where an "
    "operator has turned the form on; one at a time, for so long, a client's words in one argument",
    "assistant/server.py: subprocess": "this very program, which answers a tool of "
    "`rightsizer mcp` as the command does; an argument list without files, no agent loads it",
    "cli/completion.py: shell=": "the name of the shell that completions are printed for",
    "profiles/nsight_systems/reader.py: subprocess": "NVIDIA's own exporter, "
    "for whoever gives `rightsizer profile` a file that nothing else can read; "
    "an argument list, never a shell",
}
"""`file: what` with the reason; each has a line in SECURITY.md. An agent starts nothing unless its
operator has named a folder where profiles land, a program to be called for one, or an action, or
has turned the form of plans on."""


def forbidden(tree: ast.AST) -> Iterator[str]:
    """Uses in a file that could run something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            yield from _imported(node)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from _named(node.value.id, node.attr)
        elif isinstance(node, ast.Call):
            yield from (f"{keyword.arg}=" for keyword in node.keywords if keyword.arg == "shell")
            if isinstance(node.func, ast.Name) and node.func.id in BUILT_IN:
                yield node.func.id


def _imported(node: ast.ImportFrom) -> Iterator[str]:
    module = node.module or ""
    if module.split(".")[0] in MODULES:
        yield module
    yield from (name for each in node.names for name in _named(module, each.name))


def _named(module: str, name: str) -> Iterator[str]:
    is_system = module == "os" and name.startswith(SYSTEM)
    if is_system or (module == "yaml" and name in UNSAFE_YAML):
        yield f"{module}.{name}"


def test_the_package_runs_nothing() -> None:
    """It uses no program, shell, code from text, or data that runs when read."""
    found = {
        f"{file.relative_to(PACKAGE)}: {what}"
        for file in PACKAGE.rglob("*.py")
        for what in forbidden(ast.parse(file.read_text(encoding="utf-8")))
    }
    assert found == set(EXCEPTIONS)


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess",
        "import multiprocessing.pool",
        "from subprocess import run",
        "from os import system",
        "def f():\n    import pickle",
        "os.execv('x', [])",
        "os.posix_spawn('x', [], {})",
        "eval('1')",
        "f(shell=False)",
        "yaml.load(text)",
        "yaml.Loader",
    ],
)
def test_code_execution_is_detected_by_the_check(source: str) -> None:
    """The check finds aliases and uses inside functions."""
    assert list(forbidden(ast.parse(source)))
