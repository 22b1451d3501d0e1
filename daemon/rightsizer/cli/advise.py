"""`rightsizer advise`: one recommender run over the local history, printed or saved."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Final

from rightsizer.console.advice import (
    advice_lines,
    dearest_first,
    dollars_per_day,
    finding_line,
    heading,
)
from rightsizer.console.command import Command, add_flags, answer, help_of, program
from rightsizer.console.flags import add_config_flag, add_history_flag, history_path, settings_of
from rightsizer.console.remote_agent import ADVICE_PATH, RemoteAgent, add_url_flags, ask_node
from rightsizer.io.codec import JsonObject, convert, plain_fields
from rightsizer.io.log import configure as configure_log
from rightsizer.io.log_settings import LogLevel
from rightsizer.io.terminal import counted, width, wrapped
from rightsizer.model.advice import Advice
from rightsizer.model.errors import HistoryError, UsageError
from rightsizer.model.evidence import Evidence
from rightsizer.model.finding import Finding
from rightsizer.model.units import dollars_text
from rightsizer.report.advice_groups import GroupKey, Unit, advice_groups
from rightsizer.report.evidence import rests_on
from rightsizer.report.json_encoder import encode_advice, encode_finding
from rightsizer.report.labels import action_label, first_names

_HELP: Final = help_of(__file__)
_NAMED: Final = 3


def advise_text(
    findings: Sequence[Finding], advice: Sequence[Advice], *, is_verbose: bool = False
) -> str:
    """Format findings and advice in at most 100 columns; abstentions only if verbose."""
    from rightsizer.advice.engine import without_advice  # noqa: PLC0415 - the rules, as said below.

    still_open = [each for each in advice if each.is_open]
    still_open.sort(key=lambda each: (each.opened, each.id))
    lines = open_lines(list(map(encode_advice, still_open)))
    if closed := [each for each in advice if not each.is_open]:
        closed_lines = (
            f"  {each.id}  {each.state}: {each.finding.summary}" for each in closed[:_NAMED]
        )
        most = width()
        cut = (line if len(line) <= most else f"{line[: most - 1]}…" for line in closed_lines)
        lines += ["Closed:", *cut, ""]
    if others := without_advice(findings, advice):
        lines.append("Findings over the whole history without an open recommendation:")
        for finding in others:
            lines += wrapped(finding_line(finding), 2)
        lines.append("")
    abstained = {each.rule for each in findings if each.abstained is not None}
    if abstained and is_verbose:
        lines += ["No verdict:", *_abstentions(findings), ""]
    elif abstained:
        rules = counted(len(abstained), "rule lacks", "rules lack")
        lines += [f"No verdict: {rules} the data to judge some GPU; -v tells which.", ""]
    return "\n".join([*lines, _open_count(len(still_open))])


def open_lines(forms: Sequence[JsonObject]) -> list[str]:
    """Format open advice by its worth; alike advice on idle GPUs is folded."""
    if not forms:
        return []
    lines = heading(forms, "by savings, critical ones on top")
    for first, *rest in advice_groups(sorted(forms, key=dearest_first), _group_key):
        for each in first:
            holder = (each["workload"] or "").rpartition("/")[2] or _subject(each)
            action = action_label(each["action"], each["finding"])
            lines += advice_lines(each, action, holder, is_other=each is not first[0])
        if rest:
            dollars = sum(dollars_per_day(best) for best, *_ in rest)
            saves = f", which save {dollars_text(dollars)} a day" if dollars > 0 else ""
            named = ", ".join(map(_folded, rest))
            lines += wrapped(f"and {len(rest)} more like it{saves}: {named}", 4, 0)
    return [*lines, ""]


def _group_key(advice: JsonObject) -> GroupKey:
    same = {name: advice[name] for name in ("id", "exclusive_group", "workload", "action")}
    return GroupKey(kind=advice["finding"], reasons=tuple(advice["reasons"]), **same)


def _folded(unit: Unit[JsonObject]) -> str:
    ids = " or ".join(each["id"] for each in unit)
    return f"{_subject(unit[0])} ({ids})"


def _subject(advice: JsonObject) -> str:
    """Return the start of the summary."""
    subject: str = advice["summary"].partition(":")[0]
    return subject


def _open_count(count: int, flags: str = "") -> str:
    are = counted(count, "recommendation is", "recommendations are")
    return f"{are} open." + (f" '{program()} explain ID{flags}' tells why." if count else "")


def _abstentions(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield one line per rule and reason, with the GPUs concerned."""
    found: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.abstained is not None:
            found.setdefault((finding.rule, finding.abstained), []).append(finding)
    for (rule, why), group in sorted(found.items()):
        ids = first_names([each.id for each in group], _NAMED)
        yield from wrapped(f"{rule}: {why} ({ids})", 2)


def _configure(parser: argparse.ArgumentParser) -> None:
    add_history_flag(parser)
    add_flags(parser.add_argument, _HELP["flags"])
    verbose = "tell why rules gave no verdict"
    parser.add_argument("-v", "--verbose", action="store_true", help=verbose)
    add_url_flags(parser)
    add_config_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.url:
        return _of_agent(arguments, f" --url {arguments.url}")
    # Imported on use: takes half a second, not needed with --url.
    from rightsizer.agent.offline_advice import run_offline  # noqa: PLC0415
    from rightsizer.agent.settings import Settings  # noqa: PLC0415

    settings = settings_of(arguments, Settings)
    configure_log(settings.log.format, LogLevel.WARNING)
    path = history_path(arguments, settings.history)
    try:
        findings, advice, evidence = run_offline(path, settings, save=arguments.save)
    except HistoryError as error:
        if arguments.save:
            raise
        return ask_node(arguments, settings.web, _of_agent, error)
    document = {
        "findings": [encode_finding(finding) for finding in findings],
        "advice": [encode_advice(each) for each in advice],
        "evidence": [plain_fields(each) for each in evidence],
    }
    lines = [advise_text(findings, advice, is_verbose=arguments.verbose)]
    lines += (line for text in rests_on(evidence) for line in wrapped(text, 2, 0))
    answer(arguments, document, "\n".join(lines))
    return 0


def _of_agent(arguments: argparse.Namespace, flags: str = "") -> int:
    if arguments.save:
        raise UsageError("--save: an agent keeps its advice itself; leave out --save or --url")
    document = RemoteAgent.of(arguments).get(ADVICE_PATH, "advice")
    still_open = [each for each in document["advice"] if each["closed"] is None]
    lines = [*open_lines(still_open), _open_count(len(still_open), flags)]
    if trouble := document.get("trouble"):
        lines += wrapped(f"No GPU is read: {trouble}")
    evidence = convert(document.get("evidence", ()), tuple[Evidence, ...])
    lines += (line for text in rests_on(evidence) for line in wrapped(text, 2, 0))
    answer(arguments, document, "\n".join(lines))
    return 0


COMMAND = Command("advise", _configure, _run)
