"""PromQL that leads from the agent's own metrics to the numbers that a verdict rests on."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from rightsizer.model.finding import Finding, Reason
from rightsizer.model.frozen import dataclass
from rightsizer.model.state import Condition, State
from rightsizer.model.units import Nanoseconds, seconds

_IDLE: Final = 'state=~"idle_.*"'
_KNOWN: Final = 'state!="unknown"'
_ACTIVE: Final = 'state!~"unknown|idle_.*"'


@dataclass(frozen=True, slots=True)
class Query:
    """One number and how to find it again."""

    name: str
    """The evidence's."""
    device: str
    """A uuid; empty for a number of all devices."""
    resource: str
    value: float
    promql: str


_OF_KNOWN: Final[Mapping[str, str]] = {
    "idle_ratio": _IDLE,
    "stalled_ratio": State.HIDDEN_STALL,
    "near_out_of_memory_ratio": Condition.NEAR_OUT_OF_MEMORY,
    "power_throttled_ratio": Condition.POWER_THROTTLED,
    "thermal_ratio": Condition.THERMAL_THROTTLED,
    "hardware_ratio": Condition.HARDWARE_SLOWDOWN,
}
"""Shares of the known time by their names in the evidence."""
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
"""Shares of the active time, `active_share_ratio`, by the reason of the verdict."""


class _Span(NamedTuple):
    """The time that a number is of."""

    length_seconds: int
    at: str
    """The modifier of its end."""

    @classmethod
    def of(cls, finding: Finding, end: Nanoseconds) -> "_Span | None":
        length = finding.evidence.get("window_seconds")
        if not isinstance(length, int | float) or length < 1:
            return None
        return cls(round(length), f"@ {seconds(end):.0f}")

    def increase(self, uuid: str, part: str) -> str:
        """Time of a device in a state, in a condition, or in the states of a selector."""
        of = "condition" if isinstance(part, Condition) else "state"
        labels = f'uuid="{uuid}",' + (part if part.startswith("state") else f'{of}="{part}"')
        counter = f"rightsizer_{of}_seconds_total{{{labels}}}"
        return f"sum(increase({counter}[{self.length_seconds}s] {self.at}))"


def queries_of(finding: Finding, end: Nanoseconds) -> tuple[Query, ...]:
    """A query for each number of the evidence that the agent's metrics have; at its end."""
    span = _Span.of(finding, end)
    if span is None:
        return ()
    found = [*_whole(finding, span)]
    for name, value in finding.evidence.items():
        if isinstance(value, Mapping):
            found.extend(_by_device(finding, name, value, span))
    return tuple(found)


def pool_queries_of(finding: Finding, end: Nanoseconds) -> tuple[Query, ...]:
    """The most of a pool that was held, where the verdict names all of its GPUs.

    What is known of a pool is its holders, which no counter of a single GPU has.
    """
    span, held = _Span.of(finding, end), finding.evidence.get("held_most")
    if span is None or not isinstance(held, int | float):
        return ()
    if len(finding.devices) != finding.evidence.get("gpus"):
        return ()
    uuids = "|".join(finding.devices)
    states = f'rightsizer_state_seconds_total{{uuid=~"{uuids}",state!~"unknown|idle_empty"}}'
    promql = f"max_over_time(sum(rate({states}[5m]))[{span.length_seconds}s:5m] {span.at})"
    return (Query("held_most", "", "", float(held), promql),)


def _whole(finding: Finding, span: _Span) -> Iterator[Query]:
    """What is the same for every verdict: of the device that least is known of."""
    uuids = "|".join(finding.devices)
    total = f'rightsizer_state_seconds_total{{uuid=~"{uuids}",{_KNOWN}}}'
    known = f"min(sum by (uuid) (increase({total}[{span.length_seconds}s] {span.at})))"
    for name, promql in (
        ("known_seconds", known),
        ("coverage_ratio", f"{known} / {span.length_seconds}"),
    ):
        value = finding.evidence.get(name)
        if isinstance(value, int | float):
            yield Query(name, "", "", float(value), promql)


def _by_device(
    finding: Finding, name: str, values: Mapping[str, object], span: _Span
) -> Iterator[Query]:
    part, whole = _OF_KNOWN.get(name), _KNOWN
    if name == "active_share_ratio" and finding.reasons:
        part, whole = _OF_ACTIVE.get(finding.reasons[0]), _ACTIVE
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
