"""PromQL that leads from the agent's own metrics to the numbers that a verdict rests on."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

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


@dataclass(frozen=True, slots=True)
class _QuerySpan:
    """The time that a number is of."""

    length_seconds: int
    end_seconds: float

    @property
    def range(self) -> str:
        return f"[{self.length_seconds}s] @ {self.end_seconds:.0f}"

    @property
    def instant(self) -> str:
        return f"@ {self.end_seconds:.0f}"


def _states(selector: str, uuid: str, span: _QuerySpan) -> str:
    return f'sum(increase(rightsizer_state_seconds_total{{uuid="{uuid}",{selector}}}{span.range}))'


def _condition(condition: str, uuid: str, span: _QuerySpan) -> str:
    name = "rightsizer_condition_seconds_total"
    return f'sum(increase({name}{{uuid="{uuid}",condition="{condition}"}}{span.range}))'


def _of_known(selector: str) -> "_Template":
    return lambda uuid, span: f"{_states(selector, uuid, span)} / {_states(_KNOWN, uuid, span)}"


def _condition_of_known(condition: Condition) -> "_Template":
    return lambda uuid, span: f"{_condition(condition, uuid, span)} / {_states(_KNOWN, uuid, span)}"


def _of_active(state: State) -> "_Template":
    selector = f'state="{state}"'
    return lambda uuid, span: f"{_states(selector, uuid, span)} / {_states(_ACTIVE, uuid, span)}"


def _condition_of_active(condition: Condition) -> "_Template":
    return lambda uuid, span: (
        f"{_condition(condition, uuid, span)} / {_states(_ACTIVE, uuid, span)}"
    )


def _memory_peak(uuid: str, span: _QuerySpan) -> str:
    return f'max(max_over_time(rightsizer_memory_used_ratio{{uuid="{uuid}"}}{span.range}))'


_Template = Callable[[str, _QuerySpan], str]

_BY_NAME: Final[Mapping[str, _Template]] = {
    "idle_ratio": _of_known(_IDLE),
    "stalled_ratio": _of_known(f'state="{State.HIDDEN_STALL}"'),
    "near_out_of_memory_ratio": _condition_of_known(Condition.NEAR_OUT_OF_MEMORY),
    "power_throttled_ratio": _condition_of_known(Condition.POWER_THROTTLED),
    "thermal_ratio": _condition_of_known(Condition.THERMAL_THROTTLED),
    "hardware_ratio": _condition_of_known(Condition.HARDWARE_SLOWDOWN),
    "memory_peak_ratio": _memory_peak,
}
_ACTIVE_SHARE: Final[Mapping[Reason, _Template]] = {
    Reason.LAUNCH_BOUND: _of_active(State.LAUNCH_BOUND),
    Reason.HOST_BOUND: _of_active(State.HOST_BOUND),
    Reason.STORAGE_BOUND: _of_active(State.STORAGE_BOUND),
    Reason.PCIE_BOUND: _of_active(State.PCIE_BOUND),
    Reason.MEMORY_BANDWIDTH_BOUND: _of_active(State.MEMORY_BANDWIDTH_BOUND),
    Reason.COMPUTE_SATURATED: _of_active(State.COMPUTE_BOUND),
    Reason.NETWORK_BOUND: _condition_of_active(Condition.NETWORK_BOUND),
    Reason.TENSOR_CORES_UNUSED: _condition_of_active(Condition.NO_TENSOR_CORES),
}


def queries_of(finding: Finding, end: Nanoseconds) -> tuple[Query, ...]:
    """A query for each number of the evidence that the agent's metrics have; at its end."""
    span = _span_of(finding, end)
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
    span, held = _span_of(finding, end), finding.evidence.get("held_most")
    if span is None or not isinstance(held, int | float):
        return ()
    if len(finding.devices) != finding.evidence.get("gpus"):
        return ()
    uuids = "|".join(finding.devices)
    states = f'rightsizer_state_seconds_total{{uuid=~"{uuids}",state!~"unknown|idle_empty"}}'
    promql = f"max_over_time(sum(rate({states}[5m]))[{span.length_seconds}s:5m] {span.instant})"
    return (Query("held_most", "", "", float(held), promql),)


def _span_of(finding: Finding, end: Nanoseconds) -> _QuerySpan | None:
    length = finding.evidence.get("window_seconds")
    if not isinstance(length, int | float) or length < 1:
        return None
    return _QuerySpan(round(length), seconds(end))


def _whole(finding: Finding, span: _QuerySpan) -> Iterator[Query]:
    """What is the same for every verdict: of the device that least is known of."""
    uuids = "|".join(finding.devices)
    total = f'rightsizer_state_seconds_total{{uuid=~"{uuids}",{_KNOWN}}}'
    known = f"min(sum by (uuid) (increase({total}{span.range})))"
    for name, promql in (
        ("known_seconds", known),
        ("coverage_ratio", f"{known} / {span.length_seconds}"),
    ):
        value = finding.evidence.get(name)
        if isinstance(value, int | float):
            yield Query(name, "", "", float(value), promql)


def _by_device(
    finding: Finding, name: str, values: Mapping[str, object], span: _QuerySpan
) -> Iterator[Query]:
    reason = finding.reasons[0] if finding.reasons else None
    is_active_share = name == "active_share_ratio" and reason is not None
    template = _ACTIVE_SHARE.get(reason) if is_active_share and reason else _BY_NAME.get(name)
    for uuid, value in values.items():
        if uuid not in finding.devices:
            continue
        if template is not None and isinstance(value, int | float):
            yield Query(name, uuid, "", float(value), template(uuid, span))
        elif name == "need_ratio" and isinstance(value, Mapping):
            for resource, need in value.items():
                labels = f'uuid="{uuid}",resource="{resource}",window="current"'
                promql = f"rightsizer_need_ratio{{{labels}}} {span.instant}"
                yield Query(name, uuid, str(resource), float(need), promql)
