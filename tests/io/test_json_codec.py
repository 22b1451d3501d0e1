"""JSON of documents: flat ones in their place, and the rest as it is encoded."""

import math
from types import MappingProxyType

import pytest
from msgspec import UNSET, Struct, UnsetType

from rightsizer.io.codec import FlatDocument, plain, to_json


class Figure(FlatDocument, frozen=True):
    """Figure and its lower end."""

    value: float
    low: float | UnsetType = UNSET


class Costs(FlatDocument, frozen=True):
    """Figure within a flat document."""

    hourly: Figure


class Plan(Struct, frozen=True):
    """Document with a figure."""

    cost: Figure | Costs


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (Plan(Figure(2.0, 1.0)), {"cost": 2.0, "cost_low": 1.0}),
        (Plan(Figure(2.0)), {"cost": 2.0}),
        (Plan(Costs(Figure(2.0, 1.0))), {"cost_hourly": 2.0, "cost_hourly_low": 1.0}),
        (MappingProxyType({"x": Plan(Figure(2.0))}), {"x": {"cost": 2.0}}),
        ({"x": [(Plan(Figure(2.0)),)]}, {"x": [[{"cost": 2.0}]]}),
    ],
)
def test_flat_document_stands_in_the_one_around_it(document: object, expected: object) -> None:
    """Wherever that one is: in a mapping and in a list too."""
    assert plain(document) == expected


@pytest.mark.parametrize("document", [Figure(1.0), [Figure(1.0)], {"x": Figure(1.0)}])
def test_flat_document_alone_is_refused(document: object) -> None:
    """Its keys would begin with an underscore, or be empty."""
    with pytest.raises(TypeError, match="Figure is flat"):
        plain(document)


def test_all_else_is_as_it_is_encoded() -> None:
    """Keys of any kind are text, and no number is infinite."""
    value = {1: (math.inf, math.nan), "b": {"z": None, "a": 1j}, "set": {"x"}}
    assert plain(value) == to_json(value)
