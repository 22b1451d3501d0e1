"""`rightsizer advise`: one recommender run over the local history, printed or saved."""

import argparse
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from rightsizer.agent.offline_advice import run_offline
from rightsizer.agent.settings import Settings
from rightsizer.console.command import Command, add_flags, answer
from rightsizer.console.settings_flags import (
    add_config_flag,
    add_history_flag,
    history_path,
    settings_of,
)
from rightsizer.console.text import WIDTH, counted, wrapped
from rightsizer.io.log import configure as configure_log
from rightsizer.io.log_settings import LogLevel
from rightsizer.model.advice import Advice
from rightsizer.model.finding import Finding, FindingKind, Savings, Severity
from rightsizer.report.json_encoder import advice_form, finding_form
from rightsizer.report.labels import readable_name

_KINDS: Final = tuple(FindingKind)
_SEVERITIES: Final = tuple(Severity)
_NAMED: Final = 3


def advise_text(findings: Sequence[Finding], advice: Sequence[Advice]) -> str:
    """In lines of at most 100 columns."""
    still_open = [each for each in advice if each.is_open]
    lines: list[str] = []
    ordered = sorted(still_open, key=_place)
    for kind, group in groupby(ordered, key=lambda each: each.finding.kind):
        lines += [f"{kind.value.capitalize()}:", *_indented(group), ""]
    if closed := [each for each in advice if not each.is_open]:
        lines += ["Closed:", *(_closed(each) for each in closed[:_NAMED]), ""]
    if abstained := list(_abstentions(findings)):
        lines += ["No verdict:", *abstained, ""]
    pieces = counted(len(still_open), "piece of advice is", "pieces of advice are")
    end = " 'rightsizer explain ID' tells why." if still_open else ""
    lines.append(f"{pieces} open.{end}")
    return "\n".join(lines)


def _place(advice: Advice) -> tuple[int, int, int, str]:
    """By kind; in a kind the severest first, then the oldest."""
    finding = advice.finding
    rank = -_SEVERITIES.index(finding.severity)
    return _KINDS.index(finding.kind), rank, advice.opened, advice.id


def _indented(advice: Iterator[Advice]) -> Iterator[str]:
    for each in advice:
        finding = each.finding
        by = f" by {each.actor}" if each.actor else ""
        yield f"  {each.id}  {finding.severity}, {each.state}{by}"
        yield from wrapped(finding.summary, 4, 0)
        action = readable_name(str(finding.action))
        yield from wrapped(
            f"{action}; confidence {finding.confidence:.2f}, risk {finding.risk}"
            f"{_savings(finding.savings)}",
            4,
            0,
        )


def _savings(savings: Savings) -> str:
    if savings.gpus_low is None or savings.gpus_high is None:
        return f"; savings: {savings.reason}" if savings.reason else ""
    told = f"; saves {_range(savings.gpus_low, savings.gpus_high)} GPUs"
    if savings.dollars_per_hour_low is not None and savings.dollars_per_hour_high is not None:
        told += f", {_range(savings.dollars_per_hour_low, savings.dollars_per_hour_high)} $/h"
    return told


def _range(low: float, high: float) -> str:
    return f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"


def _closed(advice: Advice) -> str:
    line = f"  {advice.id}  {advice.state}: {advice.finding.summary}"
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def _abstentions(findings: Sequence[Finding]) -> Iterator[str]:
    """One line a rule and reason, however many GPUs it is of."""
    found: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.abstained is not None:
            found.setdefault((finding.rule, finding.abstained), []).append(finding)
    for (rule, why), group in sorted(found.items()):
        ids = ", ".join(each.id for each in group[:_NAMED])
        more = f" and {len(group) - _NAMED} more" if len(group) > _NAMED else ""
        yield from wrapped(f"{rule}: {why} ({ids}{more})", 2)


_FLAGS: Final = """
--json: answer in JSON
--save: keep the advice in the history and tell Grafana and webhooks of it, as the agent does;
  refused while an agent runs
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Which history, and how to answer."""
    add_history_flag(parser)
    add_flags(parser.add_argument, _FLAGS)
    add_config_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the verdicts and the advice that follows."""
    settings = settings_of(arguments, Settings)
    configure_log(settings.log.format, LogLevel.WARNING)
    path = history_path(arguments, settings.history)
    findings, advice = run_offline(path, settings, save=arguments.save)
    form = {
        "findings": [finding_form(finding) for finding in findings],
        "advice": [advice_form(each) for each in advice],
    }
    answer(arguments, form, advise_text(findings, advice))
    return 0


COMMAND = Command("advise", configure, run)
