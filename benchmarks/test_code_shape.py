"""The shape of the code: what is counted, and what a way enters and passes."""

import ast
from pathlib import Path
from typing import Final

import msgspec
import pytest

from benchmarks.shape import Size
from benchmarks.ways import Way, is_value
from cases import finding
from code_trees import tree_of
from rightsizer.console.advice import finding_line
from rightsizer.io.clock import FastClock
from rightsizer.model.finding import Finding
from rightsizer.sizing.settings import SizingSettings

SOURCE: Final = '''
"""Text of a module."""
import os

def pair(first: int = 3) -> None:
    """Text of a function."""
    a, b = 1, 2
    (c, d), e = (a, b), first
    c, d = pair()
    if c:
        return [*(1, 2), *c, *[3]]
    ...
'''


def test_statements_are_counted_without_docstrings() -> None:
    """Constants that stand alone do nothing either."""
    assert Size.of(ast.parse(SOURCE)) == Size(1, 7, 2, 2)


def test_sizes_of_parts_add_up() -> None:
    """The whole is the sum of its parts."""
    assert Size(1, 2, 3, 4, 5) + Size(1, 1, 1, 1, 1) == Size(2, 3, 4, 5, 6)


def test_way_enters_modules_of_called_functions() -> None:
    """A module that was only imported is not entered, nor one outside the package."""
    way = Way()
    subject = finding()

    with way.watched():
        finding_line(subject)
        tree_of(Path(__file__))

    assert "rightsizer.console.advice" in way.entered
    assert "rightsizer.console.command" not in way.entered
    assert "code_trees" not in way.entered


def test_carriers_of_a_way_are_values_passed() -> None:
    """A value that stays in a variable is not passed, and settings carry nothing."""
    way = Way()
    way.passed = {Finding, SizingSettings, FastClock, Example, int}

    assert way.carriers == {"rightsizer.model.finding.Finding"}


class Example(msgspec.Struct, frozen=True):
    """A structure outside the package."""


class Loose(msgspec.Struct):
    """A structure that may change."""


@pytest.mark.parametrize(
    ("cls", "expected"),
    [(Finding, True), (Example, True), (Loose, False), (FastClock, False), (tuple, False)],
)
def test_frozen_classes_are_values(cls: type, expected: bool) -> None:  # noqa: FBT001
    """Dataclasses and structures alike."""
    assert is_value(cls) is expected
