"""Blocks of what is served: what it would need, what it saves, and how it was found."""

from collections.abc import Iterator, Sequence
from operator import mul
from typing import Final, NamedTuple

from msgspec import Struct

from rightsizer.io.terminal import counted
from rightsizer.model.finding import Savings
from rightsizer.model.served_load import ServedLoad
from rightsizer.model.units import GIB, format_duration
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.display import NOTHING, dollars, interval_text, number, percent
from rightsizer.planner.plan_check import FigureComparison
from rightsizer.planner.served.engine_settings import reached_limit
from rightsizer.planner.served.finding import (
    ServedFinding,
    ServedFindingKind,
    ServedOption,
    candidate_text,
    interval_of,
)
from rightsizer.planner.served.prediction import ServedPrediction, shares_of
from rightsizer.report.blocks import Block, CellKind, Code, Heading, Items, section, table
from rightsizer.report.labels import risk_word
from rightsizer.sizing.estimate import EstimateInterval

_HEADINGS: Final[Sequence[Heading]] = (
    "figure",
    ("measured", CellKind.NUMBER),
    ("predicted", CellKind.NUMBER),
    "90% range",
    ("ratio", CellKind.NUMBER),
    "remark",
)


class ServedAnswer(Struct, frozen=True):
    """An engine and the findings about it; or why there are none."""

    name: str
    load: ServedLoad | None = None
    """`None` if it cannot be read."""
    prediction: ServedPrediction | None = None
    findings: tuple[ServedFinding, ...] = ()
    error: str = ""
    sharers: tuple[str, ...] = ()
    """What else is served on its GPUs."""

    @property
    def advised(self) -> ServedOption | None:
        """First option of the first finding that advises something."""
        advised = (finding for finding in self.findings if not finding.abstained)
        return next((finding.options[0] for finding in advised if finding.options), None)

    @property
    def savings(self) -> Savings | None:
        """Of what is advised first."""
        return None if self.advised is None else self.advised.savings

    @property
    def dollars_per_hour(self) -> float:
        """Expected savings; 0 without any."""
        return 0.0 if self.savings is None else self.savings.dollars_per_hour


def served_blocks(answers: Sequence[ServedAnswer], notes: Sequence[str] = ()) -> Iterator[Block]:
    """Yield all answers: of several, what they come to first."""
    if len(answers) == 1:
        yield from _answer_blocks(answers[0])
    else:
        yield from _together(answers)
        for answer in answers:
            title, *blocks = _answer_blocks(answer)
            yield section(str(title), *blocks) if blocks else title
    yield from (f"note: {note}" for note in notes)


def _together(answers: Sequence[ServedAnswer]) -> Iterator[str]:
    """Yield what serves, what it would need and what it saves, of all engines."""
    predictions = [answer.prediction for answer in answers if answer.prediction is not None]
    shares = shares_of(predictions)
    candidates = [prediction.candidate for prediction in predictions]
    gpus = round(sum(map(mul, shares, (candidate.paid_count for candidate in candidates))))
    paid = sum(map(mul, shares, (candidate.dollars_per_hour or 0.0 for candidate in candidates)))
    models = len({prediction.engine.model for prediction in predictions})
    bills = [prediction.candidate.bill for prediction in predictions]
    basis = " and ".join(sorted({bill.price_basis for bill in bills if bill is not None}))
    yield (
        f"{counted(len(answers), 'engine')} of {counted(models, 'model')} on"
        f" {counted(gpus, 'GPU')}, ${dollars(paid)} an hour at {basis or 'list prices'}"
    )
    acted = [answer for answer in answers if answer.savings is not None]
    saved = sum(answer.dollars_per_hour for answer in acted if answer.dollars_per_hour > 0.0)
    more = -sum(answer.dollars_per_hour for answer in acted if answer.dollars_per_hour < 0.0)
    yield f"would need: ${dollars(max(0.0, paid - saved + more))} an hour as advised below"
    yield (
        f"saves: ${dollars(saved)} an hour on"
        f" {counted(sum(answer.dollars_per_hour > 0.0 for answer in acted), 'engine')}"
        + (f"; what is short costs ${dollars(more)} more" if more else "")
    )


