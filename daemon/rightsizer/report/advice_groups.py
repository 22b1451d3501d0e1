"""Groups of recommendations: exclusive ones together, alike ones folded."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from rightsizer.model.values import FindingKind

_Piece = TypeVar("_Piece")
Unit = tuple[_Piece, ...]
"""Alike recommendations, each of which can be applied."""
ALIKE_FROM: Final = 3
"""Number of like recommendations, for idle GPUs without a workload, that are folded into one."""


class GroupKey(Struct, frozen=True):
    """Properties of a recommendation that determine its group."""

    id: str
    exclusive_group: str | None
    kind: str
    workload: str | None
    action: str
    reasons: tuple[str, ...]

    @property
    def alike(self) -> Hashable:
        """Key of alike recommendations for idle GPUs; the id for others, such as faults."""
        is_alike = self.kind == FindingKind.IDLE and not self.workload
        return (self.action, self.reasons) if is_alike else self.id


def to_do(
    advice: Iterable[_Piece], key_of: Callable[[_Piece], tuple[str | None, str]]
) -> list[_Piece]:
    """Return what is to be done: of recommendations that exclude each other only the first.

    Args:
        advice: Open recommendations, best ones first.
        key_of: Returns the exclusive group of one, if it is in one, and its id.
    """
    firsts = dict[str, _Piece]()
    for piece in advice:
        group, name = key_of(piece)
        firsts.setdefault(group or name, piece)
    return [*firsts.values()]


def advice_groups(
    advice: Sequence[_Piece], key_of: Callable[[_Piece], GroupKey]
) -> tuple[tuple[Unit[_Piece], ...], ...]:
    """Return the groups in the order of their first member; several units of a group are folded."""
    units: dict[str, list[_Piece]] = {}
    for piece in advice:
        key = key_of(piece)
        units.setdefault(key.exclusive_group or key.id, []).append(piece)
    firsts = [key_of(unit[0]) for unit in units.values()]
    counts = Counter(first.alike for first in firsts)
    groups: dict[Hashable, list[Unit[_Piece]]] = {}
    for first, unit in zip(firsts, units.values(), strict=True):
        kind = first.alike if counts[first.alike] >= ALIKE_FROM else first.id
        groups.setdefault(kind, []).append(tuple(unit))
    return tuple(map(tuple, groups.values()))
