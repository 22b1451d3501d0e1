"""Blocks of a report: the whole of it, and what a screen has of it."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from rightsizer.model.values import (
    HOURS_PER_MONTH,
    OPEN_STATES,
    AdviceState,
    Cause,
    Condition,
    Rank,
    Resource,
    number_text,
    worth_rank,
)
from rightsizer.report import figures
from rightsizer.report.blocks import (
    Bar,
    BarPart,
    Block,
    Cell,
    Chart,
    Code,
    Column,
    Heading,
    Items,
    Key,
    KeyValues,
    Look,
    Sentence,
    Tile,
    Tiles,
    Tone,
    number_column,
    section,
    table_of,
)
from rightsizer.report.charts import ChartColumn, stacked_columns, strip
from rightsizer.report.evidence import rests_on
from rightsizer.report.facts import RuleFacts
from rightsizer.report.figures import dollars, group_percent, hours, kilowatt_hours, money, percent
from rightsizer.report.labels import (
    CAUSE_LABELS,
    CONDITION_LABELS,
    GROUP_MEANINGS,
    GROUP_NAMES,
    GROUPS,
    HOURS_A_DAY,
    RESOURCE_LABELS,
    STATE_LABELS,
    StateGroup,
    action_label,
    first_names,
    readable_name,
    reason_label,
    risk_word,
    uncapitalized,
)
from rightsizer.report.model import (
    AdviceRow,
    DeviceRow,
    FindingRow,
    OutcomeRow,
    ReportDay,
    ReportModel,
    WorkloadUsage,
    summed,
)
from rightsizer.report.rows import (
    GPU_COLUMNS,
    WORKLOAD_COLUMNS,
    GpuRow,
    SubjectUse,
    WorkloadRow,
    rows_table,
    savings_fields,
)
from rightsizer.report.summary import alternatives, left_text, saved_text, summary_of, unknown_text

_MOST_ROWS: Final = 50
"""Limit of workloads and outcomes, to keep documents small; JSON has all."""
_WITHOUT_ADVICE: Final = "Findings over the whole span without an open recommendation"
_MOST_NAMED: Final = 3
_FROM_ISO_YEAR: Final = 5
_WIDEST: Final = 1.25
"""Limit of a drawn need, relative to capacity; the figure beside it shows the value."""
_BAD: Final = (AdviceState.FAILED, AdviceState.REGRESSED)
_ENDED: Final = tuple(state for state in AdviceState if state not in OPEN_STATES)
_NOT_TOLD: Final = "How much of the GPUs was used is not known: their telemetry does not tell."
_Moment = Callable[[float | None], str]


def report_title(model: ReportModel, timezone: dt.tzinfo) -> str:
    """Return the title, which has the span."""
    return f"GPU report, {figures.span_line(model.span, timezone)}"


def report_blocks(model: ReportModel, timezone: dt.tzinfo) -> Iterator[Block]:
    """Yield the whole report."""
    moment = partial(figures.moment_text, timezone=timezone)
    span = model.span
    history = f"{moment(span.history_start)} to {moment(span.history_end)}"
    kinds = filter(None, (f"Times in {span.timezone}", figures.kinds_text(model)))
    yield Sentence(". ".join(kinds), Tone.FAINT)
    if model.has_data:
        yield Tiles(tuple(_tiles(model)))
    yield Items(tuple(summary_of(model)))
    if model.has_data:
        yield section("What the GPUs did", *_did(model, moment))
        yield section("What went unused, and where", *_unused(model))
        yield section("How well sized they are", *_sizes(model))
    else:
        yield f"The history holds {history}."
    yield section("What to change", *_changes(model, moment))
    becomes = "Each becomes a recommendation if it lasts and still holds at the end."
    findings = Items(tuple(map(_finding_line, model.findings)))
    if model.findings:
        yield section(_WITHOUT_ADVICE, becomes, findings)
    yield section("Outcomes of past recommendations", *_outcomes(model, moment))
    yield section("Health, and what is not known", *_health(model, moment))
    yield section("Words and numbers", *_words(model))
    made = f"Made by Rightsizer {model.version} from the history of {history}. It only advises."
    yield Sentence(made, Tone.FAINT)


def _tiles(model: ReportModel) -> Iterator[Tile]:
    summary = model.summary
    known_hours = summary.known_hours
    total = summary.total
    wasted = summary.wasted
    left = left_text(summary)
    covered = f"{percent(model.span.coverage_ratio)} of it known"
    used = (
        f"of the known time; {percent(summary.used.gpu_hours / known_hours)} of what the GPUs "
        "can do"
    )
    findings_text = (
        f"{len(model.findings)} findings over the span" if model.findings else "no finding"
    )
    saves = f"would save {saved_text(summary.savings)}" if summary.open_advice else findings_text
    yield Tile("GPU time", hours(total.gpu_hours), f"{money(total)}; {covered}")
    yield Tile("Working", percent(summary.groups[StateGroup.WORKING] / known_hours), used)
    energy = kilowatt_hours(wasted.kilowatt_hours)
    yield Tile("Wasted", hours(wasted.gpu_hours), f"{money(wasted)}; {energy}{left}")
    yield Tile("Open recommendations", str(summary.open_advice), saves)


def _did(model: ReportModel, moment: _Moment) -> Iterator[Block]:
    summary = model.summary
    yield Chart(partial(_days_chart, model))
    yield Key(tuple((f"g-{group}", GROUP_NAMES[group]) for group in GROUPS))
    yield table_of(
        GROUPS,
        {
            "what": GROUP_NAMES.__getitem__,
            number_column("GPU-hours"): summary.groups.__getitem__,
            number_column("of the known"): partial(_of_known, model),
            "meaning": GROUP_MEANINGS.__getitem__,
        },
        caption="GPU-hours over the whole span",
    )
    day_columns: dict[Heading, Callable[[ReportDay], Cell]] = {
        "day": lambda day: day.date,
        **{number_column(GROUP_NAMES[group]): partial(_day_hours, group) for group in GROUPS},
    }
    days = table_of(model.days, day_columns)
    yield section("Each day, GPU-hours", days, look=Look.FOLDED)
    cell_hours = model.devices[0].strip.cell_hours if model.devices else 1
    cell = "hour" if cell_hours == 1 else f"{cell_hours} hours"
    ends = f"{moment(model.span.start)} to {moment(model.span.end)}"
    columns: dict[Heading, Callable[[DeviceRow], Cell]] = {
        "GPU": lambda row: row.label,
        Column("held by", is_below=True): lambda row: (
            first_names(row.workloads, _MOST_NAMED) or "no known owner"
        ),
        "time": lambda row: _shares(row.label, row.groups),
        Column("strip", is_below=True): lambda row: Chart(
            partial(strip, f"{row.label} over time", row.strip.cells, GROUP_NAMES)
        ),
        **{
            number_column(GROUP_NAMES[group]): partial(group_percent, group)
            for group in figures.KNOWN_GROUPS
        },
        number_column("known"): lambda row: percent(row.coverage_ratio),
    }
    caption = "Percent of each GPU's known time; the last column is that of the whole span"
    drawn = f"The strip below each share is what it mostly did in each {cell}, {ends}."
    gpus = table_of(model.devices, columns, caption=caption)
    yield section("GPU by GPU", gpus, Key((), note=drawn))


def _day_hours(group: StateGroup, day: ReportDay) -> float:
    return day.groups[group]


def _of_known(model: ReportModel, group: StateGroup) -> str | None:
    if group not in figures.KNOWN_GROUPS:
        return None
    return percent(model.summary.groups[group] / model.summary.known_hours)


def _shares(name: str, groups: Mapping[str, float]) -> Bar:
    whole = sum(groups.values()) or 1.0
    parts = (
        BarPart(GROUP_NAMES[StateGroup(group)], f"g-{group}", time / whole)
        for group, time in groups.items()
    )
    return Bar(name, tuple(parts))


def _days_chart(model: ReportModel) -> str:
    columns = []
    for day in model.days:
        parts = (
            f"{GROUP_NAMES[StateGroup(group)]} {number_text(time)} h"
            for group, time in day.groups.items()
            if time
        )
        tip = f"{day.date}: {', '.join(parts)}"
        columns.append(ChartColumn(day.date[_FROM_ISO_YEAR:], day.groups, tip))
    name = "What all GPUs did, day by day"
    return stacked_columns(name, "The same numbers are in the tables below.", columns)


def _unused(model: ReportModel) -> Iterator[Block]:
    yield Sentence(
        "A second of a GPU is used as far as its busiest resource was; the rest is unused and has "
        "one cause. Money is GPU time at the prices below, lowest to highest; energy is measured "
        "at the GPUs.",
        Tone.FAINT,
    )
    known_hours = model.summary.known_hours
    unused = summed((model.summary.wasted, model.summary.left_over))
    amounts = [(CAUSE_LABELS[Cause(row.cause)], row.wasted) for row in model.causes]
    yield table_of(
        [*amounts, ("all", unused)] if amounts else [],
        {
            "cause": lambda row: row[0],
            "of the known time": lambda row: Bar(
                row[0], (BarPart(row[0], "wasted", row[1].gpu_hours / known_hours),)
            ),
            number_column("share"): lambda row: percent(row[1].gpu_hours / known_hours),
            number_column("GPU-hours"): lambda row: row[1].gpu_hours,
            number_column("energy"): lambda row: kilowatt_hours(row[1].kilowatt_hours),
            number_column("money"): lambda row: money(row[1]),
        },
        caption="By cause",
        has_total=True,
    )
    yield "" if amounts else _NOT_TOLD
    of = f"; the {_MOST_ROWS} of {len(model.workloads)} that wasted most"
    yield rows_table(
        [_workload_row(model, usage) for usage in model.workloads[:_MOST_ROWS]],
        WORKLOAD_COLUMNS,
        caption=f"By workload{of if len(model.workloads) > _MOST_ROWS else ''}",
    )
    yield "" if model.workloads else "No holder of a GPU is known."
    yield rows_table(_gpu_rows(model), GPU_COLUMNS, caption="By GPU, most urgent first")


def _gpu_rows(model: ReportModel) -> list[GpuRow]:
    """Return the GPUs in the order of the page."""
    rows = (
        GpuRow(
            uuid=device.uuid,
            title=device.label,
            holders=device.workloads,
            kilowatt_hours=device.total.kilowatt_hours,
            **_use(model, device, device.label),
        )
        for device in model.devices
    )
    return sorted(rows, key=lambda row: row.order)


def _workload_row(model: ReportModel, usage: WorkloadUsage) -> WorkloadRow:
    return WorkloadRow(
        title=usage.workload,
        gpus=", ".join(usage.devices),
        past=_shares(usage.workload, usage.groups),
        held_gpu_hours=usage.held.gpu_hours,
        kilowatt_hours=usage.held.kilowatt_hours,
        **_use(model, usage, usage.workload),
    )


def _use(model: ReportModel, usage: DeviceRow | WorkloadUsage, name: str) -> dict[str, Any]:
    """Return what a row says of use, waste and the first recommendation."""
    about = [row for row in model.advice if name == row.workload or name in row.devices]
    first = min(about, key=_urgency, default=None)
    return {
        "use": SubjectUse.of(usage.used_hours, usage.waste_hours),
        "wasted_dollars": usage.wasted.dollars_typical,
        "known_ratio": usage.coverage_ratio,
    } | ({} if first is None else _advised(first))


def _urgency(row: AdviceRow) -> Rank:
    """Sort key, as in `advise`."""
    return worth_rank(row.severity, row.savings.dollars_per_month_typical or 0.0, row.confidence)


def _advised(row: AdviceRow) -> dict[str, Any]:
    monthly = row.savings.dollars_per_month_typical or 0.0
    return {
        "to_do": action_label(row.action, row.finding),
        "rank": _urgency(row),
        **savings_fields(monthly * HOURS_A_DAY / HOURS_PER_MONTH, len(row.devices)),
    }


def _sizes(model: ReportModel) -> Iterator[Block]:
    resources = figures.resources_of(model)
    dark = "Dark: demand, what was used all but 1% of the active time (memory: at most)."
    light = "Light: need, the demand with its margin. The line is all that the GPU has."
    yield Key((), note=f"{dark} {light}")
    columns: dict[Heading, Callable[[DeviceRow], Cell]] = {
        "GPU": lambda row: row.label,
        **{RESOURCE_LABELS[resource]: partial(_fit, resource) for resource in resources},
        "verdict": _verdict,
    }
    yield table_of(model.devices, columns, caption="Need of each resource, of what the GPU has")


def _fit(resource: Resource, row: DeviceRow) -> Bar:
    fit = figures.fit_of(row, resource)
    need = min((fit and fit.need) or 0.0, _WIDEST) / _WIDEST
    demand = min((fit and fit.demand) or 0.0, _WIDEST) / _WIDEST
    parts = BarPart("demand", "demand", demand), BarPart("margin", "need", max(0.0, need - demand))
    text = figures.fit_text(row, resource)
    return Bar(f"{row.label}, {resource}", parts, text, limit=1 / _WIDEST)


def _verdict(row: DeviceRow) -> Cell:
    text = figures.fit_verdict(row)
    return Sentence(text, Tone.WARNING) if row.is_underprovisioned else text


def _changes(model: ReportModel, moment: _Moment) -> Iterator[Block]:
    if model.advice_is_judged_now:
        yield "The history has no ledger; these are the rules' findings on its last days."
    if not model.advice:
        yield "No open recommendations."
    firsts = alternatives(model.advice)
    for place, row in enumerate(model.advice, 1):
        instead = f"Instead of {firsts[row.id]}: " if row.id in firsts else ""
        subject = row.workload or ", ".join(row.devices)
        title = f"{place}. {instead}{action_label(row.action, row.finding)}: {subject}"
        yield section(title, *_advice(row, moment), look=Look.CARD)


def _finding_line(row: FindingRow) -> str:
    action = action_label(row.action, row.finding)
    return f"{row.summary} {action}; {percent(row.confidence)} sure ({row.id})"


def _advice(row: AdviceRow, moment: _Moment) -> Iterator[Block]:
    saves = row.savings.gpus_high or row.savings.dollars_per_month_high
    saved = saved_text(row.savings)
    yield Sentence(f"Saves {saved}", Tone.BEST) if saves else f"Savings: {saved}"
    yield row.summary
    factors = ", ".join(
        f"{readable_name(name)} {value:.2f}" for name, value in row.confidence_factors.items()
    )
    reasons = ", ".join(map(reason_label, row.reasons))
    facts = {
        "How sure": f"{row.confidence_word}, {percent(row.confidence)}"
        + (f" ({factors})" if factors else ""),
        "Risk": risk_word(row.risk),
        "Reason": f"{reasons}; on {', '.join(row.devices)}",
        "Options": "; ".join(row.options),
        "Prices": f"as of {row.savings.price_date}" if row.savings.price_date else "",
        "State": f"{row.state} since {moment(row.opened)}; rightsizer explain {row.id}",
    }
    yield KeyValues(tuple((name, text) for name, text in facts.items() if text))
    source = row.savings.price_source
    yield section("Where the prices are from", source, look=Look.FOLDED)
    for step in row.instructions:
        yield section(step.title, Code(step.text), look=Look.FOLDED)


def _outcomes(model: ReportModel, moment: _Moment) -> Iterator[Block]:
    if not model.outcomes:
        yield "No recommendation ended within the span."
    cut = f"; {_MOST_ROWS} of {len(model.outcomes)}" * (len(model.outcomes) > _MOST_ROWS)
    yield table_of(
        model.outcomes[:_MOST_ROWS],
        {
            "when": lambda row: moment(row.verified or row.closed),
            "recommendation": lambda row: action_label(row.action, ""),
            Column("workload", is_below=True): lambda row: row.workload or "",
            "outcome": _outcome,
            number_column("saved"): lambda row: (
                "not measured" if row.realized_gpu_hours is None else hours(row.realized_gpu_hours)
            ),
            "why": lambda row: row.why,
        },
        caption=f"Recommendations that ended or were verified within the span, latest first{cut}",
    )
    columns: dict[Heading, Callable[[RuleFacts], Cell]] = {
        "rule": lambda row: readable_name(row.rule),
        "for": lambda row: reason_label(row.reason),
        **{number_column(state): partial(_count, state) for state in _ENDED},
        number_column("saved"): lambda row: hours(row.realized_gpu_hours),
    }
    caption = "Every rule since the ledger began; expired: it went away without an action"
    yield table_of(model.rules, columns, caption=caption)


def _count(state: AdviceState, row: RuleFacts) -> int:
    return row.outcomes.get(state, 0)


def _outcome(row: OutcomeRow) -> Cell:
    text = f"{row.state} by {row.actor}" if row.actor else str(row.state)
    return Sentence(text, Tone.WARNING) if row.state in _BAD else text


def _health(model: ReportModel, moment: _Moment) -> Iterator[Block]:
    health = model.health
    yield (
        f"{percent(model.span.coverage_ratio)} of the GPU time is known. Of "
        f"{hours(health.unknown_hours)} the state is not known{unknown_text(health)}; "
        f"{hours(health.unrecorded_hours)} were not recorded."
    )
    gaps = "; ".join(f"{moment(gap.start)} to {moment(gap.end)}" for gap in health.gaps)
    more = f", and {health.further_gaps} shorter times" if health.further_gaps else ""
    yield f"Nothing was recorded of any GPU: {gaps}{more}." if gaps else ""
    yield table_of(
        health.conditions,
        {
            "GPU": lambda row: row.device,
            "condition": lambda row: CONDITION_LABELS[Condition(row.condition)],
            number_column("for"): lambda row: hours(row.hours),
            number_column("of its known time"): lambda row: percent(row.share_ratio),
        },
        caption="Conditions that may hold beside any state",
    )
    if not health.conditions:
        yield "No GPU was throttled, short of memory, or on a degraded link."
    yield section("What this rests on:", Items(tuple(rests_on(model.evidence))))
    hardware = f"Recommendations on hardware: {', '.join(health.hardware)}."
    stood = hardware if health.hardware else "No advice on failing hardware stood."
    counts = "Counts of Xid and ECC errors are in Prometheus; the history keeps none."
    yield Sentence(f"{stood} {counts}", Tone.FAINT)


_MEANINGS: Final = (
    ("GPU-hour", "an hour of one GPU; a MIG instance counts as its part of one"),
    *((readable_name(state), meaning) for state, meaning in STATE_LABELS.items()),
    (
        "used, unused",
        "of each second the largest share of a resource over what is achievable, and its rest",
    ),
    (
        "demand, need",
        "the 99% quantile of the active seconds (memory: the most), and that with a margin",
    ),
    (
        "confidence",
        "probability of a finding: almost certain from 95%, likely from 80%, probable from 60%",
    ),
)


def _words(model: ReportModel) -> Iterator[Block]:
    yield KeyValues(_MEANINGS)
    yield section("How these numbers were made", *figures.method(model))
    yield table_of(
        model.prices,
        {
            "GPU": lambda row: row.model,
            number_column("devices"): lambda row: row.devices,
            number_column("an hour"): lambda row: dollars(
                row.dollars_per_hour_low, row.dollars_per_hour_high, row.dollars_per_hour_typical
            ),
            "terms": lambda row: readable_name(row.billing),
            "as of": lambda row: row.date,
            "source": lambda row: row.source or "no price is stated: set catalogue.prices_file",
        },
        caption="Prices; never a quote of today",
    )


_DEVICES: Final = 16
"""GPUs listed; two nodes fit a screen."""
_ADVICE: Final = 5


def screen_blocks(model: ReportModel, timezone: dt.tzinfo) -> Iterator[Block]:
    """Yield a summary; the other formats have the details."""
    yield section(report_title(model, timezone), Items(tuple(summary_of(model))))
    if model.has_data:
        more = len(model.devices) - _DEVICES
        yield rows_table(
            _gpu_rows(model)[:_DEVICES],
            GPU_COLUMNS,
            note=f"and {more} more GPUs, which are less urgent" if more > 0 else "",
            expendable=("known", "kWh", "holder", "mostly"),
        )
    else:
        ends = model.span.history_start, model.span.history_end
        start, end = (figures.moment_text(time, timezone) for time in ends)
        yield f"The history holds {start} to {end}."
    yield _to_change(model)
    yield _not_recommended(model)
    yield section("What this rests on:", Items(tuple(rests_on(model.evidence))))
    yield Sentence(
        "The whole report, with days, workloads, fits and causes: --output report.html", Tone.FAINT
    )


def _to_change(model: ReportModel) -> Block:
    if not model.advice:
        return "Nothing to change is known."
    firsts = alternatives(model.advice)
    blocks = list[Block]()
    for place, row in enumerate(model.advice[:_ADVICE], 1):
        action = action_label(row.action, row.finding)
        if row.id in firsts:
            action = f"Instead of {firsts[row.id]}: {uncapitalized(action)}"
        worth = f"{action}; {saved_text(row.savings)}"
        blocks.append(section(f"{place}. {row.summary}", worth, f"rightsizer explain {row.id}"))
    left = len(model.advice) - _ADVICE
    return section("What to change:", *blocks, f"and {left} more" if left > 0 else "")


def _not_recommended(model: ReportModel) -> Block:
    lines = [*map(_finding_line, model.findings[:_ADVICE])]
    if (left := len(model.findings) - _ADVICE) > 0:
        lines.append(f"and {left} more")
    return section(f"{_WITHOUT_ADVICE}:", Items(tuple(lines)))
