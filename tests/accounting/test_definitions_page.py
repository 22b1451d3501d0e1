"""`docs/definitions.md` states the definitions that are evaluated."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from definition_text import TextInterpreter
from rightsizer.accounting import definitions
from rightsizer.accounting.classification_settings import (
    ClassificationSettings,
    ConditionSettings,
)
from rightsizer.accounting.expressions import Claim, Constant, Name, Term, When, at_least, share

PAGE: Final = Path(__file__).parents[2] / "docs" / "definitions.md"
BLOCK: Final = re.compile("(?<=<!-- definitions -->\n).*(?=<!-- end of definitions -->)", re.DOTALL)
NAMED: Final = {
    definitions.ACTIVE: "active",
    definitions.HELD: "held",
    definitions.MAY_STALL: "a stall cannot be excluded",
}


def table(*header: str, rows: Iterator[tuple[str, str]]) -> str:
    """A table in Markdown."""
    lines = (header, ("---", "---"), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def definitions_text() -> str:
    """The tables of names, states and conditions."""
    states = TextInterpreter(ClassificationSettings(), NAMED)
    conditions = TextInterpreter(ConditionSettings(), NAMED)

    def named() -> Iterator[tuple[str, str]]:
        for name, term in definitions.DERIVED.items():
            yield f"`{name}`", states.term(term)
        for claim, name in NAMED.items():
            yield f"*{name}*", states.claim(claim)

    def matches() -> Iterator[tuple[str, str]]:
        at_rest = ((row, "not *active*") for row in definitions.AT_REST)
        for row, first in (*at_rest, *((row, "*active*") for row in definitions.AT_WORK)):
            claim = states.claim(row.claim)
            holds = "no other" if claim == "always" else claim
            reason = f" ({row.unknown_reason})" if row.unknown_reason else ""
            yield f"`{row.state}`{reason}", f"{first}; {holds}"

    suspected = ((f"`{row.state}`", states.claim(row.claim)) for row in definitions.SUSPECTED)
    held = ((f"`{name}`", conditions.claim(claim)) for name, claim in definitions.CONDITIONS)
    tables = (
        table("name", "is", rows=named()),
        table("state, the first of", "holds where", rows=matches()),
        table("second cause, where it is `productive`", "holds where", rows=suspected),
        table("condition", "holds where", rows=held),
    )
    return "\n" + "\n".join(tables) + "\n"


def test_the_page_states_what_is_evaluated(golden: Callable[[str | Path, str], None]) -> None:
    """With default thresholds; `make golden` writes it."""
    page = PAGE.read_text("utf-8")
    assert BLOCK.search(page) is not None
    golden(PAGE, BLOCK.sub(lambda _: definitions_text(), page))


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (Name("power_watts") - Constant(0.5), "`power_watts` - .5"),
        (share(Name("a") - Name("b"), "c"), "(`a` - `b`) / `c`"),
        (Constant(None), "unknown"),
        (Constant(512.0 * 2**20), "512 MiB"),
    ],
)
def test_terms_are_written_as_one_reads_them(term: Term, text: str) -> None:
    """Parentheses stand where the order of evaluation needs them."""
    assert TextInterpreter(None).term(term) == text


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (
            at_least("a", Constant(0.5)) & ~at_least("b", Constant(1.0)),
            "`a` >= .5 and not (`b` >= 1)",
        ),
        (
            When(at_least("a", Constant(2.0)), at_least("b", Name("c")), definitions.ACTIVE),
            "if `a` >= 2: `b` >= `c`, else: *active*",
        ),
    ],
)
def test_claims_are_written_as_one_reads_them(claim: Claim, text: str) -> None:
    """A claim with a name is written by it."""
    assert TextInterpreter(None, NAMED).claim(claim) == text
