"""Formulas of layers: arithmetic over the keys of a configuration, from a packaged table."""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from rightsizer.io.yaml import load_beside
from rightsizer.planner.models.configuration import Configuration, wrong
from rightsizer.sizing.models import UnreadParameters
from rightsizer.sizing.parameters import plain_layer

_OPERATORS: Final[Mapping[type, Callable[..., Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
}
FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "at": operator.getitem,
    "bool": bool,
    "count": lambda items, item: list(items).count(item),
    "float": float,
    "head": lambda items, count: items[:count],
    "int": int,
    "len": len,
    "max": max,
    "min": min,
    "plain_layer": plain_layer,
    "range": range,
    "round": round,
    "sum": sum,
    "tail": lambda items, count: items[len(items) - count :],
    "unread": UnreadParameters,
}


@cache
def _sections() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = load_beside(__file__, "layer_formulas.yaml")
    return loaded


@cache
def formula_rows(section: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of a section of the table by type, each with what all of them share."""
    rows = {**_sections()[section]}
    common = rows.pop("common", {})
    shared = common.get("faults", ())
    return {
        kind: {**common, **row, "faults": [*shared, *row.get("faults", ())]}
        for kinds, row in rows.items()
        for kind in kinds.split()
    }


@cache
def _parsed(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


class Formulas:
    """Values by name: those given, then formulas of a row, else required keys of a file.

    A list in a row is a function: its parameters, and its formula last. Python's arithmetic,
    comparisons, conditions and lists are understood; nothing is run.
    """

    def __init__(
        self,
        row: Mapping[str, Any],
        config: Configuration,
        given: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]] = FUNCTIONS,
    ) -> None:
        self._row = row
        self._config = config
        self._values = dict(given)
        self._functions = functions

    def __getitem__(self, name: str) -> Any:
        """Return a value; raises `RequirementError` if the file lacks it."""
        if name not in self._values:
            formula = self._row.get(name)
            missing = formula is None
            self._values[name] = self._config.needed(name) if missing else self.result(formula)
        return self._values[name]

    def check(self) -> None:
        """Raise `RequirementError` for a fault of the row."""
        for condition, key, fault, *remedy in self._row.get("faults", ()):
            if self.result(condition):
                raise wrong(key, fault.format_map(self), *remedy)

    def results(self, part: str) -> dict[str, Any]:
        """Return the results of a part of the row; raises `RequirementError` for its faults."""
        self.check()
        return {name: self.result(formula) for name, formula in self._row[part].items()}

    def result(self, formula: Any) -> Any:
        """Return the result of a formula, as text or parsed; other values are their own."""
        match _parsed(formula) if isinstance(formula, str) else formula:
            case ast.Constant() as node:
                return node.value
            case ast.Name() as node:
                return self[node.id]
            case ast.Tuple() as node:
                return tuple(map(self.result, node.elts))
            case ast.IfExp() as node:
                return self.result(node.body if self.result(node.test) else node.orelse)
            case ast.BoolOp(values=[first, *others]) as node:
                value = self.result(first)
                while others and bool(value) is isinstance(node.op, ast.And):
                    value = self.result(others.pop(0))
                return value
            case ast.ListComp() | ast.Call() as node:
                return self._called(node)
            case ast.AST() as node:
                return self._operated(node)
        return formula

    def _operated(self, node: Any) -> Any:
        match node:
            case ast.UnaryOp():
                operation: ast.AST = node.op
                operands = [node.operand]
            case ast.Compare():
                operation = node.ops[0]
                operands = [node.left, *node.comparators]
            case _:
                operation = node.op
                operands = [node.left, node.right]
        return _OPERATORS[type(operation)](*map(self.result, operands))

    def _called(self, node: ast.ListComp | ast.Call) -> Any:
        if isinstance(node, ast.ListComp):
            loop = node.generators[0]
            names = [ast.unparse(loop.target)]
            chosen = ast.BoolOp(ast.And(), [ast.Constant(value=True), *loop.ifs])
            items = [[item] for item in self.result(loop.iter)]
            taken = [item for item in items if self._within(names, item, chosen)]
            return [self._within(names, item, node.elt) for item in taken]
        name = ast.unparse(node.func)
        arguments = [self.result(argument) for argument in node.args]
        if isinstance(definition := self._row.get(name), list):
            return self._within(definition[:-1], arguments, definition[-1])
        function = self._functions.get(name) or getattr(self._config, name)
        words = {str(word.arg): self.result(word.value) for word in node.keywords}
        return function(*arguments, **words)

    def _within(self, names: Sequence[str], values: Sequence[Any], formula: object) -> Any:
        """Return the result of a formula with more values given."""
        given = {**self._values, **dict(zip(names, values, strict=True))}
        return Formulas(self._row, self._config, given, self._functions).result(formula)
