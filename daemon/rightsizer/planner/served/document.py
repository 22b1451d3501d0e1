"""JSON documents of what is served: engine, prediction beside measurement, findings."""

from msgspec import Struct

from rightsizer.model.finding import Risk
from rightsizer.model.served_load import ServedLoad
from rightsizer.planner.plan_document import (
    CandidateDocument,
    ComparisonDocument,
    FigureDocument,
    candidate_document,
    comparison_document,
    figure_document,
)
from rightsizer.planner.served.answer_blocks import (
    ServedAnswer,
    needs_of,
    option_text,
    saves_text,
    serves_text,
)
from rightsizer.planner.served.engine import Question, ServedAssumption
from rightsizer.planner.served.finding import ServedFinding, ServedFindingKind, ServedOption
from rightsizer.sizing.requirement import Parallelism


class AdvisedOptionDocument(Struct, frozen=True):
    """One way to run an engine's load."""

    change: str
    text: str
    question: Question
    candidate: CandidateDocument
    savings_dollars_per_hour: FigureDocument
    probability: float
    risk: Risk
    caution: str | None
    launch: str | None
    canary: str | None


class EngineFindingDocument(Struct, frozen=True):
    """Finding about an engine."""

    kind: ServedFindingKind
    summary: str
    abstained: str | None
    causes: tuple[str, ...]
    evidence: tuple[str, ...]
    options: tuple[AdvisedOptionDocument, ...]


class FailedEngineDocument(Struct, frozen=True):
    """Engine without a prediction."""

    name: str
    load: ServedLoad | None
    error: str


class EngineDocument(Struct, frozen=True):
    """Engine, prediction beside measurement, and findings."""

    name: str
    load: ServedLoad | None
    model: str
    is_model_known: bool
    layout: Parallelism
    gpu: str
    weights: str
    service_level: str | None
    is_service_level_stated: bool
    requests_per_second_peak: float
    assumptions: tuple[ServedAssumption, ...]
    predicted: CandidateDocument
    comparisons: tuple[ComparisonDocument, ...]
    largest_requests_per_second: FigureDocument
    serves: str
    needs: str
    needs_short: str
    saves: str
    savings_dollars_per_hour: float | None
    findings: tuple[EngineFindingDocument, ...]


def served_document(answer: ServedAnswer) -> EngineDocument | FailedEngineDocument:
    """Return one answer."""
    prediction = answer.prediction
    if prediction is None:
        return FailedEngineDocument(answer.name, answer.load, answer.error)
    engine = prediction.engine
    needs = needs_of(answer)
    return EngineDocument(
        name=answer.name,
        load=answer.load,
        model=engine.model,
        is_model_known=engine.is_model_known,
        layout=engine.layout,
        gpu=engine.board.key,
        weights=engine.requirement.precision.weights,
        service_level=engine.level or None,
        is_service_level_stated=engine.is_level_stated,
        requests_per_second_peak=engine.peak_rate,
        assumptions=tuple(engine.assumptions),
        predicted=candidate_document(prediction.candidate),
        comparisons=tuple(map(comparison_document, prediction.comparisons)),
        largest_requests_per_second=figure_document(prediction.largest_rate),
        serves=serves_text(prediction),
        needs=str(needs),
        needs_short=needs.short,
        saves=saves_text(answer),
        savings_dollars_per_hour=None if answer.savings is None else answer.dollars_per_hour,
        findings=tuple(map(_finding, answer.findings)),
    )


def _finding(finding: ServedFinding) -> EngineFindingDocument:
    return EngineFindingDocument(
        kind=finding.kind,
        summary=finding.summary,
        abstained=finding.abstained or None,
        causes=finding.causes,
        evidence=finding.evidence,
        options=tuple(map(_option, finding.options)),
    )


def _option(option: ServedOption) -> AdvisedOptionDocument:
    savings = option.savings
    return AdvisedOptionDocument(
        change=option.change,
        text=option_text(option),
        question=option.question,
        candidate=candidate_document(option.candidate),
        savings_dollars_per_hour=FigureDocument(
            value=savings.dollars_per_hour_typical,
            low=savings.dollars_per_hour_low,
            high=savings.dollars_per_hour_high,
        ),
        probability=option.probability,
        risk=option.risk,
        caution=option.caution or None,
        launch=None if option.launch is None else option.launch.text,
        canary=option.canary or None,
    )
