"""Syntax trees of files, and their statements without expressions."""

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["statements", "tree_of"]

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def tree_of(file: Path) -> ast.Module:
    """The tree of a file; hundreds of megabytes for all files, so that none is kept."""
    return ast.parse(file.read_text(encoding="utf-8"))


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements at any depth; walking expressions would take most of the time."""
    left: list[ast.AST] = [tree]
    for node in left:
        for block in _BLOCKS:
            left += getattr(node, block, ())
    return iter(left[1:])
