"""Declaration of thresholds."""

from types import MappingProxyType
from typing import Annotated

from msgspec import Struct

from rightsizer.model.settings import (
    Bounds,
    Description,
    Spec,
    bounds_of,
    declared_fields,
    descriptions_of,
)


class Inner(Struct, frozen=True):
    """Nested settings."""

    delay: Annotated[
        float, Spec(help="How long.", unit="seconds", within=(0, 60), source="a paper")
    ] = 5.0


class Outer(Struct, frozen=True):
    """Settings with a nested group."""

    inner: Inner = Inner()
    names: Annotated[MappingProxyType[str, int], Spec(help="By name.")] = MappingProxyType({"a": 1})


def test_field_carries_its_documentation() -> None:
    """Default, unit, bounds and source are declared together."""
    (declared,) = declared_fields(Inner)
    assert declared.default == 5.0
    assert bounds_of(Inner)["delay"] == Bounds("seconds", 0, 60)
    assert descriptions_of(Inner)["delay"] == Description("How long.", "a paper")
    assert Inner(delay=7.0).delay == 7.0


class Named(Struct, frozen=True):
    """Settings described by their names only."""

    busy_ratio: Annotated[float, Spec(help="How busy.")] = 0.5
    gap_seconds: Annotated[float, Spec(help="How long.", within=(None, 60))] = 1.0
    size_bytes: Annotated[int, Spec(help="How large.")] = 1
    minimum_days: Annotated[int, Spec(help="How many days.")] = 1
    speedup_ratio: Annotated[float, Spec(help="How much faster.", unit="")] = 1.5


def test_name_tells_unit_and_bounds() -> None:
    """The declaration may override both."""
    assert [(each.unit, each.minimum, each.maximum) for each in bounds_of(Named).values()] == [
        ("ratio", 0, 1),
        ("seconds", None, 60),
        ("bytes", 0, None),
        ("", None, None),
        ("", None, None),
    ]


def test_group_of_settings_has_no_bounds() -> None:
    """A field that only holds other settings has no help of its own."""
    assert bounds_of(Outer) == {"names": Bounds("", None, None)}
    assert descriptions_of(Outer) == {"names": Description("By name.", "")}


class Described(Struct, frozen=True):
    """Settings that the docstring tells of.

    Attributes:
        gap_seconds: How long it may be away; longer than a line of a docstring has room
            for.
            Source: a paper: the one on
            gaps
        name: What it is called.
        shared_ratio: What the field itself says better.
    """

    gap_seconds: float = 1.0
    name: str = ""
    shared_ratio: Annotated[float, Spec(help="How much.", source="assumed")] = 0.5


class DescribedAgain(Described, frozen=True):
    """The same, of which one is told anew.

    Attributes:
        name: What else it is called.
    """

    name: str = "other"


def test_docstring_describes_settings() -> None:
    """A base class fills in what a class lacks; a field's own help takes precedence."""
    gap = "How long it may be away; longer than a line of a docstring has room for."
    assert descriptions_of(Described) == {
        "gap_seconds": Description(gap, "a paper: the one on gaps"),
        "name": Description("What it is called.", ""),
        "shared_ratio": Description("How much.", "assumed"),
    }
    assert descriptions_of(DescribedAgain)["name"].help == "What else it is called."
    assert descriptions_of(DescribedAgain)["gap_seconds"].help == gap


def test_mapping_defaults_are_shared_read_only() -> None:
    """Two trees of settings cannot change each other."""
    assert Outer().names is Outer().names
    assert dict(Outer().names) == {"a": 1}


Share = Annotated[float, Spec(within=(0.01, 1))]


class Shares(Struct, frozen=True):
    """Settings that share a declaration."""

    first: Share = 0.5
    second: Annotated[Share, Spec(help="The other.", within=(0.1, 1))] = 0.5


def test_later_annotation_adds_to_a_shared_one() -> None:
    """It overrides only what it states."""
    first, second = declared_fields(Shares)
    assert first.spec == Spec(within=(0.01, 1))
    assert second.spec == Spec(within=(0.1, 1), help="The other.")
