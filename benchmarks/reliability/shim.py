"""Calls of the C library that fail, wait or lie: compiled at run time, steered by a file."""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.reliability.node import Node

_SOURCE: Final = Path(__file__).parent / "libc_shim.c"
_CONTROL: Final = "shim-rules"


def preload(folder: Path) -> None:
    """Let all programs that this process starts load the shim, which does nothing by itself."""
    os.environ["LD_PRELOAD"] = str(_compile(folder))


def load(node: Node) -> None:
    """Let the agent start with the shim, and without a rule so far."""
    if "LD_PRELOAD" not in os.environ:
        node.environment["LD_PRELOAD"] = str(_compile(node.folder))
    node.environment["RIGHTSIZER_SHIM"] = str(node.folder / _CONTROL)


def strike(*rules: str) -> Callable[[Node], None]:
    """A fault: calls are struck from now on, by rules as `libc_shim.c` explains them."""

    def plant(node: Node) -> None:
        _write(node, rules)

    return plant


def spare(node: Node) -> None:
    """Let all calls pass again."""
    _write(node, ())


def was_struck(node: Node) -> bool:
    """Whether a call was struck; true without a shim."""
    if "RIGHTSIZER_SHIM" not in node.environment:
        return True
    hits = node.folder / f"{_CONTROL}.hits"
    return hits.exists() and hits.stat().st_size > 0


def _write(node: Node, rules: Sequence[str]) -> None:
    partial = node.folder / f"{_CONTROL}.new"
    partial.write_text("".join(f"{rule}\n" for rule in rules), "utf-8")
    partial.replace(node.folder / _CONTROL)


def _compile(folder: Path) -> Path:
    library = folder / "libc_shim.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-o", library, _SOURCE, "-ldl"],
        check=True,
    )
    return library
