"""Blocks of a plan: title, candidates, details, alternatives, validation, measured figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import astuple

from rightsizer.io.terminal import counted
from rightsizer.model.units import GIB, percent_text
from rightsizer.planner.alternatives import Alternative
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.cost_blocks import (
    costs_section,
    curve_section,
    growth_section,
    rejection_section,
)
from rightsizer.planner.display import (
    MEMORY_PARTS,
    NOTHING,
    dollars,
    hours_text,
    interval_text,
    large,
    middle,
    number,
    percent,
    priced,
    range_text,
)
from rightsizer.planner.launch import launch_of
from rightsizer.planner.planner import GpuPlan
from rightsizer.planner.validation import shown_gibibytes, validation_steps
from rightsizer.report.blocks import (
    Bar,
    BarPart,
    Block,
    Cell,
    CellKind,
    Column,
    Items,
    Key,
    Section,
    Sentence,
    Table,
    Tone,
    bars,
    section,
    table,
)
from rightsizer.sizing.load import RequestLoad, WorkUnit, units_per_request, work_unit
from rightsizer.sizing.models import ImageNetwork, Transformer
from rightsizer.sizing.parameters import count_parameters
from rightsizer.sizing.requirement import ModelTask, Recompute, Requirement

if TYPE_CHECKING:
    from rightsizer.planner.plan_check import FigureComparison, PlanCheck

_Column = tuple[str, Callable[[PlanCandidate], Cell]]
_LEFT_COSTS: Final = frozenset({"GPUs", "rented as", "$/run", "$/h", "$/M"})
_LEFT: Final = frozenset({"GPUs", "TxPxDxE", "layout", "memory", "90% range"})
_RATES: Final = (
    "rank",
    "name",
    "layout",
    "memory",
    "requests",
    "rate",
    "within",
    "first",
    "between",
    "in time",
    "mfu",
    "hours",
)
_COSTS: Final = ("rank", "name", "rented", "run", "hour", "work")
_MEMORY: Final = ("rank", "name", "spread", "drawn")
_BELOW: Final = "90% range"
"""Column whose cells stand below those of the one before on a page."""
STARRED: Final = "*: not in the format asked for; a note says in which."
_SHOWN: Final = 10
_VISIBLE: Final = 0.05 * GIB
_LEGEND: Final = (
    "What all GPUs deliver together, most likely and in 90 of 100 cases; GiB of each one, ?: may"
    " not fit. TxPxDxE: tensor, pipeline, data, expert parallel."
)
_SERVED: Final = "TTFT, TPOT: ms to the first token, and between tokens."
_IN_TIME: Final = "in time: the chance that all latencies are kept."
_BATCHED: Final = "batch: time of one; an answer may wait for batches before it."
_PRICES: Final = "$: median list prices, not quotes, and where they and the rate lie."
_HEADER: Final = ("figure", "measured", "predicted", "90% range", "verdict")


def title_texts(requirement: Requirement, notes: Sequence[str]) -> Iterator[str]:
    """Yield the model, the task, its requirements, and notes on the input."""
    model = requirement.model
    size = f"{large(count_parameters(model).total)} parameters in {requirement.precision.weights}"
    named = (
        f"{model.name}, {requirement.task}: " if model.name else f"{requirement.task}: a model of "
    )
    yield f"{named}{size}"
    trains = requirement.task.trains
    load = requirement.load
    demands = [*(_trained(requirement) if trains else _served(requirement))]
    if requirement.spares:
        demands.append(counted(requirement.spares, "spare"))
    if requirement.link is not None:
        demands.append(f"link {requirement.link}")
    if requirement.budget is not None:
        demands.append(f"at most ${dollars(requirement.budget)} an hour")
    if demands:
        yield f"asked for: {', '.join(demands)}"
    if not trains and load.concurrency is None and load.units_per_second is None:
        yield "no load is given: ranked by the cost of the work on busy GPUs; give --rps"
    yield from (f"note: {note}" for note in notes)


def title_blocks(requirement: Requirement, notes: Sequence[str]) -> Iterator[Block]:
    """Yield the same as blocks."""
    first, *others = title_texts(requirement, notes)
    yield Sentence(first, Tone.HEADING)
    yield Items(tuple(others))


def _served(requirement: Requirement) -> Iterator[str]:
    load = requirement.load
    model = requirement.model
    unit = work_unit(requirement.model)
    if unit is WorkUnit.SEQUENCES:
        yield f"{number(load.input_tokens)} tokens a sequence"
    elif unit is WorkUnit.AUDIO_SECONDS:
        yield f"requests of {units_per_request(model, load):g} s of sound"
    elif isinstance(model, ImageNetwork):
        yield f"runtime {requirement.runtime}"
    elif isinstance(model, Transformer):
        yield f"{number(load.input_tokens)} tokens in and {number(load.output_tokens)} out"
    if load.concurrency is not None:
        yield f"{number(load.concurrency)} request{'s' * (load.concurrency != 1)} in flight"
    if load.units_per_second is not None:
        units = units_per_request(model, load)
        requests = f"{number(load.units_per_second / units)} requests/s, " if units != 1.0 else ""
        yield f"{requests}{number(load.units_per_second)} {requirement.unit_text}/s"
    if load.speculative_tokens and requirement.answers_in_tokens:
        yield f"{_proposed(load)} by a draft head"
    for name, limit_ms, percentile in (
        ("TTFT", load.ttft_ms, load.ttft_percentile),
        ("TPOT", load.tpot_ms, load.tpot_percentile),
        ("answer", load.latency_ms, load.latency_percentile),
    ):
        if limit_ms is not None:
            of = "" if percentile is None else f"p{percentile:g} of "
            yield f"{of}{name} <= {limit_ms:g} ms"


def _proposed(load: RequestLoad) -> str:
    added = load.tokens_per_step
    return f"{load.speculative_tokens:g} tokens proposed and {added:.3g} made in a step"


def _trained(requirement: Requirement) -> Iterator[str]:
    training = requirement.training
    if isinstance(requirement.model, Transformer):
        yield f"sequences of {training.sequence:,}"
    yield f"micro batch {training.micro_batch}"
    if training.global_batch is not None:
        yield f"global batch {training.global_batch:,}"
    if training.tokens is not None:
        yield f"{large(training.tokens)} {requirement.unit}"
    if training.hours is not None:
        yield f"in {hours_text(training.hours)} at most"
    if training.recompute is not Recompute.NONE:
        yield f"{training.recompute} recomputation"
    if training.zero_stage:
        yield f"ZeRO {training.zero_stage}"
    if requirement.task is not ModelTask.TRAINING:
        yield f"rank {requirement.lora.rank}"
    yield str(training.optimizer)
    if training.framework is not None:
        yield str(training.framework)


def columns_of(requirement: Requirement, names: Sequence[str]) -> list[_Column]:
    """Return headings and cells of applicable columns; money with its range."""
    unit = requirement.unit
    trains = requirement.task.trains
    load = requirement.load
    is_of_tokens = requirement.answers_in_tokens
    requests, first = ("in flight", "TTFT") if is_of_tokens else ("batch", "batch ms")
    first, scale = ("batch s", 1e-3) if unit is WorkUnit.VIDEOS else (first, 1.0)
    has_run = trains and requirement.training.tokens is not None
    has_targets = not trains and load.has_targets
    is_written = not trains and is_of_tokens
    columns: dict[str, tuple[bool, str, Callable[[PlanCandidate], Cell]]] = {
        "rank": (
            True,
            "#",
            lambda candidate: NOTHING if candidate.rank is None else str(candidate.rank),
        ),
        "name": (
            True,
            "GPUs",
            lambda candidate: f"{candidate.with_spares}{'*' * (candidate.format is not None)}",
        ),
        "layout": (
            True,
            "TxPxDxE",
            lambda candidate: "x".join(map(str, astuple(candidate.layout))),
        ),
        "spread": (True, "layout", lambda candidate: str(candidate.layout)),
        "memory": (True, "GiB", _gibibytes),
        "drawn": (True, "memory", _memory_bar),
        "requests": (not trains, requests, lambda candidate: number(candidate.rate.concurrency)),
        "rate": (True, f"{unit}/s", lambda candidate: middle(candidate.rate.units_per_second)),
        "within": (
            True,
            "90% range",
            lambda candidate: range_text(candidate.rate.units_per_second),
        ),
        "first": (
            not trains,
            first,
            lambda candidate: middle((ms := candidate.rate.ttft_ms) and ms.scaled(scale)),
        ),
        "between": (is_written, "TPOT", lambda candidate: middle(candidate.rate.tpot_ms)),
        "in time": (
            has_targets,
            "in time",
            lambda candidate: percent(candidate.rate.targets_probability),
        ),
        "mfu": (trains, "MFU", lambda candidate: percent(candidate.rate.mfu_ratio)),
        "hours": (has_run, "hours", lambda candidate: middle(candidate.rate.training_hours)),
        "rented": (bool(requirement.provider), "rented as", _rented_as),
        "run": (has_run, "$/run", _run_dollars),
        "hour": (
            True,
            "$/h",
            lambda candidate: priced(candidate.dollars_per_hour, candidate.hourly_range),
        ),
        "work": (not has_run, "$/M", _work_dollars),
    }
    return [columns[name][1:] for name in names if columns[name][0]]


def _gibibytes(candidate: PlanCandidate) -> str:
    return f"{'?' * candidate.is_memory_tight}{candidate.memory.total_bytes / GIB:.0f}"


def _memory_bar(candidate: PlanCandidate) -> Bar:
    """Draw what each GPU can hold, and the interval of what it needs."""
    usable = candidate.usable_bytes
    total = candidate.memory.total
    parts = (BarPart(name, color, size / usable) for color, name, size in _memory_parts(candidate))
    used = f"{_gibibytes(candidate):>3} of {usable / GIB:.0f} GiB"
    ends = total.low / usable, total.high / usable
    return Bar(f"memory of each {candidate.gpu}", tuple(parts), used, ends=ends)


def _memory_parts(candidate: PlanCandidate) -> Iterator[tuple[str, str, float]]:
    """Yield class in the style sheet, name and bytes of what memory is needed for."""
    for part, name in MEMORY_PARTS.items():
        if size := getattr(candidate.memory, f"{part}_bytes"):
            yield f"m-{part}", name, size


def memory_key(candidate: PlanCandidate) -> Key:
    """Return the colors of the bars of memory."""
    return Key(
        tuple((color, name) for color, name, _ in _memory_parts(candidate)),
        is_of_bars=True,
        note="Bars: what each GPU can hold; thin: 90% interval of what it needs.",
    )


def _rented_as(candidate: PlanCandidate) -> str:
    rental = candidate.rental
    return NOTHING if rental is None else f"{rental} ({rental.instance.provider})"


def _work_dollars(candidate: PlanCandidate) -> str:
    return priced(candidate.dollars_per_million, candidate.million_range)


def _run_dollars(candidate: PlanCandidate) -> str:
    run = None if candidate.rented is None else candidate.rented.per_run
    if run is None or not run.low < run.high:
        return dollars(None if run is None else run.value)
    return f"{dollars(run.value)} ({range_text(run)})"


def detail_blocks(
    plan: GpuPlan, notes: Sequence[str] = (), *, shows_all: bool = False
) -> Iterator[Block]:
    """Yield the whole plan."""
    yield from title_blocks(plan.requirement, notes)
    yield from nothing_blocks(plan)
    yield from _fitting(plan, shows_all=shows_all)
    yield from further_blocks(plan, shows_all=shows_all)


def further_blocks(plan: GpuPlan, *, shows_all: bool = False) -> Iterator[Block]:
    """Yield what a summary leaves out."""
    best = plan.best
    if best is not None:
        yield from _details(plan.requirement, best)
    yield rejection_section(plan.candidates, shows_all=shows_all)
    yield alternative_section(plan)
    yield curve_section(plan)
    yield growth_section(plan)
    if best is not None:
        yield from _launch(plan.requirement, best)
        yield from _validation(plan.requirement, best)


def nothing_blocks(plan: GpuPlan) -> Iterator[Block]:
    """Yield why nothing fits, and what would."""
    why = plan.why_nothing_fits
    if not why:
        return
    yield Sentence(f"{why[0].upper()}{why[1:]}.", Tone.WARNING)
    least = plan.least
    if least is None:
        yield f"None would within {plan.gpu_maximum:,} GPUs (sizing.plan.gpu_maximum)."
        return
    spread = "" if least.count == 1 else f" ({least.layout})"
    price = least.dollars_per_hour
    cost = "" if price is None else f", ${priced(price, least.hourly_range)} an hour"
    yield f"What would: {least.with_spares}{spread}{cost}."


def _fitting(plan: GpuPlan, *, shows_all: bool) -> Iterator[Block]:
    fitting = [candidate for candidate in plan.candidates if candidate.fits]
    shown = fitting if shows_all else fitting[:_SHOWN]
    rates = columns_of(plan.requirement, _RATES)
    rest = len(fitting) - len(shown)
    serves = not plan.requirement.task.trains
    served = _SERVED if plan.requirement.answers_in_tokens else _BATCHED
    parts = (
        f"And {counted(rest, 'more that fits', 'more that fit')} (--all)." if rest else "",
        _LEGEND,
        STARRED if any(candidate.format is not None for candidate in shown) else "",
        served if serves else "",
        _IN_TIME * ("in time" in dict(rates)),
    )
    yield candidate_table(rates, shown, _LEFT, " ".join(filter(None, parts)))
    columns = columns_of(plan.requirement, _COSTS)
    unit = f"{plan.requirement.unit_text}{' asked for' if serves else ''}"
    work = f"$/M: of a million {unit}. " if "$/M" in dict(columns) else ""
    yield candidate_table(columns, shown, _LEFT_COSTS, f"{work}{_PRICES}")
    yield candidate_table(columns_of(plan.requirement, _MEMORY), shown, _LEFT, "")
    yield from map(memory_key, shown[:1])


def candidate_table(
    columns: Sequence[_Column],
    candidates: Sequence[PlanCandidate],
    left: Collection[str],
    note: str,
    expendable: tuple[str, ...] = (),
) -> Table:
    """Return a row per candidate, the best first."""
    kinds = (
        Column(name, CellKind.TEXT if name in left else CellKind.NUMBER, is_below=name == _BELOW)
        for name, _ in columns
    )
    rows = tuple(tuple(cell(candidate) for _, cell in columns) for candidate in candidates)
    return Table(tuple(kinds), rows, note=note, expendable=expendable, is_ranked=True)


def _details(requirement: Requirement, best: PlanCandidate) -> Iterator[Block]:
    shares = (
        (f"{name}, {value / GIB:.1f} GiB", value / best.usable_bytes)
        for _, name, value in _memory_parts(best)
        if value > _VISIBLE
    )
    whole = best.memory.total.scaled(1.0 / GIB)
    usable = best.usable_bytes / GIB
    spread = f"{whole.value:.1f} GiB ({whole.low:.1f} to {whole.high:.1f}) of {usable:.1f}"
    free = f"{percent_text(best.memory_headroom_ratio)} free"
    doubt = f", fits with {percent(best.memory_probability)}" * best.is_memory_tight
    yield f"memory of each {best.gpu}: {spread}, {free}{doubt}"
    yield bars(shares)
    shown = shown_gibibytes(requirement, best)
    if shown is not None:
        why = "the engine takes it ahead"
        if requirement.task.trains:
            peak = f"{best.memory.allocated.value / GIB:.1f} GiB at its peak"
            why = f"its allocator has {peak}, and keeps blocks while there is room"
        yield f"nvidia-smi shows about {shown:.1f} GiB: {why}"
    yield costs_section(best, requirement.unit_text)


def alternative_section(plan: GpuPlan) -> Section:
    """Return alternatives, or remedies if nothing fits, with memory and time."""
    title = "what else could be done:" if plan.best else "what would fit on what is asked for:"
    unit = plan.requirement.unit_text
    return section(
        title, Items(tuple(_changed(alternative, unit) for alternative in plan.alternatives))
    )


def _changed(alternative: Alternative, unit: str) -> str:
    caution = f"; {alternative.caution}" if alternative.caution else ""
    if alternative.prompts is not None:
        # Of two parts the change says all.
        return f"{alternative.change}{caution}"
    candidate = alternative.candidate
    throughput = candidate.rate.units_per_second
    cost = candidate.dollars_per_million
    speed = "" if throughput is None else f", {number(throughput.value)} {unit}/s"
    hours = candidate.rate.training_hours
    time = "" if hours is None else f", {number(hours.value)} h"
    if candidate.format is not None:
        speed = f" ({candidate.format.name}){speed}"
    memory = f", {candidate.memory.total_bytes / GIB:.0f} GiB of each"
    memory += ", may not fit" * candidate.is_memory_tight
    price = "" if cost is None else f", ${priced(cost, candidate.million_range)} a million"
    taken = candidate.with_spares
    return f"{alternative.change}: {taken}{speed}{time}{memory}{price}{caution}"


def _launch(requirement: Requirement, best: PlanCandidate) -> Iterator[Block]:
    launch = launch_of(requirement, best)
    if launch is None:
        return
    copies = f", {launch.servers} servers of {launch.server_gpus}" if launch.servers > 1 else ""
    notes = Items(tuple(f"note: {note}" for note in launch.notes))
    yield section(f"to run it{copies} (--save FOLDER writes it):", launch.text, notes)


def _validation(requirement: Requirement, best: PlanCandidate) -> Iterator[Block]:
    steps = validation_steps(requirement, best)
    texts = []
    for step in steps:
        at = "" if step.concurrency is None else f", {step.concurrency:,.0f}"
        texts.append(f"{step.name}{at}, {step.minutes:g} min: {'; '.join(step.expect)}")
    yield section(f"before it is trusted, {steps[-1].run}:", Items(tuple(texts)))
    yield f"Measure {', '.join(steps[0].measure)}."
    yield "'rightsizer record', then the same plan with --measured RECORDING compares."


def check_section(measured: PlanCheck) -> Section:
    """Return a row per figure."""
    rows = map(_row, measured.comparisons)
    return section(f"measured on {measured.candidate}:", table(_HEADER, rows))


def _row(comparison: FigureComparison) -> Sequence[str]:
    scale, unit = (GIB, "GiB") if comparison.unit == "bytes" else (1.0, comparison.unit)
    predicted = comparison.predicted
    verdict = "as predicted" if comparison.is_as_predicted else ""
    if comparison.is_as_predicted is False:
        verdict = f"off by x{comparison.ratio:.2f}"
    return (
        comparison.what.replace("_bytes", "").replace("_", " "),
        f"{comparison.measured / scale:.4g} {unit}",
        NOTHING if predicted is None else f"{predicted.value / scale:.4g} {unit}",
        NOTHING if predicted is None else interval_text(predicted.scaled(1.0 / scale)),
        "; ".join(filter(None, (verdict, comparison.remark))),
    )
