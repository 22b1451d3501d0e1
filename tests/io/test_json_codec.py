"""JSON of documents: flat ones in their place, and the rest as it is encoded."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Struct, UnsetType

import rightsizer
from rightsizer.io.codec import FlatDocument, encode, indented, plain, plain_evidence, stored


class Figure(FlatDocument):
    """Figure and its lower end."""

    value: float
    low: float | UnsetType = UNSET


class Costs(FlatDocument):
    """Figure within a flat document."""

    hourly: Figure


class Plan(Struct, frozen=True):
    """Document with a figure."""

    cost: Figure | Costs
    note: str | UnsetType = UNSET


class Pair(Struct, frozen=True, array_like=True):
    """Document without keys."""

    first: int
    second: object = 0


class Brief(Struct, frozen=True, omit_defaults=True, tag="brief", rename={"size": "length"}):
    """Document that leaves out what is usual."""

    size: int = 1
    rest: object = None


FIGURE = Figure(value=2.0, low=1.0)
HASHED_APART = frozenset("hgfedcba")


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (Plan(FIGURE), {"cost": 2.0, "cost_low": 1.0}),
        (Plan(Figure(value=2.0), "x"), {"cost": 2.0, "note": "x"}),
        (Plan(Costs(hourly=FIGURE)), {"cost_hourly": 2.0, "cost_hourly_low": 1.0}),
        (MappingProxyType({"x": Plan(FIGURE)}), {"x": {"cost": 2.0, "cost_low": 1.0}}),
        ({"x": [(Plan(FIGURE),)]}, {"x": [[{"cost": 2.0, "cost_low": 1.0}]]}),
        ({"x": FIGURE}, {"x": 2.0, "x_low": 1.0}),
        (Brief(rest=FIGURE), {"type": "brief", "rest": 2.0, "rest_low": 1.0}),
    ],
)
def test_flat_document_stands_in_the_one_around_it(
    document: MappingProxyType[str, object], expected: object
) -> None:
    """Wherever that one is, as text and as values."""
    assert plain(document) == msgspec.json.decode(encode(document)) == expected


@pytest.mark.parametrize("rest", [Pair(1), Brief(), Brief(2), {"z": 1, "a": (2, None)}, math.inf])
def test_flat_document_leaves_all_else_as_it_is(rest: object) -> None:
    """Whatever is beside it, around it or in it is encoded as without it."""
    alone = msgspec.json.decode(encode({"rest": rest}))
    assert plain({"cost": FIGURE, "rest": rest}) == {"cost": 2.0, "cost_low": 1.0, **alone}
    within = [{"cost": 2.0, "cost_low": 1.0}, alone["rest"]]
    assert plain({"x": Pair(1, [Plan(FIGURE), rest])}) == {"x": [1, within]}
    assert plain(Plan(Figure(value=rest))) == {"cost": alone["rest"]}  # type: ignore[arg-type]


@pytest.mark.parametrize("beside", [{}, {"cost": FIGURE}])
def test_what_json_lacks_is_refused(beside: Mapping[str, object]) -> None:
    """Its text would be stored; whether a flat document is beside it does not matter."""
    for value in (UNSET, 1j, (number for number in (1,))):
        with pytest.raises(TypeError, match="is no JSON"):
            encode({"x": value, **beside})


@pytest.mark.parametrize(
    "document", [FIGURE, [FIGURE], {"x": [FIGURE]}, {"x": {FIGURE}}, Pair(1, FIGURE)]
)
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


@pytest.mark.parametrize("fields", [{"lwo": 1.0, "value": 2.0}, {"low": 1.0}])
def test_flat_document_has_the_fields_of_its_class(fields: dict[str, Any]) -> None:
    """No other one, and each without a default."""
    with pytest.raises(TypeError, match=r"Figure: .* is missing, or no field of it"):
        Figure(**fields)


def test_infinite_numbers_are_null_and_keys_text() -> None:
    """Mappings keep the order of their keys."""
    value = {1: (math.inf, math.nan), "b": MappingProxyType({"z": None, "a": 1})}
    assert encode(value) == b'{"1":[null,null],"b":{"z":null,"a":1}}'


def test_evidence_of_unknown_types_is_text() -> None:
    """Infinite numbers are null."""
    assert plain_evidence({"a": 1j, "b": [math.inf]}) == {"a": "1j", "b": [None]}


@pytest.mark.parametrize("value", [HASHED_APART, Pair(1, HASHED_APART), [{"x": HASHED_APART}]])
def test_sets_have_an_order(value: object) -> None:
    """One text in each process, which hashes texts in its own way."""
    assert b'["a","b","c","d","e","f","g","h"]' in encode(value)


@pytest.mark.parametrize(
    "value", [{"x\udce9": ["y\ud800"]}, [Pair(1, {"x\udce9"})], {"z": Plan(FIGURE, "\udce9")}]
)
def test_text_that_is_no_utf_8_is_replaced(value: object) -> None:
    """As those names of files and processes and arguments that Python reads."""
    text = encode(value)
    assert b"?" in text
    assert text.decode().isascii()
    assert stored(value) == text.decode()


class Kept(Struct, frozen=True):
    """Value that is stored."""

    seconds: float
    evidence: Mapping[str, Any] = {}


def test_what_cannot_be_read_again_is_not_stored() -> None:
    """A number may be absent from evidence, and not from a field."""
    assert stored(Kept(1.0, {"x": math.inf})) == '{"seconds":1.0,"evidence":{"x":null}}'
    with pytest.raises(ValueError, match="seconds"):
        stored(Kept(math.inf))


def test_people_are_shown_what_no_terminal_obeys() -> None:
    """Whatever characters names have, in whatever encoding of the terminal."""
    assert indented([{"\x9b": "é"}]) == '[\n {\n  "\\u009b": "\\u00e9"\n }\n]'


_QUOTING_TEXTS = {
    "agent/local_api.py",
    "assistant/tools.py",
    "notify/grafana/annotation.py",
    "planner/launch_files.py",
    "recordings/prometheus_text.py",
    "web/message.py",
}
"""Modules that show a value in a message or a text of another language."""
_OTHER_FORMS = {
    "accounting/window_codec.py",  # Packed, of a form of its own.
    "actions/audit_log.py",  # Lines of ASCII, from the values of the codec.
    "profiles/json_events.py",  # Parts of a file as they were read.
    "recordings/json_records.py",
    "recordings/printed_lines.py",
}


def test_there_is_no_other_way_to_json() -> None:
    """The codec alone encodes documents and what is stored."""
    package = Path(rightsizer.__file__).parent
    ways = re.compile(
        r"msgspec\.json\.(encode|Encoder)\b|to_builtins\(|json\.(dumps?|JSONEncoder)\b"
        r"|from (json|msgspec\.json) import"
    )
    users = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if ways.search(file.read_text(encoding="utf-8"))
    }
    assert users == {"io/codec.py"} | _QUOTING_TEXTS | _OTHER_FORMS
