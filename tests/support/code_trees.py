"""Syntax trees of files, their statements without expressions, and what is packed into one."""

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["packed_assignments", "starred_items", "statements", "tree_of", "working_statements"]

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


def working_statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """All statements but docstrings, and other constants that stand alone."""
    for node in statements(tree):
        if isinstance(node, ast.stmt) and not _is_constant(node):
            yield node


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def packed_assignments(tree: ast.Module) -> Iterator[ast.Assign]:
    """Assignments of several values to as many names, as in `a, b = 1, 2`."""
    for node in statements(tree):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Tuple)
        ):
            yield node


def starred_items(tree: ast.Module) -> Iterator[ast.Starred]:
    """Items that were unpacked from a literal inside of another, as in `[*(1, 2), 3]`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List):
            yield node
