"""The report as Markdown: tables that read well in a terminal and in a wiki."""

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rightsizer.domain.advice import OPEN_STATES, AdviceState
from rightsizer.domain.finding import Action
from rightsizer.domain.state import Cause, Condition
from rightsizer.publish.report.figures import (
    dollars,
    hours,
    kilowatt_hours,
    moment_text,
    money,
    number,
    percent,
)
from rightsizer.publish.report.fit_text import fit_text, verdict
from rightsizer.publish.report.html_views import main_cause, resources_of
from rightsizer.publish.report.markdown_table import cell, table
from rightsizer.publish.report.method import method
from rightsizer.publish.report.model import AdviceRow, Day, DeviceRow, ReportModel
from rightsizer.publish.report.period import kinds_text, period_text
from rightsizer.publish.report.story import saved_text, story
from rightsizer.publish.report.words import (
    ACTIONS,
    CAUSES,
    CONDITIONS,
    GROUP_MEANINGS,
    GROUP_NAMES,
    GROUPS,
    RESOURCES,
    STATES,
    Group,
    reason_words,
    spoken,
)

__all__ = ["markdown_document"]

_MOST_ROWS: Final = 50


def markdown_document(model: ReportModel, timezone: dt.tzinfo) -> str:
    """All of it."""
    parts: list[str] = [
        f"# GPU report, {period_text(model.span, timezone)}",
        f"Times in {model.span.timezone}. {cell(kinds_text(model))}".strip(),
        "\n".join(f"- {cell(line)}" for line in story(model)),
    ]
    if model.has_data:
        parts += [*_did(model), *_wasted(model), *_fit(model)]
    else:
        start, end = model.span.history_start, model.span.history_end
        parts.append(
            f"The history holds {moment_text(start, timezone)} to {moment_text(end, timezone)}."
        )
    parts += [*_to_change(model, timezone), *_returned(model, timezone)]
    parts += [*_health(model, timezone), *_words(model)]
    return "\n\n".join(parts) + "\n"


def _did(model: ReportModel) -> Iterator[str]:
    known = model.summary.known_hours
    yield "## What the GPUs did"
    yield table(
        ("what", "GPU-hours", "of the known", "meaning"),
        [
            (
                GROUP_NAMES[group],
                number(model.summary.groups[group]),
                "-" if group is Group.NO_DATA else percent(model.summary.groups[group] / known),
                GROUP_MEANINGS[group],
            )
            for group in GROUPS
        ],
        "lrrl",
    )
    yield "### GPU by GPU"
    names = [GROUP_NAMES[group] for group in GROUPS if group is not Group.NO_DATA]
    yield table(
        ("GPU", "held by", *names, "known"),
        [_device(row) for row in model.devices],
        "ll" + "r" * (len(names) + 1),
    )
    yield "### Day by day, GPU-hours"
    yield table(
        ("day", *(GROUP_NAMES[group] for group in GROUPS)),
        [_day(day) for day in model.days],
        "l" + "r" * len(GROUPS),
    )


def _device(row: DeviceRow) -> Sequence[str]:
    known = sum(row.groups.values()) - row.groups[Group.NO_DATA]
    shares = [
        percent(row.groups[group] / known) if known else "-"
        for group in GROUPS
        if group is not Group.NO_DATA
    ]
    holders = ", ".join(row.workloads) or "no known owner"
    return (row.label, holders, *shares, percent(row.coverage_ratio))


def _day(day: Day) -> Sequence[str]:
    return (day.date, *(number(day.groups[group]) for group in GROUPS))


def _wasted(model: ReportModel) -> Iterator[str]:
    yield "## What went unused, and where"
    columns = ("GPU-hours", "energy", "money")
    yield table(
        ("cause", "of the known", *columns),
        [
            (
                CAUSES[Cause(row.cause)],
                percent(row.share_ratio),
                number(row.wasted.gpu_hours),
                kilowatt_hours(row.wasted.kilowatt_hours),
                money(row.wasted),
            )
            for row in model.causes
        ],
        "lrrrr",
    )
    yield table(
        ("workload", "on", "held", "unused", "mostly", "money unused"),
        [
            (
                row.workload,
                ", ".join(row.devices),
                hours(row.held.gpu_hours),
                hours(row.wasted.gpu_hours),
                main_cause(row.waste_hours),
                money(row.wasted),
            )
            for row in model.workloads[:_MOST_ROWS]
        ],
        "llrrlr",
    )
    yield table(
        ("GPU", "used", "unused", "mostly", "energy", "money unused"),
        [
            (
                row.label,
                hours(row.used_hours),
                hours(row.wasted.gpu_hours),
                main_cause(row.waste_hours),
                kilowatt_hours(row.total.kilowatt_hours),
                money(row.wasted),
            )
            for row in model.devices
        ],
        "lrrlrr",
    )


