"""`rightsizer advise`: one recommender run over the local history, printed or saved."""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from rightsizer.console.advice import (
    add_verbose_flag,
    advice_block,
    dearest_first,
    dollars_per_day,
    finding_line,
    heading,
    no_verdict,
)
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of, program
from rightsizer.console.flags import (
    add_config_flag,
    add_history_flag,
    history_path,
    settings_of,
    source_flags,
)
from rightsizer.console.remote_agent import ADVICE_PATH, RemoteAgent, add_url_flags, ask_node
from rightsizer.io.codec import JsonObject, convert, plain
from rightsizer.io.log import configure as configure_log
from rightsizer.io.log_settings import LogLevel
from rightsizer.io.terminal import counted
from rightsizer.model.values import (
    Advice,
    Evidence,
    Finding,
    HistoryError,
    UsageError,
    dollars_text,
)
from rightsizer.report.advice_document import advice_document, finding_document
from rightsizer.report.advice_groups import GroupKey, Unit, advice_groups, to_do
from rightsizer.report.blocks import Block, Items, Section, section
from rightsizer.report.evidence import rests_on
from rightsizer.report.labels import action_label, uncapitalized

_HELP: Final = help_of(__file__)
_NAMED: Final = 3
_TITLE: Final = "Recommendations"
_WITHOUT_ADVICE: Final = "Findings over the whole history without an open recommendation:"


def advise_blocks(
    findings: Sequence[Finding],
    advice: Sequence[Advice],
    *,
    is_verbose: bool = False,
    flags: str = "",
) -> Iterator[Block]:
    """Yield findings and advice; abstentions only if verbose.

    `flags` are those of the next command.
    """
    from rightsizer.advice.engine import without_advice  # noqa: PLC0415 - the rules, as said below.

    still_open = [recommendation for recommendation in advice if recommendation.is_open]
    still_open.sort(key=lambda recommendation: (recommendation.opened, recommendation.id))
    forms = [plain(advice_document(recommendation)) for recommendation in still_open]
    yield _open_section(forms)
    closed = [recommendation for recommendation in advice if not recommendation.is_open]
    ended = (
        f"{recommendation.id} · {recommendation.state}: {recommendation.finding.summary}"
        for recommendation in closed[:_NAMED]
    )
    yield section("Closed:", Items(tuple(ended)))
    others = tuple(map(finding_line, without_advice(findings, advice)))
    yield section(_WITHOUT_ADVICE, Items(others))
    yield no_verdict(findings, is_verbose=is_verbose)
    yield _open_count(forms, flags)


def _open_section(forms: Sequence[JsonObject]) -> Section:
    """Return open advice by its worth; alike advice on idle GPUs is folded."""
    blocks = list[Block]()
    for (first, *others), *rest in advice_groups(sorted(forms, key=dearest_first), _group_key):
        instead = (_block(form, f"Or instead: {uncapitalized(_action(form))}") for form in others)
        more = ""
        if rest:
            dollars = sum(dollars_per_day(best) for best, *_ in rest)
            saves = f", which save {dollars_text(dollars)} a day" if dollars > 0 else ""
            named = ", ".join(map(_folded, rest))
            more = f"and {len(rest)} more like it{saves}: {named}"
        blocks.append(_block(first, _action(first), *instead, more))
    return section(heading(forms, "by savings, critical ones on top"), *blocks)


def _block(advice: JsonObject, action: str, *others: Block) -> Section:
    holder = (advice["workload"] or "").rpartition("/")[2] or _subject(advice)
    return advice_block(advice, action, holder, *others)


def _action(advice: JsonObject) -> str:
    return action_label(advice["action"], advice["finding"])


def _group_key(advice: JsonObject) -> GroupKey:
    same = {name: advice[name] for name in ("id", "exclusive_group", "workload", "action")}
    return GroupKey(kind=advice["finding"], reasons=tuple(advice["reasons"]), **same)


def _folded(unit: Unit[JsonObject]) -> str:
    ids = " or ".join(form["id"] for form in unit)
    return f"{_subject(unit[0])} ({ids})"


def _subject(advice: JsonObject) -> str:
    """Return the start of the summary."""
    subject: str = advice["summary"].partition(":")[0]
    return subject


def _open_count(forms: Sequence[JsonObject], flags: str) -> str:
    count = len(to_do(forms, lambda form: (form["exclusive_group"], form["id"])))
    are = counted(count, "recommendation is", "recommendations are")
    return f"{are} open." + (f" '{program()} explain ID{flags}' tells why." if count else "")


def _configure(parser: argparse.ArgumentParser) -> None:
    add_history_flag(parser)
    add_flags(parser.add_argument, _HELP["flags"])
    add_verbose_flag(parser)
    add_format_flag(parser, "times in seconds")
    add_url_flags(parser)
    add_config_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    flags = source_flags(arguments)
    if arguments.url:
        return _of_agent(flags, arguments)
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
        return ask_node(arguments, settings.web, partial(_of_agent, flags), error)
    result = {
        "findings": [*map(finding_document, findings)],
        "advice": [*map(advice_document, advice)],
        "evidence": evidence,
    }
    blocks = advise_blocks(findings, advice, is_verbose=arguments.verbose, flags=flags)
    show(arguments, _TITLE, result, (*blocks, Items(tuple(rests_on(evidence)))))
    return 0


def _of_agent(flags: str, arguments: argparse.Namespace) -> int:
    if arguments.save:
        raise UsageError("--save: an agent keeps its advice itself; leave out --save or --url")
    document = RemoteAgent.of(arguments).get(ADVICE_PATH, "advice")
    still_open = [
        recommendation for recommendation in document["advice"] if recommendation["closed"] is None
    ]
    trouble = document.get("trouble")
    evidence = convert(document.get("evidence", ()), tuple[Evidence, ...])
    blocks = (
        _open_section(still_open),
        _open_count(still_open, flags),
        f"No GPU is read: {trouble}" if trouble else "",
        Items(tuple(rests_on(evidence))),
    )
    show(arguments, _TITLE, document, blocks)
    return 0


COMMAND = Command("advise", _configure, _run)