def _answer_blocks(answer: ServedAnswer) -> Iterator[Block]:
    prediction = answer.prediction
    if prediction is None:
        yield f"error: {answer.name}: {answer.error.removeprefix(f'{answer.name}: ')}"
        return
    yield serves_text(prediction)
    yield f"needs: {needs_of(answer)}"
    yield saves_text(answer)
    yield table(_HEADINGS, map(_row, prediction.comparisons))
    # What is measured says more of today's level than any prediction does.
    is_told = prediction.engine.is_level_stated or prediction.holds_peak
    if prediction.largest_rate is not None and is_told:
        yield _largest(prediction, prediction.largest_rate)
    yield _adjustment_text(prediction.candidate)
    for finding in answer.findings:
        title = f"{finding.kind.replace('_', ' ')}: {finding.summary}"
        yield section(title, *_finding_blocks(finding))
    assumptions = prediction.engine.assumptions
    yield section("assumed:", Items(tuple(map(str, assumptions)))) if assumptions else ""


def _largest(prediction: ServedPrediction, largest: EstimateInterval) -> str:
    level = f" within {prediction.engine.level}" if prediction.engine.level else ""
    if not largest.value:
        return f"largest rate: none, not even one request is{level} as surely as asked"
    return f"largest rate: {number(largest.value)} requests/s ({interval_text(largest)}){level}"


def serves_text(prediction: ServedPrediction) -> str:
    """Return what an engine serves, on what, how much, and what that costs."""
    engine = prediction.engine
    load = engine.load
    alias = f" as {load.model}" if load.model and load.model != engine.model else ""
    tokens = ""
    if load.prompt_tokens and load.output_tokens:
        prompt = _tokens(load.prompt_tokens, load.prompt_tokens_p95)
        answer = _tokens(load.output_tokens, load.output_tokens_p95)
        tokens = f" of {prompt} tokens in and {answer} out"
    rate = f"{number(engine.rate)} requests/s{tokens}"
    price = prediction.candidate.dollars_per_hour
    bill = prediction.candidate.bill
    basis = "" if bill is None else f" at {bill.price_basis}"
    cost = "" if price is None else f", ${dollars(price)} an hour{basis}"
    return (
        f"{engine.name} serves {engine.model}{alias} by {load.engine} on"
        f" {candidate_text(prediction.candidate)}: {rate} over"
        f" {format_duration(load.window_seconds)}, at most {number(engine.peak_rate)}{cost}"
    )


def _tokens(mean: float, longest: float | None) -> str:
    return number(mean) if longest is None else f"{number(mean)} (p95 {number(longest)})"


class NeedText(NamedTuple):
    """What an engine would need for its busiest load, in a few words and in all."""

    short: str
    rest: str = ""
    """How surely that is enough, or why nothing is known."""

    def __str__(self) -> str:
        """`1 x L40S: 97% to keep TTFT p95 <= 400ms at its busiest load`."""
        return f"{self.short}{self.rest}"


_UNKNOWN: Final = "unknown"
_NOTHING_ELSE: Final = "what it has"


def needs_of(answer: ServedAnswer) -> NeedText:
    """Return what an engine of which there is a prediction would need."""
    prediction = answer.prediction
    if prediction is None:
        return NeedText(_UNKNOWN, f": {answer.error}")
    engine = prediction.engine
    if engine.peak_rate <= 0.0:
        return NeedText(_UNKNOWN, ", no request was finished")
    if answer.sharers:
        return NeedText(_UNKNOWN, f", it shares its GPUs with {', '.join(answer.sharers)}")
    options = [finding.options[0] for finding in answer.findings if finding.options]
    if options:
        level = engine.level or "the rate"
        sure = percent(options[0].probability)
        return NeedText(options[0].change, f": {sure} to keep {level} at its busiest load")
    if any(finding.kind is ServedFindingKind.TOO_SMALL for finding in answer.findings):
        if prediction.holds_peak and reached_limit(prediction):
            return NeedText(f"{_NOTHING_ELSE}, with a higher limit of requests at a time")
        return NeedText("more than it has", "; nothing considered is sure to hold its busiest load")
    return _without_findings(prediction)