def _fit(model: ReportModel) -> Iterator[str]:
    resources = resources_of(model)
    yield "## How well sized they are"
    yield "Need of each resource, of what the GPU has: the demand with its margin."
    yield table(
        ("GPU", *(RESOURCES[resource] for resource in resources), "verdict"),
        [
            (row.label, *(fit_text(row, resource) for resource in resources), verdict(row))
            for row in model.devices
        ],
        "l" + "r" * len(resources) + "l",
    )


def _to_change(model: ReportModel, timezone: dt.tzinfo) -> Iterator[str]:
    yield "## What to change"
    if model.advice_is_judged_now:
        yield "The history has no ledger of advice; this is what the rules say of its last days."
    if not model.advice:
        yield "No advice is open."
    for place, row in enumerate(model.advice, 1):
        who = row.workload or ", ".join(row.devices)
        yield f"### {place}. {ACTIONS[Action(row.action)]}: {cell(who)}"
        yield cell(row.summary)
        yield "\n".join(_advice_lines(row, timezone))


def _advice_lines(row: AdviceRow, timezone: dt.tzinfo) -> Iterator[str]:
    yield f"- saves: {cell(saved_text(row.savings))}"
    yield f"- how sure: {row.confidence_word}, {percent(row.confidence)}"
    yield f"- risk: {reason_words(row.risk).lower()}"
    yield f"- reason: {', '.join(map(reason_words, row.reasons))}; on {', '.join(row.devices)}"
    for option in row.options:
        yield f"- option: {cell(option)}"
    for instruction in row.instructions:
        yield f"- how: {cell(instruction.title)}"
    if row.savings.price_date:
        yield f"- price: {cell(row.savings.price_date)}: {cell(row.savings.price_source)}"
    yield f"- {row.state} since {moment_text(row.opened, timezone)}; `rightsizer explain {row.id}`"


def _returned(model: ReportModel, timezone: dt.tzinfo) -> Iterator[str]:
    yield "## What past advice returned"
    if not model.outcomes:
        yield "No advice ended within the span."
    else:
        yield table(
            ("when", "advice", "workload", "outcome", "saved", "why"),
            [
                (
                    moment_text(row.verified or row.closed, timezone),
                    ACTIONS[Action(row.action)],
                    row.workload or "",
                    f"{row.state} by {row.actor}" if row.actor else row.state,
                    "not measured"
                    if row.realized_gpu_hours is None
                    else hours(row.realized_gpu_hours),
                    row.why,
                )
                for row in model.outcomes[:_MOST_ROWS]
            ],
            "llllrl",
        )
    if model.rules:
        yield "Every rule since the ledger began; expired: nobody acted and it went away."
        yield _rules(model)


def _rules(model: ReportModel) -> str:
    ended = [state for state in AdviceState if state not in OPEN_STATES]
    return table(
        ("rule", "for", *ended, "saved"),
        [
            (
                spoken(row.rule),
                reason_words(row.reason),
                *(str(row.outcomes.get(state, 0)) for state in ended),
                hours(row.realized_gpu_hours),
            )
            for row in model.rules
        ],
        "ll" + "r" * (len(ended) + 1),
    )


def _health(model: ReportModel, timezone: dt.tzinfo) -> Iterator[str]:
    health = model.health
    yield "## Health, and what is not known"
    yield (
        f"{percent(model.span.coverage_ratio)} of the GPU time is known. Of "
        f"{hours(health.unknown_hours)} the GPUs could not be read; "
        f"{hours(health.unrecorded_hours)} were not recorded."
    )
    if health.gaps:
        gaps = [
            f"{moment_text(gap.start, timezone)} to {moment_text(gap.end, timezone)}"
            for gap in health.gaps
        ]
        more = f", and {health.further_gaps} shorter times" if health.further_gaps else ""
        yield f"Nothing was recorded of any GPU: {'; '.join(gaps)}{more}."
    if health.conditions:
        yield table(
            ("GPU", "condition", "for", "of its known time"),
            [
                (
                    row.device,
                    CONDITIONS[Condition(row.condition)],
                    hours(row.hours),
                    percent(row.share_ratio),
                )
                for row in health.conditions
            ],
            "llrr",
        )
    if health.hardware:
        yield f"Advice on the hardware stood: {', '.join(health.hardware)}."


def _words(model: ReportModel) -> Iterator[str]:
    yield "## Words and numbers"
    yield table(
        ("word", "meaning"),
        [(spoken(state), meaning) for state, meaning in STATES.items()],
        "ll",
    )
    yield from method(model)
    yield _prices(model)
    yield f"Made by Rightsizer {model.version}. It only advises."


def _prices(model: ReportModel) -> str:
    rows: Iterable[Sequence[str]] = [
        (
            row.model,
            str(row.devices),
            dollars(row.dollars_per_hour_low, row.dollars_per_hour_high),
            spoken(row.billing),
            row.date,
            row.source or "nobody states a price",
        )
        for row in model.prices
    ]
    return table(("GPU", "devices", "an hour", "terms", "as of", "source"), rows, "lrrlll")
