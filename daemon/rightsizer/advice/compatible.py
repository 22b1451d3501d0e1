"""Recommendations whose savings add up: of exclusive ones, or ones on the same GPUs, the best."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from rightsizer.model.values import Advice, Savings, typical

_Piece = TypeVar("_Piece")
_SAVINGS: Final = frozenset(field for field in Savings.__struct_fields__)


class ExclusiveKey(NamedTuple):
    """Properties of a recommendation that determine with which others its savings add up."""

    id: str
    exclusive_group: str | None
    devices: Sequence[str]
    savings: Savings

    @classmethod
    def of(cls, advice: Advice) -> "ExclusiveKey":
        """Return the key of advice."""
        finding = advice.finding
        return cls(finding.id, finding.exclusive_group, finding.devices, finding.savings)

    @classmethod
    def of_form(cls, advice: Mapping[str, Any]) -> "ExclusiveKey":
        """Return the key of advice in JSON, of an agent of any version."""
        group = advice["exclusive_group"]
        devices = advice["devices"]
        return cls(advice["id"], group, devices, savings_of(advice))


def savings_of(advice: Mapping[str, Any]) -> Savings:
    """Return the savings that an agent states, whatever its version adds to them."""
    fields = {name: value for name, value in advice["savings"].items() if name in _SAVINGS}
    return Savings(**fields)


_Pair: TypeAlias = tuple[ExclusiveKey, _Piece]


def compatible(advice: Iterable[_Piece], key_of: Callable[[_Piece], ExclusiveKey]) -> list[_Piece]:
    """Return advice whose savings can be summed, largest savings first.

    What costs more than it saves is left out. One on several GPUs excludes those on each of them,
    unless these together save more.
    """
    pairs = [(key_of(piece), piece) for piece in advice]
    by_amount = sorted((pair for pair in pairs if _rank(pair)[0] <= 0), key=_rank)
    by_device = sorted(by_amount, key=lambda pair: _rank(pair)[0] / max(1, len(pair[0].devices)))
    ways = map(_disjoint, (by_amount, by_device))
    best = min(ways, key=lambda way: sum(_rank(pair)[0] for pair in way))
    return [piece for _, piece in sorted(best, key=_rank)]


def _rank(pair: _Pair[Any]) -> tuple[float, float, str]:
    key, _ = pair
    return -key.savings.dollars_per_hour, -key.savings.gpus, key.id


def _disjoint(pairs: Iterable[_Pair[_Piece]]) -> list[_Pair[_Piece]]:
    """Return each that shares neither a GPU nor a group with one before."""
    taken: set[tuple[str, str]] = set()
    disjoint = []
    for key, piece in pairs:
        about = {("GPU", uuid) for uuid in key.devices}
        about |= {("group", key.exclusive_group)} if key.exclusive_group else set()
        if taken.isdisjoint(about):
            disjoint.append((key, piece))
            taken |= about
    return disjoint


class SavingsSum(Struct, frozen=True):
    """Minimum and maximum savings of several pieces of advice together."""

    gpus_low: float
    gpus_high: float
    dollars_per_hour_low: float
    dollars_per_hour_high: float
    dollars_per_hour: float
    """Typical savings."""
    has_price: bool

    @property
    def gpus(self) -> float:
        """Midpoint of the GPUs saved."""
        return typical(self.gpus_low, self.gpus_high)


def savings_sum(advice: Iterable[Advice]) -> SavingsSum:
    """Sum over advice that can be combined: of mutually exclusive pieces, only the best."""
    best = [piece.finding.savings for piece in compatible(advice, ExclusiveKey.of)]
    return SavingsSum(
        sum(savings.gpus_low or 0.0 for savings in best),
        sum(savings.gpus_high or savings.gpus_low or 0.0 for savings in best),
        sum(savings.dollars_per_hour_low or 0.0 for savings in best),
        sum(
            savings.dollars_per_hour_high or savings.dollars_per_hour_low or 0.0 for savings in best
        ),
        sum(savings.dollars_per_hour for savings in best),
        any(savings.dollars_per_hour_low is not None for savings in best),
    )
