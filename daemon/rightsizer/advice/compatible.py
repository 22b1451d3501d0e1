"""Recommendations whose savings add up: of exclusive ones, or ones on the same GPUs, the best."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from rightsizer.model.advice import Advice
from rightsizer.model.finding import Savings
from rightsizer.model.frozen import dataclass, fields

_Piece = TypeVar("_Piece")
_SAVINGS: Final = frozenset(each.name for each in fields(Savings))


@dataclass(frozen=True, slots=True)
class ExclusiveKey:
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

    @property
    def rank(self) -> tuple[float, float, str]:
        """Sort key: largest savings first."""
        return -self.savings.dollars_per_hour, -self.savings.gpus, self.id

    @property
    def about(self) -> set[tuple[str, str]]:
        """What no other recommendation may be about: a GPU is saved once."""
        of_group = {("group", self.exclusive_group)} if self.exclusive_group else set()
        return {("device", uuid) for uuid in self.devices} | of_group


def savings_of(advice: Mapping[str, Any]) -> Savings:
    """Return the savings that an agent states, whatever its version adds to them."""
    known = {name: value for name, value in advice["savings"].items() if name in _SAVINGS}
    return Savings(**known)


def compatible(advice: Iterable[_Piece], key_of: Callable[[_Piece], ExclusiveKey]) -> list[_Piece]:
    """Return advice whose savings can be summed, largest savings first.

    What costs more than it saves is left out.
    """
    taken: set[tuple[str, str]] = set()
    found = []
    for key, piece in sorted(
        ((key_of(piece), piece) for piece in advice), key=lambda pair: pair[0].rank
    ):
        if key.savings.dollars_per_hour >= 0 and taken.isdisjoint(key.about):
            found.append(piece)
            taken |= key.about
    return found
