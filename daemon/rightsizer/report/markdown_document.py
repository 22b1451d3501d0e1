"""The report as Markdown: tables that read well in a terminal and in a wiki."""

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rightsizer.model.finding import Action
from rightsizer.model.state import Cause, Condition
from rightsizer.report.figures import (
    dollars,
    fit_text,
    fit_verdict,
    hours,
    kilowatt_hours,
    kinds_text,
    method,
    moment_text,
    money,
    number,
    percent,
    span_line,
)
from rightsizer.report.html_document import (
    ENDED,
    KNOWN_GROUPS,
    MOST_ROWS,
    group_percents,
    main_cause,
    resources_of,
)
from rightsizer.report.labels import (
    ACTION_LABELS,
    CAUSE_LABELS,
    CONDITION_LABELS,
    GROUP_MEANINGS,
    GROUP_NAMES,
    GROUPS,
    RESOURCE_LABELS,
    STATE_LABELS,
    readable_name,
    reason_label,
)
from rightsizer.report.model import AdviceRow, ReportModel
from rightsizer.report.summary import saved_text, summary_of, unknown_text

_SPECIAL: Final = re.compile(r"([\\`*\[|~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<!\w)_|_(?!\w))")
"""What a renderer would take for more than text; the rest stays readable in a terminal."""
_WIDEST: Final = 48
"""Beyond this a cell is not made room for in the rows above and below."""


