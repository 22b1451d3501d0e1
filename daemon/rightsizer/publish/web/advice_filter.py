"""Which advice a request asks for: by state, reason, workload and GPU."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from rightsizer.domain.advice import Advice, AdviceState
from rightsizer.domain.errors import UsageError
from rightsizer.domain.finding import Reason

__all__ = ["chosen"]

_OPEN: Final = "open"
"""All states that still ask for something."""
_STATES: Final = (_OPEN, *map(str, AdviceState))
_REASONS: Final = tuple(map(str, Reason))


def chosen(advice: Sequence[Advice], query: Mapping[str, Sequence[str]]) -> list[Advice]:
    """The advice that passes every filter; values of one filter are alternatives.

    Args:
        advice: All there is.
        query: `state` (`open` for every open one), `reason`, and shell patterns for `workload`
            and `gpu`, each as often as one likes.

    Raises:
        UsageError: there is no such filter, or no such state or reason.
    """
    for name, values in query.items():
        if name not in _FILTERS:
            raise UsageError(f"'{name}' is no filter; choose from {', '.join(_FILTERS)}")
        _check(name, values)
    return [
        each
        for each in advice
        if all(
            any(_FILTERS[name](each, value) for value in values) for name, values in query.items()
        )
    ]


def _check(name: str, values: Sequence[str]) -> None:
    known = {"state": _STATES, "reason": _REASONS}.get(name)
    for value in values:
        if known is not None and value not in known:
            raise UsageError(f"{name}: there is no '{value}'; choose from {', '.join(known)}")


def _has_state(advice: Advice, value: str) -> bool:
    return advice.is_open if value == _OPEN else advice.state == value


def _has_reason(advice: Advice, value: str) -> bool:
    return value in advice.finding.reasons


def _is_of_workload(advice: Advice, value: str) -> bool:
    return fnmatchcase(advice.finding.workload or "", value)


def _is_on_gpu(advice: Advice, value: str) -> bool:
    return any(fnmatchcase(uuid, value) for uuid in advice.finding.devices)


_FILTERS: Final[Mapping[str, Callable[[Advice, str], bool]]] = {
    "state": _has_state,
    "reason": _has_reason,
    "workload": _is_of_workload,
    "gpu": _is_on_gpu,
}
