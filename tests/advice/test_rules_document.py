"""docs/rules.md and docs/fleet-rules.md cover every rule and all its possible output."""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from rightsizer.advice.rules import RULES
from rightsizer.fleet.rules import FLEET_RULES
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.profiler.rules.registry import PROFILE_RULES
from rules_document import filled, profile_tables, tables

DOCS: Final = Path(__file__).parents[2] / "docs"
REGISTRIES: Final[dict[str, Sequence[Any]]] = {"rules.md": RULES, "fleet-rules.md": FLEET_RULES}
PAGES: Final = {name: (DOCS / name).read_text(encoding="utf-8") for name in REGISTRIES}
SECTIONS: Final = {
    name: dict(re.findall(r"(?ms)^## (\w+)\n(.*?)(?=^## |\Z)", page))
    for name, page in PAGES.items()
}
EVERY: Final = [(name, rule) for name, rules in REGISTRIES.items() for rule in rules]
PARTS: Final = ("Measures", "Reports", "Requires", "Never", "Suggests", "Example")
EVERYWHERE: Final = {Reason.INSUFFICIENT_DATA, Reason.UNSUPPORTED_TELEMETRY}


def documented(section: str) -> set[str]:
    """Text between backticks, without the generated tables."""
    return set(re.findall(r"`([^`\n]+)`", section.partition("<!--")[0]))


def named(rule: Any, kind: type) -> Iterator[Any]:
    """The members of an enum named by a rule's source."""
    tree = ast.parse(inspect.getsource(sys.modules[rule.judge_with.__module__]))
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name(kind.__name__), member):
                yield getattr(kind, member)


@pytest.mark.parametrize("name", REGISTRIES)
def test_the_tables_are_the_rules_own(name: str, golden: Callable[[str | Path, str], None]) -> None:
    """Spans and thresholds come from the code; `make golden` writes them."""
    texts = dict(tables(REGISTRIES[name])) | dict(profile_tables())
    golden(DOCS / name, filled(PAGES[name], texts))


def test_only_what_is_marked_is_written_again() -> None:
    """Prose is kept, and an unknown mark is an error."""
    mark = "<!-- begin {} -->\n"
    page = f"before\n{mark.format('idle')}stale\n<!-- end -->\nafter\n"

    assert filled(page, {"idle": "new\n"}) == page.replace("stale", "new")
    with pytest.raises(KeyError, match="other"):
        filled(page.replace("idle", "other"), {"idle": "new\n"})


@pytest.mark.parametrize("page", REGISTRIES)
def test_every_rule_has_a_section_in_the_order_of_the_registry(page: str) -> None:
    """Each has a row of the generated overview, with its thresholds."""
    names = [rule.name for rule in REGISTRIES[page]]
    sections = SECTIONS[page]

    assert [name for name in sections if name in names] == names
    for rule in REGISTRIES[page]:
        assert re.search(rf"(?m)^\| \[`{rule.name}`\]\(#{rule.name}\) \|.+\| [`\d]", PAGES[page])


@pytest.mark.parametrize(("page", "rule"), EVERY, ids=lambda each: getattr(each, "name", each))
def test_a_section_tells_all_that_a_rule_can_say(page: str, rule: Any) -> None:
    """Its reasons, findings and actions, and each part that readers look for."""
    section = SECTIONS[page][rule.name]
    reasons = set(named(rule, Reason)) - EVERYWHERE
    actions = set(named(rule, Action)) - {Action.NONE}

    assert set(map(str, reasons | actions | set(named(rule, FindingKind)))) <= documented(section)
    assert [part for part in PARTS if f"- **{part}" not in section] == []


def test_every_reason_of_the_design_has_a_rule() -> None:
    """A reason that no rule gives would be a broken promise."""
    rules = (*(rule for _, rule in EVERY), *PROFILE_RULES)
    given = {reason for rule in rules for reason in named(rule, Reason)}

    assert given | EVERYWHERE == set(Reason)


def test_every_rule_over_profiles_has_a_part_that_tells_all_it_can_say() -> None:
    """In the order of their registry, each with a row of the generated overview."""
    parts = dict(re.findall(r"(?ms)^### (\w+)\n(.*?)(?=^##|\Z)", PAGES["rules.md"]))

    assert list(parts) == [rule.name for rule in PROFILE_RULES]
    for rule in PROFILE_RULES:
        part = parts[rule.name]
        reasons = set(named(rule, Reason)) - EVERYWHERE
        actions = set(named(rule, Action)) - {Action.NONE}
        assert set(map(str, reasons | actions)) <= documented(part)
        assert re.search(
            rf"(?m)^\| \[`{rule.name}`\]\(#{rule.name}\) \|.+\| [`\d]", PAGES["rules.md"]
        )
        assert "- **Measures:**" in part
        assert "- **Suggests:**" in part
