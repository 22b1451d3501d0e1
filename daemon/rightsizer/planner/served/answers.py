"""Answers for measured loads: prediction, what is needed, findings, ranked by money."""

from collections.abc import Iterable

from rightsizer.model.errors import RightsizerError
from rightsizer.model.served_load import ServedLoad
from rightsizer.planner.served.advisor import ServedAdvisor
from rightsizer.planner.served.engine import NOTHING_STATED, Statement, served_engine
from rightsizer.planner.served.prediction import ServedPrediction, predict
from rightsizer.planner.served.text import ServedAnswer


def served_answers(
    loads: Iterable[ServedLoad], advisor: ServedAdvisor, statement: Statement = NOTHING_STATED
) -> tuple[ServedAnswer, ...]:
    """Return an answer for each load: what is short first, then by what it saves."""
    predictions: list[ServedPrediction] = []
    failed: list[ServedAnswer] = []
    for load in loads:
        try:
            engine = served_engine(load, advisor.planner, statement)
            predictions.append(predict(engine, advisor.planner))
        except RightsizerError as error:
            failed.append(
                ServedAnswer(load.workload or load.model or load.engine, error=str(error))
            )
    findings = advisor.findings(predictions)
    answers = [
        ServedAnswer(
            prediction.engine.name,
            prediction,
            tuple(each for each in findings if each.engine is prediction.engine),
        )
        for prediction in predictions
    ]
    ranks = {id(finding): place for place, finding in enumerate(findings)}
    unranked = len(ranks)

    def place(answer: ServedAnswer) -> int:
        return min((ranks[id(finding)] for finding in answer.findings), default=unranked)

    return (*sorted(answers, key=place), *failed)
