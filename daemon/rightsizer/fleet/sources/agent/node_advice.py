"""The advice that the nodes' own agents give."""

from collections.abc import Iterable, Mapping
from typing import Final

from rightsizer.domain.finding import Risk
from rightsizer.fleet.estate import NodeAdvice
from rightsizer.fleet.sources.agent.form import FIGURE
from rightsizer.fleet.store import Sampled

__all__ = ["advice_details_query", "advice_query", "node_advice"]

_LABELS: Final = "id, finding, reason, action, uuid, workload"
_DETAILS: Final = {
    "confidence": "rightsizer_advice_confidence_ratio",
    "risk": "rightsizer_advice_risk_ratio",
    "gpus": "rightsizer_advice_savings_gpus",
    "dollars": "rightsizer_advice_savings_dollars_per_hour",
    "opened": "rightsizer_advice_opened_timestamp_seconds",
}
_RISKS: Final = {0.01: Risk.VERY_LOW, 0.05: Risk.LOW, 0.15: Risk.MEDIUM, 1.0: Risk.HIGH}
"""By the upper bound that is exported; an unknown one is not."""

Key = tuple[str, str]
"""Id and instance: two nodes that advise the same of one workload give it the same id."""


def advice_query() -> str:
    """Which advice is open, by node; what the fleet itself exports is not a node's."""
    own = 'rightsizer_build_info{source="fleet"}'
    return f"max by (instance, {_LABELS}) (rightsizer_advice_info unless on (job, instance) {own})"


def advice_details_query() -> str:
    """How sure it is, and what it would save."""
    return " or ".join(
        f'label_replace(max by (instance, id) ({name}), "{FIGURE}", "{figure}", "", "")'
        for figure, name in _DETAILS.items()
    )


def node_advice(advice: Iterable[Sampled], details: Iterable[Sampled]) -> tuple[NodeAdvice, ...]:
    """The pieces of advice, each with all of its devices."""
    figures: dict[Key, dict[str, float]] = {}
    for series in details:
        figures.setdefault(_key(series.labels), {})[series.labels.get(FIGURE, "")] = series.values[
            -1
        ]
    devices: dict[Key, set[str]] = {}
    told: dict[Key, Mapping[str, str]] = {}
    for series in advice:
        key = _key(series.labels)
        told.setdefault(key, series.labels)
        devices.setdefault(key, set()).add(series.labels.get("uuid", ""))
    return tuple(
        _piece(told[key], tuple(sorted(devices[key] - {""})), figures.get(key, {}))
        for key in sorted(told)
    )


def _piece(
    labels: Mapping[str, str], devices: tuple[str, ...], figures: Mapping[str, float]
) -> NodeAdvice:
    bound = figures.get("risk")
    risk = Risk.UNKNOWN if bound is None else _RISKS.get(bound, Risk.UNKNOWN)
    return NodeAdvice(
        id=labels.get("id", ""),
        finding=labels.get("finding", ""),
        reason=labels.get("reason", ""),
        action=labels.get("action", ""),
        workload=labels.get("workload", ""),
        devices=devices,
        confidence=figures.get("confidence"),
        risk=risk.value,
        savings_gpus=figures.get("gpus"),
        savings_dollars_per_hour=figures.get("dollars"),
        opened_seconds=figures.get("opened"),
    )


def _key(labels: Mapping[str, str]) -> Key:
    return labels.get("id", ""), labels.get("instance", "")
