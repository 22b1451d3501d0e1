"""Recommendations in a terminal: order and lines."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rightsizer.advice.compatible import ExclusiveKey, compatible, savings_of
from rightsizer.io.terminal import NO_BREAK, counted
from rightsizer.model.finding import Action, Finding, Rank, Savings, worth_rank
from rightsizer.model.units import dollars_text, percent_text
from rightsizer.report.blocks import Block, Items, Section, section
from rightsizer.report.labels import (
    HOURS_A_DAY,
    action_label,
    first_names,
    risk_word,
    savings_label,
)

_NAMED: Final = 3


def dearest_first(advice: Mapping[str, Any]) -> Rank:
    """Sort key: critical first, then by savings."""
    return worth_rank(advice["severity"], dollars_per_day(advice), advice["confidence"])


def dollars_per_day(advice: Mapping[str, Any]) -> float:
    """Return the typical savings; 0 without a price."""
    return savings_of(advice).dollars_per_hour * HOURS_A_DAY


def heading(advice: Sequence[Mapping[str, Any]], order: str) -> str:
    """Return the title of recommendations; of exclusive ones only the best is summed."""
    total = sum(map(dollars_per_day, compatible(advice, ExclusiveKey.of_form)))
    saves = f"; {dollars_text(total)} a day together (ranges: by price and use)" if total else ""
    return f"To do, {order}{saves}:"


def advice_block(advice: Mapping[str, Any], action: str, subject: str, *others: Block) -> Section:
    """Make a section: action and subject, reason, savings and confidence, alternatives."""
    title = action[:1].upper() + action[1:] + (f": {subject}" if subject else "")
    best = next((option["description"] for option in advice["options"] if option["target"]), "")
    best_text = f"best: {best}; " if best and best not in advice["summary"] else ""
    return section(
        f"{title} · {standing(advice)}",
        advice["summary"],
        f"{best_text}{worth(advice)}",
        *others,
    )


def standing(advice: Mapping[str, Any]) -> str:
    """Return its severity, what became of it, by whom, and its id."""
    by = f" by {advice['actor']}" if advice["actor"] else ""
    return f"{advice['severity']}, {advice['state']}{by} · {advice['id']}"


def worth(advice: Mapping[str, Any]) -> str:
    """Return its savings, how sure it is, and the risk of the change."""
    sure = f"confidence {percent_text(advice['confidence'])}"
    return f"{_savings(savings_of(advice))}; {sure}, risk of the change {risk_word(advice['risk'])}"


def finding_line(finding: Finding) -> str:
    """Format a finding in one line."""
    action = (
        "" if finding.action is Action.NONE else f"{action_label(finding.action, finding.kind)}; "
    )
    # A figure alone on its line would look like one of the next finding.
    sure = f"confidence{NO_BREAK}{percent_text(finding.confidence)}"
    return f"{finding.id} · {finding.summary} [{action}{sure}]"


def add_verbose_flag(parser: argparse.ArgumentParser) -> None:
    """Add `-v`, by which `no_verdict` tells all."""
    verbose = "also say why rules gave no verdict"
    parser.add_argument("-v", "--verbose", action="store_true", help=verbose)


def no_verdict(findings: Sequence[Finding], *, is_verbose: bool) -> Block:
    """Tell how many rules abstained; if verbose, which, why, and on which GPUs."""
    abstained = {finding.rule for finding in findings if finding.abstained is not None}
    if not abstained or is_verbose:
        return section("No verdict:", Items(tuple(_abstentions(findings))))
    rules = counted(len(abstained), "rule lacks", "rules lack")
    return f"No verdict: {rules} the data to judge some GPU; -v tells which."


def _abstentions(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield one line per rule and reason, with the GPUs concerned."""
    findings_by_reason: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.abstained is not None:
            findings_by_reason.setdefault((finding.rule, finding.abstained), []).append(finding)
    for (rule, why), group in sorted(findings_by_reason.items()):
        ids = first_names([finding.id for finding in group], _NAMED)
        yield f"{rule}: {why} ({ids})"


def _savings(savings: Savings) -> str:
    amounts = savings_label(savings)
    if amounts.startswith(("costs", "from")):
        return amounts
    return f"savings: {amounts}" if amounts.startswith("n/a") else f"saves {amounts}"
