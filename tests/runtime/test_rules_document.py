"""docs/rules.md tells of every rule, its thresholds and all that it can say."""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Rule
from rightsizer.domain.finding import Action, FindingKind, Reason
from rightsizer.runtime.rules_document import filled, tables

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "rules.md"
PAGE: Final = DOCUMENT.read_text(encoding="utf-8")
SECTIONS: Final = dict(re.findall(r"(?ms)^## (\w+)\n(.*?)(?=^## |\Z)", PAGE))
PARTS: Final = ("Sees", "Says", "Needs", "Abstains", "Never", "Gives", "Example")
EVERYWHERE: Final = {Reason.INSUFFICIENT_DATA, Reason.UNSUPPORTED_TELEMETRY}


def told(section: str) -> set[str]:
    """What stands between backticks, without the made tables."""
    return set(re.findall(r"`([^`\n]+)`", section.partition("<!--")[0]))


def named(rule: Rule[Any], kind: type) -> Iterator[Any]:
    """The members of an enum that the source of a rule names."""
    tree = ast.parse(inspect.getsource(sys.modules[rule.judge_with.__module__]))
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name(kind.__name__), member):
                yield getattr(kind, member)


def test_the_tables_are_the_rules_own(golden: Callable[[str | Path, str], None]) -> None:
    """Spans and thresholds are what the code has; `make golden` writes them."""
    golden(DOCUMENT, filled(PAGE, tables()))


def test_only_what_is_marked_is_written_anew() -> None:
    """Prose stays as people wrote it, and a mark that nobody knows is a mistake."""
    mark = "<!-- {}: made from the code; run `make golden` -->\n"
    page = f"before\n{mark.format('idle')}stale\n<!-- end -->\nafter\n"

    assert filled(page, {"idle": "new\n"}) == page.replace("stale", "new")
    with pytest.raises(KeyError, match="other"):
        filled(page.replace("idle", "other"), {"idle": "new\n"})


def test_every_rule_has_a_section_in_the_order_of_the_registry() -> None:
    """And a made table in it."""
    names = [rule.name for rule in RULES]

    assert [name for name in SECTIONS if name in names] == names
    assert all(f"<!-- {name}: made" in SECTIONS[name] for name in names)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_section_tells_all_that_a_rule_can_say(rule: Rule[Any]) -> None:
    """Its reasons, findings and actions, and each of the parts that readers look for."""
    section = SECTIONS[rule.name]
    reasons = set(named(rule, Reason)) - EVERYWHERE
    actions = set(named(rule, Action)) - {Action.NONE}

    assert set(map(str, reasons | actions | set(named(rule, FindingKind)))) <= told(section)
    assert [part for part in PARTS if f"- **{part}" not in section] == []


def test_every_reason_of_the_design_has_a_rule() -> None:
    """A reason that no rule gives would be a promise that nobody keeps."""
    given = {reason for rule in RULES for reason in named(rule, Reason)}

    assert given | EVERYWHERE == set(Reason)
