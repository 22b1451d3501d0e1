"""Several YAML documents in one text."""

import pytest

from rightsizer.io.yaml import YamlError, load_yaml, load_yaml_documents


def test_every_document_has_its_data_and_the_places_of_the_text() -> None:
    """Lines are counted over all documents."""
    first, second = load_yaml_documents("a: 1\n---\nb: [2, 3]\n", "x")

    assert (first.data, second.data) == ({"a": 1}, {"b": [2, 3]})
    assert second.where(("b", 1)) == "x:3:8"


def test_a_text_of_nothing_has_no_documents() -> None:
    """Comments are no document."""
    assert load_yaml_documents("# later\n", "x") == []


def test_a_fault_in_a_later_document_is_reported_with_its_place() -> None:
    """The example is a duplicate key."""
    with pytest.raises(YamlError, match="x:4:1: 'b' is given twice"):
        load_yaml_documents("a: 1\n---\nb: 2\nb: 3\n", "x")


def test_second_document_is_refused_where_one_is_expected() -> None:
    """A configuration is one document."""
    with pytest.raises(YamlError, match="x:2:1: "):
        load_yaml("a: 1\n---\nb: 2\n", "x")
