"""The example, the schema and the reference generated from the settings."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rightsizer.config.loader import load
from sample_settings import Color, Policy, Settings, Store
from settings_documents import example, reference, schema

Golden = Callable[[str | Path, str], None]


def test_the_documents_are_as_they_were(golden: Golden) -> None:
    """Changes of operators' documents are visible in review."""
    golden("sample.yaml", example(Settings))
    golden("sample.md", reference(Settings))
    golden("sample.schema.json", json.dumps(schema(Settings), indent=2) + "\n")


def test_the_example_loads_as_the_defaults() -> None:
    """A copy of the example changes nothing."""
    assert load(Settings, example(Settings), "example.yaml") == Settings()


def test_the_example_starts_with_the_line_that_editors_read() -> None:
    """The YAML language server reads the schema's path from the first line."""
    first = example(Settings, schema="other.json").partition("\n")[0]

    assert first == "# yaml-language-server: $schema=other.json"


def test_the_templates_in_the_example_load_once_their_comment_sign_is_gone() -> None:
    """A comment under an empty list or mapping shows a valid element."""
    text = re.sub("(?m)^#(?=  )", "", example(Settings))
    text = text.replace("policies: []", "policies:").replace("stores: {}", "stores:")
    text = text.replace("class: # required", "class: green")

    loaded = load(Settings, text, "example.yaml")

    assert loaded == Settings(policies=(Policy(Color.GREEN),), stores={"NAME": Store()})


def test_every_key_of_the_settings_is_in_the_example_and_the_reference() -> None:
    """No setting is undocumented."""
    for path in _paths(schema(Settings)):
        group, _, key = path.rpartition(".")
        assert re.search(rf"\b{key}:", example(Settings))
        page = reference(Settings)
        assert f"`{path}" in page or f"- `{group}`: as" in page or f"`{group}`\n\nSame" in page


def test_the_schema_is_closed_and_says_what_each_key_is() -> None:
    """An editor marks unknown keys and shows help, kind, bounds and source."""
    described = schema(Settings)

    assert described["$schema"].endswith("2020-12/schema")
    assert described["additionalProperties"] is False
    assert described["properties"]["job"]["properties"]["interval"] == {
        "description": "How often it runs. Duration, between 1s and 1h. Source: a paper.",
        "type": "string",
        "pattern": r"^([0-9]+(\.[0-9]+)?(us|ms|s|m|h|d|w|y))+$",
        "default": "10m",
    }
    assert described["properties"]["policies"]["items"]["required"] == ["class"]


@pytest.mark.parametrize(
    ("key", "value", "is_allowed"),
    [
        ("interval", "1h30m", True),
        ("interval", "10x", False),
        ("limit", "512MiB", True),
        ("limit", "1.5 GB", True),
        ("limit", "7 bytes", True),
        ("limit", "5 watts", False),
    ],
)
def test_the_patterns_of_the_schema_allow_what_the_loader_allows(
    *, key: str, value: str, is_allowed: bool
) -> None:
    """An editor and the program agree on the notation of durations and sizes."""
    group = "job" if key == "interval" else "store"
    pattern = schema(Settings)["properties"][group]["properties"][key]["pattern"]

    assert bool(re.search(pattern, value)) is is_allowed


def _paths(described: dict[str, Any], path: str = "") -> Iterator[str]:
    for key, inner in described.get("properties", {}).items():
        below = f"{path}.{key}".lstrip(".")
        yield below
        yield from _paths(inner, below)
