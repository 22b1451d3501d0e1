"""Explanation of a verdict: evidence, thresholds, queries, lifecycle, as plain values for JSON."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from rightsizer.model.advice import Advice
from rightsizer.model.finding import Finding, Option
from rightsizer.model.frozen import asdict, fields, is_dataclass
from rightsizer.model.settings import bounds_of
from rightsizer.model.units import Nanoseconds, Unit, seconds
from rightsizer.report.explanation_query import pool_queries_of, queries_of
from rightsizer.report.json_encoder import (
    Form,
    advice_form,
    attributes,
    finding_form,
    lifecycle_form,
)

_WRITTEN_WITH_UNIT: Final = (Unit.SECONDS, Unit.BYTES)


_NODE_RULES: Final = "recommender.rules"
_FLEET_RULES: Final = "fleet.rules."


def explain_advice(advice: Advice, rules: object) -> Form:
    """The reasoning behind a recommendation, and what has become of it.

    `rules` are their settings by name, or several such trees by their keys in a configuration.
    """
    form = _reasoning(advice.finding, advice.updated, rules)
    if not advice.is_open:
        # It is not known when its last complaint was made, so at which time to ask.
        form["queries"] = []
    return {"advice": advice_form(advice), **form, "lifecycle": lifecycle_form(advice)}


def explain_finding(finding: Finding, judged: Nanoseconds, rules: object) -> Form:
    """The reasoning behind a verdict that is no advice, at the time that it was given."""
    form = _reasoning(finding, judged, rules)
    return {"advice": finding_form(finding), **form, "lifecycle": None}


def _thresholds(settings: object, prefix: str) -> Iterator[Form]:
    """All settings of a class, those of its groups included, under their whole names."""
    if not is_dataclass(settings):
        return
    bounds_by_name = bounds_of(type(settings))
    for declared in fields(settings):
        bounds, value = bounds_by_name.get(declared.name), getattr(settings, declared.name)
        if bounds is None:
            yield from _thresholds(value, f"{prefix}.{declared.name}")
            continue
        key = declared.name
        if bounds.unit in _WRITTEN_WITH_UNIT:
            key = key.removesuffix(f"_{bounds.unit}")
        yield {
            "setting": f"{prefix}.{key.removesuffix('_')}",
            "value": value,
            **attributes(bounds, "unit help source"),
        }


def _reasoning(finding: Finding, judged: Nanoseconds, rules: object) -> Form:
    trees = rules if isinstance(rules, Mapping) else {_NODE_RULES: rules}
    found = ((key, getattr(tree, finding.rule, None)) for key, tree in trees.items())
    tree, settings = next((each for each in found if each[1] is not None), ("", None))
    prefix = f"{tree}.{finding.rule}" if tree else finding.rule
    is_of_pool = prefix.startswith(_FLEET_RULES) and finding.workload is None
    queries = (pool_queries_of if is_of_pool else queries_of)(finding, judged)
    evidence, end = finding.evidence, seconds(judged)
    length = evidence.get("window_seconds")
    known = length if isinstance(length, int | float) else None
    return {
        "window": {
            "from": None if known is None else end - float(known),
            "to": end,
            "seconds": known,
            **{key: evidence.get(key) for key in ("known_seconds", "coverage_ratio", "tier")},
        },
        "thresholds": list(_thresholds(settings, prefix)),
        "confidence": {
            "value": finding.confidence,
            "factors": dict(finding.confidence_factors),
            "product": product(finding.confidence_factors, finding.confidence),
        },
        "options": [
            {"rank": rank, "description": option.description, "why": why(option)}
            for rank, option in enumerate(finding.options, 1)
        ],
        "queries": [asdict(each) for each in queries],
    }


def product(factors: Mapping[str, float], confidence: float) -> str:
    """How the factors make the confidence: `tier 1 x coverage 0.9 = 0.9`."""
    if not factors:
        return f"{confidence:g}"
    told = " x ".join(f"{name} {value:g}" for name, value in factors.items())
    # Each factor is rounded where it is published, the confidence only once and cut at the top.
    sign = "=" if math.isclose(math.prod(factors.values()), confidence, abs_tol=5e-4) else "~"
    return f"{told} {sign} {confidence:g}"


def why(option: Option) -> str:
    """What puts an option where it stands among the others."""
    parts = [f"risk {option.risk}"]
    if option.risks:
        parts[0] += f" ({', '.join(f'{name} {risk}' for name, risk in option.risks.items())})"
    if option.fits is not None:
        parts.append("memory fits" if option.fits else "memory does not fit")
    if option.time_ratio is not None:
        low, high = option.time_ratio_low, option.time_ratio_high
        between = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
        parts.append(f"{option.time_ratio:.2f}{between} x the time of the same work")
    if option.dollars_per_hour_low is not None:
        cost = _range(option.dollars_per_hour_low, option.dollars_per_hour_high)
        parts.append(f"costs {cost} $/h")
    if option.savings is not None and option.savings.gpus_low is not None:
        saved = _range(option.savings.gpus_low, option.savings.gpus_high)
        parts.append(f"saves {saved} GPUs")
    return "; ".join(parts)


def _range(low: float, high: float | None) -> str:
    return f"{low:.2f}" if high is None or high <= low else f"{low:.2f} to {high:.2f}"
