"""Answers for measured loads: prediction, what is needed, findings, ranked by money."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.errors import RightsizerError
from rightsizer.model.served_load import ServedLoad
from rightsizer.planner.learned import residuals_of
from rightsizer.planner.planner import Planner
from rightsizer.planner.served.advisor import ServedAdvisor
from rightsizer.planner.served.answer_blocks import ServedAnswer
from rightsizer.planner.served.engine import NOTHING_STATED, Statement, served_engine
from rightsizer.planner.served.finding import ServedFinding
from rightsizer.planner.served.prediction import (
    ServedPrediction,
    as_it_runs,
    predict,
    sharers_of,
    with_kept_level,
)
from rightsizer.planner.served.source import AnyLoad, UnreadLoad
from rightsizer.sizing.site import SiteResidual, SiteResiduals

_TAUGHT_REQUESTS: Final = 30.0
"""Source: assumed: their mean is known to a fifth of what they scatter by."""


class PredictedLoads(Struct, frozen=True):
    """Engines with their predictions, those that have none, and what all of them teach."""

    predictions: tuple[ServedPrediction, ...]
    failed: tuple[ServedAnswer, ...]
    residuals: tuple[SiteResidual, ...]


def predicted_loads(
    loads: Iterable[AnyLoad], planner: Planner, statement: Statement = NOTHING_STATED
) -> PredictedLoads:
    """Predict each load in the layout that runs."""
    predictions: list[ServedPrediction] = []
    failed: list[ServedAnswer] = []
    for load in loads:
        if isinstance(load, UnreadLoad):
            failed.append(ServedAnswer(load.name, error=load.error))
            continue
        try:
            engine = served_engine(load, planner, statement)
            predictions.append(predict(engine, planner))
        except RightsizerError as error:
            failed.append(_failed(load, "; ".join(str(error).splitlines())))
        except (ArithmeticError, ValueError) as error:
            fault = f"its figures contradict each other ({error}); check those of its load"
            failed.append(_failed(load, fault))
    residuals = tuple(_residuals(predictions, planner))
    return PredictedLoads(tuple(predictions), tuple(failed), residuals)


def _failed(load: ServedLoad, error: str) -> ServedAnswer:
    name = load.workload or load.model or load.engine
    return ServedAnswer(name, load, error=error if error.startswith(name) else f"{name}: {error}")


def _residuals(predictions: Sequence[ServedPrediction], planner: Planner) -> Iterator[SiteResidual]:
    """Yield what engines of known models teach, beside predictions without any corrections.

    An engine that is not as predicted teaches nothing of others while its layout is assumed, nor
    does one that shares its GPUs, or has answered too little for means.
    """
    plain = replace(planner, site=None)
    for prediction, sharers in zip(predictions, sharers_of(predictions), strict=True):
        engine = prediction.engine
        requests = engine.rate * engine.load.window_seconds
        if sharers or requests < _TAUGHT_REQUESTS:
            continue
        if not engine.is_model_known or (prediction.off and engine.assumptions):
            continue
        uncorrected = predict(engine, plain) if planner.site else prediction
        requirement = as_it_runs(engine)
        # Memory that is off tells of other processes, or of another format.
        figures = [
            figure
            for figure in uncorrected.comparisons
            if figure.unit == "ms" or figure.is_as_predicted
        ]
        yield from residuals_of(requirement, uncorrected.candidate, figures)


def served_answers(
    loads: PredictedLoads, planner: Planner, boards: Sequence[str] = ()
) -> tuple[ServedAnswer, ...]:
    """Return an answer for each load: what is short first, then by what it saves.

    Other GPUs and layouts are predicted with what these engines teach too.
    """
    site = (planner.site or SiteResiduals()).with_(loads.residuals)
    taught = replace(planner, site=site)
    predictions = tuple(with_kept_level(prediction, taught) for prediction in loads.predictions)
    findings = ServedAdvisor(taught, tuple(boards)).findings(predictions)
    ranks = {id(finding): place for place, finding in enumerate(findings)}
    unranked = len(ranks)

    def findings_of(prediction: ServedPrediction) -> tuple[ServedFinding, ...]:
        return tuple(finding for finding in findings if finding.engine is prediction.engine)

    def place(answer: ServedAnswer) -> int:
        return min((ranks[id(finding)] for finding in answer.findings), default=unranked)

    answers = [
        ServedAnswer(
            prediction.engine.name,
            prediction.engine.load,
            prediction,
            findings_of(prediction),
            sharers=sharers,
        )
        for prediction, sharers in zip(predictions, sharers_of(predictions), strict=True)
    ]
    return (*sorted(answers, key=place), *loads.failed)
