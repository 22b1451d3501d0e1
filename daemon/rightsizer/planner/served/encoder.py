"""JSON of what is served: engine, prediction beside measurement, findings."""

from typing import Any

from rightsizer.io.codec import plain_fields
from rightsizer.planner.plan_encoder import encode_candidate, encode_comparison, encode_interval
from rightsizer.planner.served.answer_blocks import (
    ServedAnswer,
    needs_of,
    option_text,
    saves_text,
    serves_text,
)
from rightsizer.planner.served.finding import ServedFinding, ServedOption
from rightsizer.planner.served.prediction import ServedPrediction


def encode_served(answer: ServedAnswer) -> dict[str, Any]:
    """Encode one answer."""
    prediction = answer.prediction
    load = None if answer.load is None else plain_fields(answer.load)
    if prediction is None:
        return {"name": answer.name, "load": load, "error": answer.error}
    needs = needs_of(answer)
    return {
        "name": answer.name,
        "load": load,
        **_encode_prediction(prediction),
        "serves": serves_text(prediction),
        "needs": str(needs),
        "needs_short": needs.short,
        "saves": saves_text(answer),
        "savings_dollars_per_hour": None if answer.savings is None else answer.dollars_per_hour,
        "findings": [_encode_finding(finding) for finding in answer.findings],
    }


def _encode_prediction(prediction: ServedPrediction) -> dict[str, Any]:
    engine = prediction.engine
    return {
        "model": engine.model,
        "is_model_known": engine.is_model_known,
        "layout": plain_fields(engine.layout),
        "gpu": engine.board.key,
        "weights": str(engine.requirement.precision.weights),
        "service_level": engine.level or None,
        "is_service_level_stated": engine.is_level_stated,
        "requests_per_second_peak": engine.peak_rate,
        "assumptions": [plain_fields(assumption) for assumption in engine.assumptions],
        "predicted": encode_candidate(prediction.candidate),
        "comparisons": [encode_comparison(figure) for figure in prediction.comparisons],
        **encode_interval("largest_requests_per_second", prediction.largest_rate),
    }


def _encode_finding(finding: ServedFinding) -> dict[str, Any]:
    return {
        "kind": str(finding.kind),
        "summary": finding.summary,
        "abstained": finding.abstained or None,
        "causes": list(finding.causes),
        "evidence": list(finding.evidence),
        "options": [_encode_option(option) for option in finding.options],
    }


def _encode_option(option: ServedOption) -> dict[str, Any]:
    savings = option.savings
    launch = option.launch
    return {
        "change": option.change,
        "text": option_text(option),
        "question": dict(option.question),
        "candidate": encode_candidate(option.candidate),
        "savings_dollars_per_hour": savings.dollars_per_hour_typical,
        "savings_dollars_per_hour_low": savings.dollars_per_hour_low,
        "savings_dollars_per_hour_high": savings.dollars_per_hour_high,
        "probability": option.probability,
        "risk": str(option.risk),
        "caution": option.caution or None,
        "launch": None if launch is None else launch.text,
        "canary": option.canary or None,
    }
