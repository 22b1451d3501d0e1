"""Documents that are no configuration: value classes say what they hold."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

import pytest
from msgspec import Struct

from rightsizer.config.loader import read_document
from rightsizer.config.validator import rule_fault
from rightsizer.io.yaml import Document, load_yaml
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.settings import Kinds, Spec


def _lower(value: object) -> object:
    if isinstance(value, str) and ":" in value:
        raise ValueError("has a colon; leave it out")
    return value.lower() if isinstance(value, str) else value


class Range(Struct, frozen=True, array_like=True):
    """Usual and highest value, as a list."""

    usual: float
    highest: Annotated[float, Spec(within=(0, 100))] = 1.0


class Book(Struct, frozen=True):
    """One kind of thing on a shelf."""

    pages: int


class Plant(Struct, frozen=True):
    """Another kind."""

    leaves: int
    weight_bytes: float = 0.0
    is_green: bool = True


THING: Final = Spec(
    unit="amount", within=(0, 1e9), kinds=Kinds("kind", {"book": Book, "plant": Plant}, "book")
)


class Shelf(Struct, frozen=True):
    """What the tests read."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {"colour": "by_color"}

    by_year: Mapping[Annotated[int, Spec(within=(1, None))], float] = {}
    by_color: Mapping[Annotated[str, Spec(words=("red", "blue"))], int] = {}
    by_name: Mapping[Annotated[str, Spec(parse=_lower)], str] = {}
    ranges: tuple[Range, ...] = ()
    things: tuple[Annotated[Book | Plant, THING], ...] = ()
    low: int = 0
    high: int = 9

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low: is above high\nby_year.3: is not sold then")


def document(text: str) -> Document:
    """A document of a text."""
    return load_yaml(text, "shelf.yaml")


def faults(text: str, **options: bool) -> list[str]:
    """Lines of the error, without the file."""
    with pytest.raises(ConfigurationError) as error:
        read_document(Shelf, document(text), **options)
    return [line.removeprefix("shelf.yaml:") for line in str(error.value).splitlines()]


def test_keys_have_types_and_rules() -> None:
    """Whole numbers, given words, and texts that are rewritten."""
    shelf = read_document(
        Shelf, document("by_year: {3: 1.5}\nby_color: {red: 4}\nby_name: {Ada: x}")
    )
    assert (shelf.by_year, shelf.by_color, shelf.by_name) == ({3: 1.5}, {"red": 4}, {"ada": "x"})


KEY_FAULTS: Final = [
    ("by_year: {soon: 1}", "1:11: by_year.soon: a key must be a whole number, at least 1"),
    ("by_year: {0: 1}", "1:11: by_year.0: a key must be a whole number, at least 1"),
    ("by_year: {1: x}", "1:11: by_year.1: must be a number (got 'x')"),
    ("by_color: {rd: 1}", "1:12: by_color.rd: unknown key; did you mean 'red'?"),
    ("by_color: {zzz: 1}", "1:12: by_color.zzz: unknown key; known keys: red, blue"),
    ("by_name: {1: x}", "1:11: by_name.1: a key must be text; put it in quotes"),
    ("by_name: {'a:b': x}", "1:11: by_name.a:b: has a colon; leave it out"),
]


@pytest.mark.parametrize(("text", "fault"), KEY_FAULTS)
def test_a_wrong_key_is_a_fault_at_its_place(text: str, fault: str) -> None:
    """With what a key may be."""
    assert faults(text) == [fault]


def test_a_list_of_values_is_read_by_position() -> None:
    """The last ones may be left out."""
    assert read_document(Shelf, document("ranges: [[1, 2], [3]]")).ranges == (
        Range(1, 2),
        Range(3, 1),
    )
    assert faults("ranges: [[1, 200], [], 5, [x]]") == [
        "1:14: ranges[0][1]: must be between 0 and 100 (got 200)",
        "1:20: ranges[1]: must be [usual, highest] (got 0 values)",
        "1:24: ranges[2]: must be a list [usual, highest] (got 5)",
        "1:28: ranges[3][0]: must be a number (got 'x')",
    ]


def test_a_mapping_is_of_the_kind_that_it_names() -> None:
    """With the bounds of the whole for its numbers, which may be amounts."""
    text = "things: [{kind: plant, leaves: 3k, weight_bytes: 7e3}, {pages: '90'}]"
    assert read_document(Shelf, document(text)).things == (Plant(3000, 7000.0), Book(90))
    text = "things: [{kind: planet}, {kind: plant, pages: 3}, {pages: 2G}, 5, {pages: few}]"
    assert faults(text) == [
        "1:11: things[0].kind: must be one of book, plant (got 'planet'); did you mean 'plant'?",
        "1:26: things[1].leaves: is required (whole number)",
        "1:40: things[1].pages: unknown key; known keys: leaves, weight_bytes, is_green",
        "1:52: things[2].pages: must be between 0 and 1000000000 (got 2000000000)",
        "1:64: things[3]: must be a mapping (got 5)",
        "1:68: things[4].pages: must be a number (got 'few'); write it like 20, 7e9 or 7B",
    ]


def test_a_name_of_others_is_answered_by_our_own() -> None:
    """As in another tool or spelling."""
    assert faults("Colour: {red: 1}") == ["1:1: Colour: unknown key; write by_color"]


def test_a_key_without_a_value_is_absent() -> None:
    """As if it were commented out."""
    assert read_document(Shelf, document("low:\nby_year: {1: }\nranges:")) == Shelf()


def test_a_rule_names_each_of_its_keys() -> None:
    """With the place of each."""
    assert faults("by_year:\n  3: 1\nlow: 10") == [
        "2:3: by_year.3: is not sold then",
        "3:1: low: is above high",
    ]


def test_values_may_be_kept_out_of_faults() -> None:
    """They may be passwords; choices are none."""
    text = "low: secret\nranges: [[1, 777]]\nhgh: secret\nby_name: secret"
    assert faults(text, shows_values=False) == [
        "1:1: low: must be a whole number",
        "2:14: ranges[0][1]: must be between 0 and 100",
        "3:1: hgh: unknown key; did you mean 'high'?",
        "4:1: by_name: must be a mapping of names to text",
    ]


def test_faults_found_elsewhere_stand_in_order_with_the_rest() -> None:
    """All at once."""
    beside = [rule_fault(("by_name", "x"), "is sold out")]
    with pytest.raises(ConfigurationError) as error:
        read_document(Shelf, document("low: x\nby_name: {x: y}\nhigh: y"), beside=beside)
    assert [line.partition(": ")[0] for line in str(error.value).splitlines()] == [
        "shelf.yaml:1:1",
        "shelf.yaml:2:11",
        "shelf.yaml:3:1",
    ]


@pytest.mark.parametrize("digits", [400, 309])
def test_a_number_beyond_any_float_is_a_fault(digits: int) -> None:
    """YAML's whole numbers have no end."""
    text = f"{{leaves: 1, weight_bytes: 1{'0' * digits}}}"
    with pytest.raises(ConfigurationError, match="weight_bytes"):
        read_document(Plant, load_yaml(text, "shelf.yaml"))