def cell(text: str) -> str:
    """A text that is nothing but text to a renderer, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> str:
    """A table; `sides` has `l` or `r` for each column."""
    lines = [[cell(each) for each in row] for row in (header, *rows)]
    widths = [
        max(3, *(min(_WIDEST, len(line[place])) for line in lines)) for place in range(len(header))
    ]
    rule = [
        "-" * (width - 1) + ":" if side == "r" else "-" * width
        for width, side in zip(widths, sides, strict=True)
    ]
    first, *rest = (
        [
            text.rjust(width) if side == "r" else text.ljust(width)
            for text, width, side in zip(line, widths, sides, strict=True)
        ]
        for line in lines
    )
    return "\n".join(f"| {' | '.join(line)} |" for line in (first, rule, *rest))


def markdown_document(model: ReportModel, timezone: dt.tzinfo) -> str:
    """All of it."""
    parts: list[str] = [
        f"# GPU report, {span_line(model.span, timezone)}",
        f"Times in {model.span.timezone}. {cell(kinds_text(model))}".strip(),
        "\n".join(f"- {cell(line)}" for line in summary_of(model)),
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
    summary = model.summary
    yield "## What the GPUs did"
    yield table(
        ("what", "GPU-hours", "of the known", "meaning"),
        [
            (
                GROUP_NAMES[group],
                number(summary.groups[group]),
                percent(summary.groups[group] / summary.known_hours)
                if group in KNOWN_GROUPS
                else "-",
                GROUP_MEANINGS[group],
            )
            for group in GROUPS
        ],
        "lrrl",
    )
    yield "### GPU by GPU"
    yield table(
        ("GPU", "held by", *(GROUP_NAMES[group] for group in KNOWN_GROUPS), "known"),
        [
            (
                *(row.label, ", ".join(row.workloads) or "no known owner"),
                *group_percents(row),
                percent(row.coverage_ratio),
            )
            for row in model.devices
        ],
        "ll" + "r" * (len(KNOWN_GROUPS) + 1),
    )
    yield "### Day by day, GPU-hours"
    yield table(
        ("day", *(GROUP_NAMES[group] for group in GROUPS)),
        [(day.date, *(number(day.groups[group]) for group in GROUPS)) for day in model.days],
        "l" + "r" * len(GROUPS),
    )


def _wasted(model: ReportModel) -> Iterator[str]:
    yield "## What went unused, and where"
    yield table(
        ("cause", "of the known", "GPU-hours", "energy", "money"),
        [
            (
                *(CAUSE_LABELS[Cause(row.cause)], percent(row.share_ratio)),
                *(number(row.wasted.gpu_hours), kilowatt_hours(row.wasted.kilowatt_hours)),
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
                *(row.workload, ", ".join(row.devices), hours(row.held.gpu_hours)),
                *(hours(row.wasted.gpu_hours), main_cause(row.waste_hours), money(row.wasted)),
            )
            for row in model.workloads[:MOST_ROWS]
        ],
        "llrrlr",
    )
    yield table(
        (
            *("GPU", "effective utilization", "headroom", "used", "unused", "mostly", "energy"),
            "money unused",
        ),
        [
            (
                *(row.label, percent(row.effective_utilization), percent(row.headroom_ratio)),
                *(hours(row.used_hours), hours(row.wasted.gpu_hours)),
                *(main_cause(row.waste_hours), kilowatt_hours(row.total.kilowatt_hours)),
                money(row.wasted),
            )
            for row in model.devices
        ],
        "lrrrrlrr",
    )


def _fit(model: ReportModel) -> Iterator[str]:
    resources = resources_of(model)
    yield "## How well sized they are"
    yield "Need of each resource, of what the GPU has: the demand with its margin."
    yield table(
        ("GPU", *(RESOURCE_LABELS[resource] for resource in resources), "verdict"),
        [
            (row.label, *(fit_text(row, resource) for resource in resources), fit_verdict(row))
            for row in model.devices
        ],
        "l" + "r" * len(resources) + "l",
    )


_FINDINGS: Final = (
    "Findings over the span as a whole; they become advice where they last, and hold at its end:"
)


def _to_change(model: ReportModel, timezone: dt.tzinfo) -> Iterator[str]:
    yield "## What to change"
    if model.advice_is_judged_now:
        yield "The history has no ledger of advice; this is what the rules say of its last days."
    if not model.advice:
        yield "No advice is open."
    if model.findings:
        yield _FINDINGS
        yield "\n".join(
            f"- {cell(row.summary)} {cell(ACTION_LABELS[Action(row.action)])}; "
            f"{percent(row.confidence)} sure ({row.id})"
            for row in model.findings
        )
    for place, row in enumerate(model.advice, 1):
        who = row.workload or ", ".join(row.devices)
        yield f"### {place}. {ACTION_LABELS[Action(row.action)]}: {cell(who)}"
        yield cell(row.summary)
        yield "\n".join(_advice_lines(row, timezone))


def _advice_lines(row: AdviceRow, timezone: dt.tzinfo) -> Iterator[str]:
    yield f"- saves: {cell(saved_text(row.savings))}"
    yield f"- how sure: {row.confidence_word}, {percent(row.confidence)}"
    yield f"- risk: {reason_label(row.risk).lower()}"
    yield f"- reason: {', '.join(map(reason_label, row.reasons))}; on {', '.join(row.devices)}"
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
                    *(ACTION_LABELS[Action(row.action)], row.workload or ""),
                    f"{row.state} by {row.actor}" if row.actor else row.state,
                    "not measured"
                    if row.realized_gpu_hours is None
                    else hours(row.realized_gpu_hours),
                    row.why,
                )
                for row in model.outcomes[:MOST_ROWS]
            ],
            "llllrl",
        )
    if model.rules:
        yield "Every rule since the ledger began; expired: it went away without an action."
        yield table(
            ("rule", "for", *ENDED, "saved"),
            [
                (
                    *(readable_name(row.rule), reason_label(row.reason)),
                    *(str(row.outcomes.get(state, 0)) for state in ENDED),
                    hours(row.realized_gpu_hours),
                )
                for row in model.rules
            ],
            "ll" + "r" * (len(ENDED) + 1),
        )


def _health(model: ReportModel, timezone: dt.tzinfo) -> Iterator[str]:
    health = model.health
    yield "## Health, and what is not known"
    yield (
        f"{percent(model.span.coverage_ratio)} of the GPU time is known. Of "
        f"{hours(health.unknown_hours)} the state is not known{unknown_text(health)}; "
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
                    *(row.device, CONDITION_LABELS[Condition(row.condition)]),
                    *(hours(row.hours), percent(row.share_ratio)),
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
        [(readable_name(state), meaning) for state, meaning in STATE_LABELS.items()],
        "ll",
    )
    yield from method(model)
    yield table(
        ("GPU", "devices", "an hour", "terms", "as of", "source"),
        [
            (
                *(row.model, str(row.devices)),
                dollars(row.dollars_per_hour_low, row.dollars_per_hour_high),
                *(readable_name(row.billing), row.date, row.source or "no price is stated"),
            )
            for row in model.prices
        ],
        "lrrlll",
    )
    yield f"Made by Rightsizer {model.version}. It only advises."
