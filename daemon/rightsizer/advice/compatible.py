"""Recommendations whose savings add up: of exclusive ones, or ones on the same GPUs, the best."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from rightsizer.model.advice import Advice
from rightsizer.model.finding import Savings
from rightsizer.model.frozen import fields

_Piece = TypeVar("_Piece")
_SAVINGS: Final = frozenset(each.name for each in fields(Savings))


class ExclusiveKey(NamedTuple):
    """Properties of a recommendation that determine with which others its savings add up."""

    id: str
    exclusive_group: str | None
    devices: Sequence[str]
    savings: Savings

    @classmethod
    def of(cls, advice: Advice) -> "ExclusiveKey":
        """Return the key of advice."""
        found = advice.finding
        return cls(found.id, found.exclusive_group, found.devices, found.savings)

    @classmethod
    def of_form(cls, advice: Mapping[str, Any]) -> "ExclusiveKey":
        """Return the key of advice in JSON, of an agent of any version."""
        group, devices = advice["exclusive_group"], advice["devices"]
        return cls(advice["id"], group, devices, savings_of(advice))


def savings_of(advice: Mapping[str, Any]) -> Savings:
    """Return the savings that an agent states, whatever its version adds to them."""
    known = {name: value for name, value in advice["savings"].items() if name in _SAVINGS}
    return Savings(**known)


def compatible(advice: Iterable[_Piece], key_of: Callable[[_Piece], ExclusiveKey]) -> list[_Piece]:
    """Return advice whose savings can be summed, largest savings first.

    What costs more than it saves is left out.
    """

    def rank(pair: tuple[ExclusiveKey, _Piece]) -> tuple[float, float, str]:
        savings = pair[0].savings
        return -savings.dollars_per_hour, -savings.gpus, pair[0].id

    taken: set[tuple[str, str]] = set()
    found = []
    for key, piece in sorted(((key_of(piece), piece) for piece in advice), key=rank):
        about = {("GPU", uuid) for uuid in key.devices}
        about |= {("group", key.exclusive_group)} if key.exclusive_group else set()
        if key.savings.dollars_per_hour >= 0 and taken.isdisjoint(about):
            found.append(piece)
            taken |= about
    return found
