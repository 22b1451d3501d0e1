"""Explanation of a finding: evidence, thresholds, lifecycle, PromQL."""

import math
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.io.codec import JsonObject, convert
from rightsizer.model.values import (
    BY_INDEX,
    Advice,
    Condition,
    Finding,
    Nanoseconds,
    Option,
    Reason,
    RightsizerError,
    State,
    bounds_of,
    descriptions_of,
    key_in_file,
    seconds,
)
from rightsizer.report.advice_document import (
    FindingDocument,
    LifecycleDocument,
    advice_document,
    finding_document,
    lifecycle_document,
)
from rightsizer.report.labels import interval_text, readable_name, replaced_label, risk_word

_IDLE: Final = 'state=~"idle_.*"'
_KNOWN: Final = 'state!="unknown"'
_CENTS: Final = "{:.2f}".format
_ACTIVE: Final = 'state!~"unknown|idle_.*"'


class Query(Struct, frozen=True):
    """A number of the evidence, with the PromQL query that reproduces it."""

    name: str
    device: str
    """Uuid; empty for a number over all devices."""
    resource: str
    value: float
    promql: str


class JudgedWindow(Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """Span of the evidence; its ends are unknown once a recommendation is closed."""

    start: float | None
    end: float | None
    seconds: float | None
    known_seconds: float | None
    coverage_ratio: float | None
    tier: tuple[str, ...] | None


class RuleThreshold(Struct, frozen=True):
    """Setting of the rule."""

    setting: str
    value: Any
    unit: str
    help: str
    source: str


class Confidence(Struct, frozen=True):
    """Confidence with its factors."""

    value: float
    factors: Mapping[str, float]
    product: str


class RankedOption(Struct, frozen=True):
    """Option with the reason of its rank."""

    rank: int
    description: str
    why: str


class Explanation(Struct, frozen=True):
    """All reasoning behind a recommendation, or behind a finding that is none."""

    advice: FindingDocument
    """With the keys of a recommendation, if it is one."""
    window: JudgedWindow
    thresholds: tuple[RuleThreshold, ...]
    confidence: Confidence
    options: tuple[RankedOption, ...]
    queries: tuple[Query, ...]
    lifecycle: LifecycleDocument | None = None
    names: Mapping[str, str] = {}
    """Display names of devices, by uuid; empty where only uuids are known."""

    @property
    def title(self) -> str:
        """Heading of a document."""
        return f"Recommendation {self.advice.id}"


_OF_KNOWN: Final[Mapping[str, str]] = {
    "idle_ratio": _IDLE,
    "stalled_ratio": State.HIDDEN_STALL,
    "near_out_of_memory_ratio": Condition.NEAR_OUT_OF_MEMORY,
    "power_throttled_ratio": Condition.POWER_THROTTLED,
    "thermal_ratio": Condition.THERMAL_THROTTLED,
    "hardware_ratio": Condition.HARDWARE_SLOWDOWN,
}
"""Selectors of shares of the known time, by name in the evidence."""
_OF_ACTIVE: Final[Mapping[Reason, str]] = {
    Reason.LAUNCH_BOUND: State.LAUNCH_BOUND,
    Reason.HOST_BOUND: State.HOST_BOUND,
    Reason.STORAGE_BOUND: State.STORAGE_BOUND,
    Reason.PCIE_BOUND: State.PCIE_BOUND,
    Reason.MEMORY_BANDWIDTH_BOUND: State.MEMORY_BANDWIDTH_BOUND,
    Reason.COMPUTE_SATURATED: State.COMPUTE_BOUND,
    Reason.NETWORK_BOUND: Condition.NETWORK_BOUND,
    Reason.TENSOR_CORES_UNUSED: Condition.NO_TENSOR_CORES,
}
"""Selectors of the share of active time, `active_share_ratio`, by the finding's reason."""


class _Span(NamedTuple):
    length_seconds: int
    at: str
    """PromQL modifier of its end."""

    @classmethod
    def of(cls, finding: Finding, end: Nanoseconds) -> "_Span | None":
        length = finding.evidence.get("window_seconds")
        if not isinstance(length, int | float) or length < 1:
            return None
        return cls(round(length), f"@ {seconds(end):.0f}")

    def increase(self, uuid: str, part: str) -> str:
        """Return the time of a device in a state, a condition, or states of a selector."""
        of = "condition" if isinstance(part, Condition) else "state"
        labels = f'uuid="{uuid}",' + (part if part.startswith("state") else f'{of}="{part}"')
        counter = f"rightsizer_{of}_seconds_total{{{labels}}}"
        return f"sum(increase({counter}[{self.length_seconds}s] {self.at}))"


def queries_of(finding: Finding, end: Nanoseconds) -> tuple[Query, ...]:
    """Return a query for each number of the evidence that has metrics, at the finding's time."""
    if (span := _Span.of(finding, end)) is None:
        return ()
    queries = [*_whole(finding, span)]
    for name, value in finding.evidence.items():
        if isinstance(value, Mapping):
            queries.extend(_by_device(finding, name, value, span))
    return tuple(queries)


def _pool_queries_of(finding: Finding, end: Nanoseconds) -> tuple[Query, ...]:
    """Return the query of a pool's peak of held GPUs, if the finding names all its GPUs.

    Findings over a pool use holders, which no counter of a single GPU has.
    """
    span = _Span.of(finding, end)
    held = finding.evidence.get("held_most")
    if span is None or not isinstance(held, int | float):
        return ()
    if len(finding.devices) != finding.evidence.get("gpus"):
        return ()
    uuids = "|".join(finding.devices)
    states = f'rightsizer_state_seconds_total{{uuid=~"{uuids}",state!~"unknown|idle_empty"}}'
    promql = f"max_over_time(sum(rate({states}[5m]))[{span.length_seconds}s:5m] {span.at})"
    return (Query("held_most", "", "", float(held), promql),)


def _whole(finding: Finding, span: _Span) -> Iterator[Query]:
    """Yield queries common to all findings, over the device with the least known time."""
    uuids = "|".join(finding.devices)
    total = f'rightsizer_state_seconds_total{{uuid=~"{uuids}",{_KNOWN}}}'
    known_query = f"min(sum by (uuid) (increase({total}[{span.length_seconds}s] {span.at})))"
    for name, promql in (
        ("known_seconds", known_query),
        ("coverage_ratio", f"{known_query} / {span.length_seconds}"),
    ):
        value = finding.evidence.get(name)
        if isinstance(value, int | float):
            yield Query(name, "", "", float(value), promql)


def _by_device(
    finding: Finding, name: str, values: Mapping[str, object], span: _Span
) -> Iterator[Query]:
    part = _OF_KNOWN.get(name)
    whole = _KNOWN
    if name == "active_share_ratio" and finding.reasons:
        part = _OF_ACTIVE.get(finding.reasons[0])
        whole = _ACTIVE
    for uuid, value in values.items():
        if uuid not in finding.devices:
            continue
        if isinstance(value, int | float) and part is not None:
            promql = f"{span.increase(uuid, part)} / {span.increase(uuid, whole)}"
            yield Query(name, uuid, "", float(value), promql)
        elif isinstance(value, int | float) and name == "memory_peak_ratio":
            ratio = f'rightsizer_memory_used_ratio{{uuid="{uuid}"}}[{span.length_seconds}s]'
            promql = f"max(max_over_time({ratio} {span.at}))"
            yield Query(name, uuid, "", float(value), promql)
        elif name == "need_ratio" and isinstance(value, Mapping):
            for resource, need in value.items():
                labels = f'uuid="{uuid}",resource="{resource}",window="current"'
                promql = f"rightsizer_need_ratio{{{labels}}} {span.at}"
                yield Query(name, uuid, str(resource), float(need), promql)


_NODE_RULES: Final = "recommender.rules"
_FLEET_RULES: Final = "fleet.rules."
_NO_NAMES: Final = MappingProxyType[str, str]({})


def read_explanation(document: JsonObject) -> Explanation:
    """Read an agent's explanation; raises `RightsizerError` if it is of another version."""
    try:
        return convert(document, Explanation)
    except ValueError as error:
        remedy = "run the same version of Rightsizer on both sides"
        raise RightsizerError(
            f"the agent's explanation is not understood: {error}; {remedy}"
        ) from None


def explain_advice(
    advice: Advice,
    rules: object,
    *,
    recorded: Collection[str] = (),
    names: Mapping[str, str] = _NO_NAMES,
) -> Explanation:
    """Explain a recommendation and its lifecycle.

    `rules` are settings by rule, or several such trees by their keys in a configuration; `recorded`
    are devices of a recording, which no agent exports by an index; `names` are display names.
    """
    explanation = explain_finding(
        advice.finding, advice.updated, rules, recorded=recorded, names=names
    )
    explanation = replace(
        explanation, advice=advice_document(advice), lifecycle=lifecycle_document(advice)
    )
    if advice.is_open:
        return explanation
    # Its last change was a decision or its end: when it was last judged is unknown.
    return replace(
        explanation, queries=(), window=replace(explanation.window, start=None, end=None)
    )


def explain_finding(
    finding: Finding,
    judged: Nanoseconds,
    rules: object,
    *,
    recorded: Collection[str] = (),
    names: Mapping[str, str] = _NO_NAMES,
) -> Explanation:
    """Explain a finding as of the time of its judgement."""
    trees = rules if isinstance(rules, Mapping) else {_NODE_RULES: rules}
    settings_of_rule = ((key, getattr(tree, finding.rule, None)) for key, tree in trees.items())
    tree, settings = next((pair for pair in settings_of_rule if pair[1] is not None), ("", None))
    prefix = f"{tree}.{finding.rule}" if tree else finding.rule
    is_of_pool = prefix.startswith(_FLEET_RULES) and finding.workload is None
    queries = (_pool_queries_of if is_of_pool else queries_of)(finding, judged)
    if any(uuid.startswith(BY_INDEX) and uuid in recorded for uuid in finding.devices):
        queries = ()
    return Explanation(
        advice=finding_document(finding),
        window=_window(finding.evidence, seconds(judged)),
        thresholds=tuple(_thresholds(settings, prefix)),
        confidence=Confidence(
            finding.confidence,
            finding.confidence_factors,
            product(finding.confidence_factors, finding.confidence),
        ),
        options=tuple(
            RankedOption(rank, option.description, why(option, len(finding.devices)))
            for rank, option in enumerate(finding.options, 1)
        ),
        queries=queries,
        names=names,
    )


def _window(evidence: Mapping[str, Any], end: float) -> JudgedWindow:
    length = evidence.get("window_seconds")
    seconds = length if isinstance(length, int | float) else None
    return JudgedWindow(
        start=None if seconds is None else end - float(seconds),
        end=end,
        seconds=seconds,
        known_seconds=evidence.get("known_seconds"),
        coverage_ratio=evidence.get("coverage_ratio"),
        tier=evidence.get("tier"),
    )


def _thresholds(settings: object, prefix: str) -> Iterator[RuleThreshold]:
    """Yield all settings of a class and its groups, by full name."""
    if not isinstance(settings, Struct):
        return
    bounds_by_name = bounds_of(type(settings))
    descriptions = descriptions_of(type(settings))
    for declared in settings.__struct_fields__:
        bounds = bounds_by_name.get(declared)
        value = getattr(settings, declared)
        if bounds is None:
            yield from _thresholds(value, f"{prefix}.{declared}")
            continue
        yield RuleThreshold(
            setting=f"{prefix}.{key_in_file(declared, bounds)}",
            value=value,
            unit=bounds.unit,
            help=descriptions[declared].help,
            source=descriptions[declared].source,
        )


def product(factors: Mapping[str, float], confidence: float) -> str:
    """Format factors and confidence, as in `tier 1 x coverage 0.9 = 0.9`."""
    if not factors:
        return f"{confidence:g}"
    text = " x ".join(f"{name} {value:g}" for name, value in factors.items())
    # Factors are rounded singly, the confidence once and capped.
    sign = "=" if math.isclose(math.prod(factors.values()), confidence, abs_tol=5e-4) else "~"
    return f"{text} {sign} {confidence:g}"


def why(option: Option, gpus: int) -> str:
    """Explain the rank of an option for some GPUs."""
    parts = [f"risk {risk_word(option.risk)}"]
    if option.risks:
        parts[0] += f" ({risks_text(option.risks)})"
    if option.fits is not None:
        parts.append("memory fits" if option.fits else "memory does not fit")
    if option.time_ratio is not None:
        low = option.time_ratio_low
        high = option.time_ratio_high
        between = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
        parts.append(f"{option.time_ratio:.2f}{between} x the time of the same work")
    if option.dollars_per_hour_low is not None:
        cost = interval_text(option.dollars_per_hour_low, option.dollars_per_hour_high, _CENTS)
        parts.append(f"costs {cost} $/h")
    if option.savings is not None and option.savings.gpus_low is not None:
        saved = interval_text(option.savings.gpus_low, option.savings.gpus_high, _CENTS)
        none = replaced_label(option.savings, gpus) or "saves no GPU"
        parts.append(none if saved == "0.00" else f"saves {saved} GPUs")
    return "; ".join(parts)


def risks_text(risks: Mapping[str, str]) -> str:
    """Format risks by resource, as in `compute very low, memory bandwidth medium`."""
    return ", ".join(f"{readable_name(name)} {risk_word(risk)}" for name, risk in risks.items())
