"""How the code is written: sizes, names that are true, settings that are explained."""

import ast
import inspect
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

import rightsizer
from code_trees import statements, tree_of
from rightsizer.cli.config import WholeSettings
from rightsizer.config.shape import Group, Many, Named, Nullable, Shape, shape_of
from rightsizer.model.settings import Bounds, bounds_of, declared_fields, descriptions_of

ROOT: Final = Path(__file__).parent.parent
PROGRAMS: Final = ("tests", "evaluation", "benchmarks")
PACKAGE: Final = ROOT / "daemon" / "rightsizer"
CODE: Final = sorted(
    file for top in (PACKAGE, *map(ROOT.joinpath, PROGRAMS)) for file in top.rglob("*.py")
)

LONGEST_FUNCTION: Final = 60

UNFINISHED: Final = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
REGISTRY: Final = re.compile(
    r"pypi\.org|pythonhosted\.org|docker\.io/|ghcr\.io|gcr\.io|quay\.io|nvcr\.io|registry\.k8s\.io"
    r"|registry\.npmjs|jsdelivr\.net|unpkg\.com|proxy\.golang\.org|(extra-)?index-url"
)
"""Where packages and images come from is the operator's choice, made outside this repository."""


def _name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@cache
def _texts() -> tuple[tuple[str, str], ...]:
    """Name and text of every file that is tracked or could be, this one apart."""
    answer = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    # An unpacked source archive has no repository around it.
    names = answer.stdout.split("\0") if answer.returncode == 0 else map(_name, ROOT.rglob("*"))
    found = []
    for name in names:
        file = ROOT / name
        if not file.is_file() or file == Path(__file__) or name.startswith(".venv/"):
            continue
        data = file.read_bytes()
        if b"\0" not in data:  # A picture says nothing in words.
            found.append((name, data.decode(errors="ignore")))
    return tuple(found)


class Definition(Struct, frozen=True):
    """A class or a function of the code."""

    name: str
    place: str
    """File and line."""
    lines: int
    is_class: bool
    is_outermost: bool
    decorators: tuple[str, ...]


@cache
def _definitions() -> tuple[Definition, ...]:
    """All of them: to parse the files takes most of the time."""
    return tuple(definition for file in CODE for definition in _defined(file))


def _defined(file: Path) -> Iterator[Definition]:
    tree = tree_of(file)
    for node in statements(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield Definition(
                name=node.name,
                place=f"{_name(file)}:{node.lineno}",
                lines=(node.end_lineno or 0) - node.lineno + 1,
                is_class=isinstance(node, ast.ClassDef),
                is_outermost=node in tree.body,
                decorators=tuple(map(ast.unparse, node.decorator_list)),
            )


def _settings() -> list[type]:
    """Every class of the settings of all commands."""
    classes = {group.type for group in _groups(shape_of(WholeSettings))}
    return sorted(classes, key=lambda kind: f"{kind.__module__}.{kind.__name__}")


def _groups(shape: Shape) -> Iterator[Group]:
    if isinstance(shape, Group):
        yield shape
        for entry in shape.entries:
            yield from _groups(entry.shape)
    elif isinstance(shape, Nullable):
        yield from _groups(shape.inner)
    elif isinstance(shape, Many):
        yield from _groups(shape.item)
    elif isinstance(shape, Named):
        yield from _groups(shape.value)


def test_no_function_is_longer_than_a_screen() -> None:
    """One thought a function, its docstring included."""
    assert [
        definition
        for definition in _definitions()
        if not definition.is_class and definition.lines > LONGEST_FUNCTION
    ] == []


def test_no_class_name_stands_twice() -> None:
    """One name, one class; a name that two contexts need carries its context."""
    package = f"{_name(PACKAGE)}/"
    found: dict[str, list[str]] = {}
    for definition in _definitions():
        if definition.is_class and definition.is_outermost and definition.place.startswith(package):
            found.setdefault(definition.name, []).append(definition.place)

    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_frozen_values_are_structs() -> None:
    """A frozen dataclass takes ten times as long to define, and seven times as long to create."""
    assert [
        definition
        for definition in _definitions()
        if definition.is_class
        and any("dataclass" in text and "frozen=True" in text for text in definition.decorators)
    ] == []


def test_every_setting_is_explained() -> None:
    """An operator reads what each one does, and so does the reference."""
    settings = _settings()

    assert settings
    assert [
        f"{setting.__name__}.{name}"
        for setting in settings
        for name, description in descriptions_of(setting).items()
        if not description.help
    ] == []


def test_no_docstring_reports_a_setting_that_is_not_there() -> None:
    """A name that was changed is changed in the text above it too."""
    assert [
        f"{setting.__name__}: {name}"
        for setting in _settings()
        for name in re.findall(
            r"(?m)^ {4}(\w+): ", (inspect.getdoc(setting) or "").partition("Attributes:")[2]
        )
        if name not in bounds_of(setting)
    ] == []


def test_every_default_lies_within_its_own_bounds() -> None:
    """What is allowed includes what is usual."""
    outside = [
        f"{setting.__module__}.{setting.__name__}.{declared.name}"
        for setting in _settings()
        for declared in declared_fields(setting)
        if not declared.is_group and not _is_within(declared.default, declared.bounds)
    ]

    assert outside == []


def _is_within(default: object, bounds: Bounds) -> bool:
    if not isinstance(default, int | float):
        return True
    least = float("-inf") if bounds.minimum is None else bounds.minimum
    most = float("inf") if bounds.maximum is None else bounds.maximum
    return least <= default <= most


def test_nothing_is_left_for_later() -> None:
    """What is in the tree is finished; what is not has an issue."""
    assert [name for name, text in _texts() if UNFINISHED.search(text)] == []


def test_no_registry_is_named() -> None:
    """A mirror, an air-gapped site and the public one work alike."""
    assert [name for name, text in _texts() if REGISTRY.search(text)] == []


def test_the_version_stands_in_one_place() -> None:
    """The package knows its version; the build asks it."""
    places = [
        name
        for name, text in _texts()
        if name.startswith(("daemon/", "systemd/", "pyproject", "Dockerfile", "Makefile"))
        and re.search(rf"(?<![\d.]){re.escape(rightsizer.__version__)}(?![\d.])", text)
    ]

    assert places == ["daemon/rightsizer/__init__.py"]


@pytest.mark.parametrize("text", ["# TODO: later", "raise NotImplementedError", "x = 1  # XXX"])
def test_unfinished_work_marker_is_found(text: str) -> None:
    """The check for unfinished work itself works."""
    assert UNFINISHED.search(text)
