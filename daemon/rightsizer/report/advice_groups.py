"""Groups of recommendations: what excludes another one below it, what is like others folded."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeVar

from rightsizer.model.finding import FindingKind
from rightsizer.model.frozen import dataclass

_Piece = TypeVar("_Piece")
Unit = tuple[_Piece, ...]
"""A recommendation, and those of which it or one of them can be applied."""
ALIKE_FROM: Final = 3
"""As many recommendations of one kind, for idle GPUs without a workload, are folded into one."""


@dataclass(frozen=True, slots=True)
class GroupKey:
    """What grouping a recommendation goes by."""

    id: str
    exclusive_group: str | None
    kind: str
    workload: str | None
    action: str
    reasons: tuple[str, ...]

    @property
    def alike(self) -> Hashable:
        """What advice on idle GPUs has in common; its id where each says its own, as of faults."""
        is_alike = self.kind == FindingKind.IDLE and not self.workload
        return (self.action, self.reasons) if is_alike else self.id


def advice_groups(
    advice: Sequence[_Piece], key_of: Callable[[_Piece], GroupKey]
) -> tuple[tuple[Unit[_Piece], ...], ...]:
    """Groups in the order of their first; more than one unit in a group are to be folded."""
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
