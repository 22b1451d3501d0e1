"""Frozen dataclasses with shared methods behave like those of the standard library."""

import copy
import dataclasses
import pickle
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pytest

from cases import case, finding, judgement, window
from readings import HELD, gpu, snapshot, workload
from rightsizer.model.frozen import FrozenInstanceError, dataclass, field, fields, replace
from rightsizer.model.state import Resource, State

SHARED: Final = ("__setattr__", "__delattr__", "__eq__", "__hash__", "__repr__")


@dataclass(frozen=True, slots=True)
class Point:
    """Fields of every kind."""

    x: int
    tags: list[str] = field(default_factory=list, hash=False)
    note: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Mark(Point):
    """One more field."""

    color: str = "red"


@dataclass(frozen=True, slots=True)
class Nothing:
    """No field at all."""


@dataclass(frozen=True, slots=True)
class Own:
    """Methods of its own."""

    x: int

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __hash__(self) -> int:
        return 7


@dataclass(frozen=True, slots=True)
class Size(Point):
    """Keyword-only fields, a check, and a default that differs from the base's."""

    note: str = "sized"
    unit: str = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(self.unit)


def test_fields_are_given_in_their_order_or_by_name() -> None:
    """Default factories are called each time, checks run, unknown or missing fields are errors."""
    size: Any = Size
    assert Point(1).tags == []
    assert Point(1).tags is not Point(1).tags
    assert (Size(1, unit="m").note, Size(1, ["a"], "b", unit="m").tags) == ("sized", ["a"])
    with pytest.raises(ValueError, match="m"):
        Size(-1, unit="m")
    with pytest.raises(TypeError, match="'unit'"):
        size(1)
    with pytest.raises(TypeError, match="'y'"):
        size(1, unit="m", y=2)
    with pytest.raises(TypeError):
        size(1, [], "", "m")


def test_equality_is_of_class_and_of_what_is_compared() -> None:
    """It equals the standard library's."""
    assert Point(1, ["a"], "n") == Point(1, ["a"], "m")
    assert Point(1) != Point(2)
    assert Mark(1) != Point(1)
    assert Mark(1) != Mark(1, color="blue")
    assert Nothing() == Nothing()
    assert len({Point(1, ["a"]), Point(1, ["b"]), Nothing(), Nothing()}) == 3


@dataclass(frozen=True, slots=True)
class Filled:
    """Collections of every kind that are not hashable."""

    shares: Mapping[str, Any] = field(default_factory=dict)
    others: Any = ()


def test_values_with_collections_in_them_have_a_hash() -> None:
    """It is the same for equal values, in any order of insertion and at any depth."""
    one = Filled({"a": [1, {"b": {2}}], "c": Filled({"d": 3})}, [{"e": 4}])
    other = Filled({"c": Filled(MappingProxyType({"d": 3})), "a": [1, {"b": {2}}]}, [{"e": 4.0}])
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other, Filled(), Filled({"a": []}), Filled({"a": [1]})}) == 4


def test_value_objects_of_the_product_have_a_hash() -> None:
    """This includes those with mappings."""
    found = window({State.PRODUCTIVE: 1.0}, {Resource.COMPUTE: {0.5: 1.0}})
    for value in (finding(), judgement(), found, case([found], workload())):
        assert hash(value) == hash(copy.deepcopy(value))
    made = [snapshot(0.0, [gpu()], {gpu(): HELD}, holders={gpu(): workload()}) for _ in "ab"]
    assert hash(made[0]) == hash(made[1])


def test_unhashable_field_is_left_out_of_the_hash() -> None:
    """It still takes part in equality."""
    one, other = (Filled({"a": bytearray(text)}) for text in (b"x", b"y"))
    assert hash(one) == hash(other)
    assert len({one, other, Filled({"a": bytearray(b"x")})}) == 2


def test_nothing_can_be_changed() -> None:
    """Setting and deleting raise the standard library's error."""
    point: Any = Point(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x


def test_text_names_the_fields() -> None:
    """Excluded fields are omitted."""
    assert repr(Mark(1, ["a"], "n")) == "Mark(x=1, tags=['a'], color='red')"


def test_it_is_a_dataclass_to_everybody() -> None:
    """Covers copies, pickles, replacement and fields."""
    mark = Mark(1, ["a"], "n", "blue")
    assert pickle.loads(pickle.dumps(mark)) == mark == copy.deepcopy(mark)
    assert replace(mark, x=2) == Mark(2, ["a"], "n", "blue")
    assert [each.name for each in fields(mark)] == ["x", "tags", "note", "color"]
    assert dataclasses.asdict(mark)["color"] == "blue"
    match mark:
        case Mark(x, tags):
            assert (x, tags) == (1, ["a"])


def test_methods_of_its_own_stay() -> None:
    """Shared ones apply only where a class has none."""
    assert repr(Own(1)) == "own"
    assert Own(1) == Own(2)
    assert hash(Own(1)) == 7


def test_classes_share_the_code() -> None:
    """This saves memory; the class without slots is not kept either."""
    for name in SHARED:
        assert getattr(Point, name) is getattr(Mark, name) is getattr(Nothing, name)


def test_unfrozen_and_ordered_classes_use_the_standard_library() -> None:
    """Such classes are few."""

    @dataclass(frozen=True, order=True)
    class Version:
        number: int

    @dataclass
    class Draft:
        number: int

    draft = Draft(1)
    draft.number = 2
    assert draft == Draft(2)
    assert Version(1) < Version(2)
    with pytest.raises(TypeError):
        hash(draft)
