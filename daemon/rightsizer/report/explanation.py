"""Explanation of a verdict.

Evidence, thresholds, queries and lifecycle, as plain values for JSON and for people.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rightsizer.model.advice import Advice
from rightsizer.model.finding import Finding, Option
from rightsizer.model.frozen import asdict, dataclass, fields, is_dataclass
from rightsizer.model.settings import bounds_of
from rightsizer.model.units import Nanoseconds, Unit, seconds
from rightsizer.report.explanation_query import pool_queries_of, queries_of
from rightsizer.report.json_encoder import Form, advice_form, finding_form, lifecycle_form

_WRITTEN_WITH_UNIT: Final = (Unit.SECONDS, Unit.BYTES)


@dataclass(frozen=True, slots=True)
class RuleThreshold:
    """One setting."""

    setting: str
    """Its whole name: `recommender.rules.idle.on_ratio`."""
    value: Any
    unit: str
    help: str
    source: str


def thresholds_of(settings: object, prefix: str) -> Iterator[RuleThreshold]:
    """All settings of a class of them, those of its groups included; what is none gives none."""
    if not is_dataclass(settings):
        return
    for declared in fields(settings):
        bounds, value = bounds_of(declared), getattr(settings, declared.name)
        if bounds is not None:
            key = declared.name
            if bounds.unit in _WRITTEN_WITH_UNIT:
                key = key.removesuffix(f"_{bounds.unit}")
            name = f"{prefix}.{key.removesuffix('_')}"
            yield RuleThreshold(name, value, bounds.unit, bounds.help, bounds.source)
        else:
            yield from thresholds_of(value, f"{prefix}.{declared.name}")


_NODE_RULES: Final = "recommender.rules"
_ESTATE_RULES: Final = "fleet.rules."


def explain_advice(advice: Advice, rules: object) -> Form:
    """The reasoning behind a recommendation, and what has become of it.

    `rules` are their settings by name, or several such trees by their keys in a configuration.
    """
    form = _reasoning(advice.finding, advice.updated, rules)
    if not advice.is_open:
        # Nobody knows any more when its last complaint was made, so at which time to ask.
        form["queries"] = []
    return {"advice": advice_form(advice), **form, "lifecycle": lifecycle_form(advice)}


def explain_finding(finding: Finding, judged: Nanoseconds, rules: object) -> Form:
    """The reasoning behind a verdict that is no advice, at the time that it was given."""
    return {
        "advice": finding_form(finding),
        **_reasoning(finding, judged, rules),
        "lifecycle": None,
    }


def _reasoning(finding: Finding, judged: Nanoseconds, rules: object) -> Form:
    prefix, settings = _settings_of(finding.rule, rules)
    is_of_pool = prefix.startswith(_ESTATE_RULES) and finding.workload is None
    queries = (pool_queries_of if is_of_pool else queries_of)(finding, judged)
    return {
        "window": _window(finding, judged),
        "thresholds": [asdict(each) for each in thresholds_of(settings, prefix)],
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


def _settings_of(rule: str, rules: object) -> tuple[str, object]:
    """Where a rule's settings stand in a configuration, and which they are."""
    trees = rules if isinstance(rules, Mapping) else {_NODE_RULES: rules}
    for key, tree in trees.items():
        settings = getattr(tree, rule, None)
        if settings is not None:
            return f"{key}.{rule}", settings
    return rule, None


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
        parts.append(
            f"{_interval(option.time_ratio_low, option.time_ratio, option.time_ratio_high)} x the "
            "time of the same work"
        )
    if option.dollars_per_hour_low is not None:
        cost = _range(option.dollars_per_hour_low, option.dollars_per_hour_high)
        parts.append(f"costs {cost} $/h")
    if option.savings is not None and option.savings.gpus_low is not None:
        saved = _range(option.savings.gpus_low, option.savings.gpus_high)
        parts.append(f"saves {saved} GPUs")
    return "; ".join(parts)


def _window(finding: Finding, judged: Nanoseconds) -> Form:
    evidence, end = finding.evidence, seconds(judged)
    length = evidence.get("window_seconds")
    is_known = isinstance(length, int | float)
    return {
        "from": end - float(length) if is_known else None,  # type: ignore[arg-type] # Asked above.
        "to": end,
        "seconds": length if is_known else None,
        "known_seconds": evidence.get("known_seconds"),
        "coverage_ratio": evidence.get("coverage_ratio"),
        "tier": evidence.get("tier"),
    }


def _interval(low: float | None, middle: float, high: float | None) -> str:
    if low is None or high is None:
        return f"{middle:.2f}"
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def _range(low: float, high: float | None) -> str:
    return f"{low:.2f}" if high is None or high <= low else f"{low:.2f} to {high:.2f}"