def _without_findings(prediction: ServedPrediction) -> NeedText:
    """Return what an engine needs of which nothing was found."""
    engine = prediction.engine
    largest = prediction.largest_rate
    if largest is None:
        return NeedText(_UNKNOWN, ", the largest rate of what it has is not predicted")
    if not prediction.holds_peak:
        held = number(largest.value)
        measured = number(engine.peak_rate)
        return NeedText(_UNKNOWN, f": predicted to hold {held} requests/s, measured {measured}")
    if engine.level and not engine.is_level_stated:
        remedy = "state another (--ttft and --tpot, or in a policy)"
        return NeedText(_NOTHING_ELSE, f", to keep today's level; {remedy}")
    return NeedText(_NOTHING_ELSE)


def saves_text(answer: ServedAnswer) -> str:
    """Return what the first change that is advised saves; or that, and why, none is."""
    advised = answer.advised
    if advised is not None:
        caution = f"; {advised.caution}" if advised.caution else ""
        return f"{_money(advised.savings)}{caution}"
    why = next((finding.abstained for finding in answer.findings if finding.abstained), "")
    return f"saves nothing: nothing is advised{f', {why}' if why else ''}"


def _money(savings: Savings) -> str:
    interval = interval_of(savings)
    if interval is None:
        verb = "saves" if savings.gpus >= 0.0 else "takes"
        return f"{verb} {counted(round(abs(savings.gpus)), 'GPU')}; {savings.reason}"
    if interval.value < 0.0:
        ends = f"{_signed(-interval.high)} to {_signed(-interval.low)}"
        return f"costs ${dollars(-interval.value)} an hour more ({ends})"
    ends = f"{_signed(interval.low)} to {_signed(interval.high)}"
    return f"saves ${dollars(interval.value)} an hour ({ends})"


def _signed(value: float) -> str:
    return f"-{dollars(-value)}" if value < 0.0 else dollars(value)


def _row(figure: FigureComparison) -> Sequence[str]:
    scale = GIB if figure.unit == "bytes" else 1.0
    unit = "GiB" if figure.unit == "bytes" else figure.unit
    predicted = None if figure.predicted is None else figure.predicted.scaled(1.0 / scale)
    verdict = "" if figure.is_as_predicted is not False else "not as predicted"
    return (
        f"{figure.what.removesuffix('_ms').removesuffix('_bytes')} ({unit})",
        number(figure.measured / scale),
        NOTHING if predicted is None else number(predicted.value),
        NOTHING if predicted is None else interval_text(predicted),
        NOTHING if figure.ratio is None else f"x{figure.ratio:.2f}",
        "; ".join(filter(None, (verdict, figure.remark))),
    )


def _finding_blocks(finding: ServedFinding) -> Iterator[Block]:
    if finding.abstained:
        yield f"not advised: {finding.abstained}"
    yield Items(tuple(finding.causes), is_numbered=True)
    yield from finding.evidence
    yield Items(tuple(map(option_text, finding.options)))
    if not finding.options or finding.abstained:
        return
    first = finding.options[0]
    if first.launch is not None:
        yield "launch:"
        yield Code(first.launch.text)
    yield f"to verify: {first.canary}"


def option_text(option: ServedOption) -> str:
    """Return a change with its money, certainty, risk, caution, and what corrected it."""
    parts = (
        _money(option.savings),
        f"{percent(option.probability)} sure, risk {risk_word(option.risk)}",
        option.caution,
        _adjustment_text(option.candidate),
    )
    return f"{option.change}: {'; '.join(filter(None, parts))}"


def _adjustment_text(candidate: PlanCandidate) -> str:
    """Return by what its prediction was corrected; empty if by nothing."""
    adjustment = candidate.adjustment
    return str(adjustment) if adjustment is not None and adjustment.is_felt else ""
