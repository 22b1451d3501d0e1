"""YAML with the place of every value."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import rightsizer
from rightsizer.io.yaml import YamlError, dump_yaml, load_yaml

DOCUMENT = """\
recommender:
  interval: 10m
  rules:
    - name: idle
      share: 0.9
    - {name: stall, share: 0.3}
empty:
"""

LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
"""Nine lines that expand to forty million values."""

PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ((), "a.yaml:1:1"),
        (("recommender",), "a.yaml:1:1"),
        (("recommender", "interval"), "a.yaml:2:3"),
        (("recommender", "rules", 0), "a.yaml:4:7"),
        (("recommender", "rules", 0, "share"), "a.yaml:5:7"),
        (("recommender", "rules", 1, "share"), "a.yaml:6:21"),
        (("empty",), "a.yaml:7:1"),
    ],
)
def test_every_value_has_its_place(path: tuple[str | int, ...], where: str) -> None:
    """Keys are where they are written, items where they begin; lines and columns from 1."""
    assert load_yaml(DOCUMENT, "a.yaml").where(path) == where


@pytest.mark.parametrize(
    ("path", "where"),
    [
        (("recommender", "intervall"), "a.yaml:1:1"),
        (("recommender", "rules", 7, "share"), "a.yaml:3:3"),
        (("nothing", "of", "this"), "a.yaml:1:1"),
    ],
)
def test_absent_value_is_placed_by_what_is_around_it(
    path: tuple[str | int, ...], where: str
) -> None:
    """A missing key has the place of its group."""
    assert load_yaml(DOCUMENT, "a.yaml").where(path) == where


def test_data_are_plain_values() -> None:
    """Numbers, words and durations are YAML's own types."""
    assert load_yaml(DOCUMENT, "a.yaml").data == {
        "recommender": {
            "interval": "10m",
            "rules": [{"name": "idle", "share": 0.9}, {"name": "stall", "share": 0.3}],
        },
        "empty": None,
    }


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "---"])
def test_empty_document_holds_nothing(text: str) -> None:
    """An empty file is valid."""
    document = load_yaml(text, "a.yaml")
    assert document.data is None
    assert document.where(("web",)).startswith("a.yaml:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "a.yaml:3:1: 'a' is given twice"),
        ("x:\n  - {k: 1, k: 2}\n", "a.yaml:2:12: 'k' is given twice"),
        ("? [1, 2]\n: 3\n", "a.yaml:1:3: a key must be a single value"),
        ("a: &x [*x]\n", "a.yaml:1:4: contains itself"),
        (f"a: {'9' * 6000}\n", f"a.yaml:1:4: '{'9' * 60}...' is not a valid int"),
        ("a: 2026-13-45\n", "a.yaml:1:4: '2026-13-45' is not a valid timestamp"),
        ("a: !!python/object:os.system {}\n", "a.yaml:1:4: could not determine a constructor"),
        ("[" * 500, "a.yaml:1:101: nests too deeply"),
        (LAUGHS, "a.yaml:1:10: holds too many values"),
    ],
)
def test_unsafe_yaml_is_refused_with_its_place(text: str, message: str) -> None:
    """Duplicate keys never silently win, and nothing in a file runs code."""
    with pytest.raises(YamlError) as refusal:
        load_yaml(text, "a.yaml")
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "place"),
    [("a: [1, 2\nb: 3\n", "2:2"), ("a: b: c\n", "1:5"), ("\tx: 1\n", "1:1"), ("a: 'b\n", "2:1")],
)
def test_syntax_error_names_line_and_column(text: str, place: str) -> None:
    """The message begins like a compiler's, so that editors can jump there."""
    with pytest.raises(YamlError, match=rf"^bad\.yaml:{place}: \w"):
        load_yaml(text, "bad.yaml")


@pytest.mark.parametrize("text", ["a:\n\tb: 1\n", "a:\n  b: 1\n \tc: 2\n", "\tx: 1\n"])
def test_tab_is_named_with_what_to_take(text: str) -> None:
    """The parser's own message does not mention a tab."""
    with pytest.raises(YamlError, match="is indented by a tab; indent by spaces"):
        load_yaml(text, "bad.yaml")


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    """No other exception is raised."""
    try:
        said = load_yaml(text, "any.yaml").where(())
    except YamlError as error:
        said = str(error)
    assert said.startswith("any.yaml:")


@given(PLAIN)
def test_written_yaml_reads_back_the_same(data: Any) -> None:
    """Texts that look like numbers, dates or line breaks stay texts."""
    assert load_yaml(dump_yaml(data), "dumped.yaml").data == data


def test_keys_are_written_in_their_own_order() -> None:
    """A file keeps the order of its author."""
    assert dump_yaml({"b": 1, "a": [2]}) == "b: 1\na:\n- 2\n"


def test_packaged_files_parse_without_the_compiled_parser() -> None:
    """Without libyaml PyYAML's stricter Python parser gives the same values."""
    package = Path(rightsizer.__file__).parent
    for path in package.rglob("*.yaml"):
        text = path.read_text()
        plain = list(yaml.load_all(text, yaml.SafeLoader))
        assert plain == list(yaml.load_all(text, yaml.CSafeLoader)), path
