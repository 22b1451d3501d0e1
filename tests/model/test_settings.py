"""Declaration of thresholds."""

from dataclasses import dataclass, field, fields
from types import MappingProxyType

import pytest

from rightsizer.model.settings import Bounds, Description, bounds_of, descriptions_of, setting


@dataclass(frozen=True, slots=True)
class Inner:
    """Nested settings."""

    delay: float = setting(5.0, help="How long.", unit="seconds", within=(0, 60), source="a paper")


@dataclass(frozen=True, slots=True)
class Outer:
    """Settings with a nested group."""

    inner: Inner = field(default_factory=Inner)
    names: MappingProxyType[str, int] = setting(MappingProxyType({"a": 1}), help="By name.")


def test_field_carries_its_documentation() -> None:
    """Default, unit, bounds and source are declared together."""
    (declared,) = fields(Inner)
    assert declared.default == 5.0
    assert bounds_of(Inner)["delay"] == Bounds("seconds", 0, 60)
    assert descriptions_of(Inner)["delay"] == Description("How long.", "a paper")
    assert Inner(delay=7.0).delay == 7.0


@dataclass(frozen=True, slots=True)
class Named:
    """Settings described by their names only."""

    busy_ratio: float = setting(0.5, help="How busy.")
    gap_seconds: float = setting(1.0, help="How long.", within=(None, 60))
    size_bytes: int = setting(1, help="How large.")
    minimum_days: int = setting(1, help="How many days.")
    speedup_ratio: float = setting(1.5, help="How much faster.", unit="")


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


@dataclass(frozen=True, slots=True)
class Described:
    """Settings that the docstring tells of.

    Attributes:
        gap_seconds: How long it may be away; longer than a line of a docstring has room
            for.
            Source: a paper: the one on
            gaps
        name: What it is called.
        shared_ratio: What the field itself says better.
    """

    gap_seconds: float = setting(1.0)
    name: str = setting("")
    shared_ratio: float = setting(0.5, help="How much.", source="assumed")


@dataclass(frozen=True, slots=True)
class DescribedAgain(Described):
    """The same, of which one is told anew.

    Attributes:
        name: What else it is called.
    """

    name: str = setting("other")


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


@pytest.mark.parametrize("default", [[], {}, set()])
def test_mutable_default_is_refused(default: object) -> None:
    """All instances would share it."""
    with pytest.raises(TypeError, match="immutable"):
        setting(default, help="A trap.")
