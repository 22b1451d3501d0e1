"""JSON of documents: flat ones in their place, and the rest as it is encoded."""

import math
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest
from msgspec import UNSET, Struct, UnsetType

import rightsizer
from rightsizer.io.codec import FlatDocument, encode, indented, plain

FIGURE = FlatDocument(value=2.0, low=1.0)


class Plan(Struct, frozen=True):
    """Document with a figure."""

    cost: FlatDocument
    note: str | UnsetType = UNSET


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (Plan(FIGURE), {"cost": 2.0, "cost_low": 1.0}),
        (Plan(FlatDocument(value=2.0, low=UNSET), "x"), {"cost": 2.0, "note": "x"}),
        (Plan(FlatDocument(hourly=FIGURE)), {"cost_hourly": 2.0, "cost_hourly_low": 1.0}),
        (MappingProxyType({"x": Plan(FIGURE)}), {"x": {"cost": 2.0, "cost_low": 1.0}}),
        ({"x": [(Plan(FIGURE),)]}, {"x": [[{"cost": 2.0, "cost_low": 1.0}]]}),
        ({"x": FIGURE}, {"x": 2.0, "x_low": 1.0}),
    ],
)
def test_flat_document_stands_in_the_one_around_it(
    document: MappingProxyType[str, object], expected: object
) -> None:
    """Wherever that one is, as text and as values."""
    assert plain(document) == msgspec.json.decode(encode(document)) == expected


@pytest.mark.parametrize("document", [FIGURE, [FIGURE], {"x": [FIGURE]}])
def test_flat_document_alone_is_refused(document: object) -> None:
    """Its keys have no beginning."""
    with pytest.raises(TypeError, match="flat document stands alone"):
        encode(document)


def test_nothing_else_encodes_a_flat_document() -> None:
    """It would be an object of its own there."""
    with pytest.raises(TypeError, match="unsupported"):
        msgspec.json.encode(Plan(FIGURE))
    with pytest.raises(TypeError, match="unsupported"):
        msgspec.to_builtins(Plan(FIGURE))


def test_what_json_lacks_is_null_or_text() -> None:
    """Keys of any kind are text, and no number is infinite."""
    value = {1: (math.inf, math.nan), "b": MappingProxyType({"z": None, "a": 1j})}
    assert encode(value) == b'{"1":[null,null],"b":{"z":null,"a":"1j"}}'


def test_people_are_shown_what_no_terminal_obeys() -> None:
    """Whatever characters names have, in whatever encoding of the terminal."""
    assert indented([{"\x9b": "é"}]) == '[\n {\n  "\\u009b": "\\u00e9"\n }\n]'


def test_there_is_no_other_way_to_json() -> None:
    """Nothing but the codec asks the library to encode."""
    package = Path(rightsizer.__file__).parent
    ways = ("msgspec.json.encode(", "msgspec.json.Encoder(", "to_builtins(")
    users = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if any(way in file.read_text(encoding="utf-8") for way in ways)
    }
    assert users == {"io/codec.py"}
