"""`rightsizer advise`: one recommender run over the local history, printed or saved."""

import argparse
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from rightsizer.advice.engine import complaints
from rightsizer.agent.offline_advice import run_offline
from rightsizer.agent.settings import Settings
from rightsizer.console.advice import advice_lines, finding_line, severest_first
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
from rightsizer.model.finding import Finding
from rightsizer.report.json_encoder import advice_form, finding_form
from rightsizer.report.labels import first_names, readable_name

_NAMED: Final = 3


def advise_text(findings: Sequence[Finding], advice: Sequence[Advice]) -> str:
    """In lines of at most 100 columns."""
    lines: list[str] = []
    still_open = [each for each in advice if each.is_open]
    still_open.sort(key=lambda each: (each.opened, each.id))
    # By kind; in a kind the severest first, then the oldest.
    forms = sorted(map(advice_form, still_open), key=severest_first)
    for kind, group in groupby(forms, key=lambda each: each["finding"]):
        lines.append(f"{kind.capitalize()}:")
        for each in group:
            lines += advice_lines(each, readable_name(each["action"]))
        lines.append("")
    if closed := [each for each in advice if not each.is_open]:
        told = (f"  {each.id}  {each.state}: {each.finding.summary}" for each in closed[:_NAMED])
        cut = (line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in told)
        lines += ["Closed:", *cut, ""]
    advised = {each.id for each in advice}
    if others := [each for each in complaints(findings) if each.id not in advised]:
        lines.append("Findings over the whole history that are no advice:")
        for finding in others:
            lines += wrapped(finding_line(finding), 2)
        lines.append("")
    if abstained := list(_abstentions(findings)):
        lines += ["No verdict:", *abstained, ""]
    pieces = counted(len(still_open), "piece of advice is", "pieces of advice are")
    end = " 'rightsizer explain ID' tells why." if still_open else ""
    lines.append(f"{pieces} open.{end}")
    return "\n".join(lines)


def _abstentions(findings: Sequence[Finding]) -> Iterator[str]:
    """One line a rule and reason, however many GPUs it is of."""
    found: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.abstained is not None:
            found.setdefault((finding.rule, finding.abstained), []).append(finding)
    for (rule, why), group in sorted(found.items()):
        ids = first_names([each.id for each in group], _NAMED)
        yield from wrapped(f"{rule}: {why} ({ids})", 2)


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
