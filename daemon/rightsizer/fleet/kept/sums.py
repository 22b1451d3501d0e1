"""Sums of days, and the window that they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from operator import add
from typing import Final, TypeVar

from rightsizer.domain.block import Blocks
from rightsizer.domain.state import Cause, Condition, Resource, State, Tier
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.domain.window import Window
from rightsizer.fleet.kept.column import Kind
from rightsizer.fleet.kept.day_demands import Demands
from rightsizer.fleet.kept.sheet import Layout

__all__ = ["Sums"]

_WORDS: Final[Mapping[Kind, type[StrEnum]]] = {
    Kind.STATE: State,
    Kind.CONDITION: Condition,
    Kind.TIER: Tier,
    Kind.SATURATED: Resource,
    Kind.PRESSED: Resource,
    Kind.WASTE: Cause,
    Kind.WASTE_JOULES: Cause,
}
_JOULES: Final = "joules"
_SECONDS: Final = "seconds"
_Word = TypeVar("_Word", bound=StrEnum)
_Places = Mapping[str, int]


class Sums:
    """What adds up, column by column; days of one layout are added at once."""

    def __init__(self) -> None:
        self._found: dict[Layout, list[float]] = {}

    def add(self, layout: Layout, sums: Sequence[float]) -> None:
        """Add those of some stretches."""
        mine = self._found.get(layout)
        self._found[layout] = list(sums) if mine is None else list(map(add, mine, sums))

    def window(  # noqa: PLR0913 # What a window is made of.
        self,
        subject: str,
        start: Nanoseconds,
        end: Nanoseconds,
        span: Nanoseconds,
        *,
        demands: Demands,
        blocks: Blocks,
    ) -> Window:
        """The window.

        Args:
            subject: Whose it is.
            start: Where it begins.
            end: Where it ends.
            span: All its time; what has no state of it is unknown.
            demands: What was used over it.
            blocks: Its five minutes.
        """
        states = self._states(span)
        known = sum(states.values()) - states.get(State.UNKNOWN, 0)
        found = demands.found(states, known)
        return Window(
            uuid=subject,
            start=start,
            end=end,
            states=states,
            conditions=self._times(Kind.CONDITION, Condition),
            tiers=self._times(Kind.TIER, Tier),
            saturated=self._times(Kind.SATURATED, Resource),
            pressed=self._times(Kind.PRESSED, Resource),
            waste_seconds=self._of(Kind.WASTE, Cause),
            waste_joules=self._of(Kind.WASTE_JOULES, Cause),
            used_seconds=self._one(Kind.USED, _SECONDS),
            used_joules=self._one(Kind.USED, _JOULES),
            energy_joules=self._one(Kind.ENERGY, _JOULES),
            demands=found.demands,
            compute_at_least=found.compute_at_least,
            blocks=blocks,
        )

    def _states(self, span: Nanoseconds) -> dict[State, Nanoseconds]:
        found = self._times(Kind.STATE, State)
        found.pop(State.UNKNOWN, None)
        beyond = sum(found.values()) - span
        if beyond > 0:  # By what rounding made of it.
            largest = max(found, key=lambda state: found[state])
            found[largest] -= beyond
        elif beyond < 0:
            found[State.UNKNOWN] = -beyond
        return found

    def _times(self, kind: Kind, words: Callable[[str], _Word]) -> dict[_Word, Nanoseconds]:
        found = self._of(kind, words)
        return {word: round(each * NANOSECONDS_PER_SECOND) for word, each in found.items()}

    def _of(self, kind: Kind, words: Callable[[str], _Word]) -> dict[_Word, float]:
        found: dict[_Word, float] = {}
        for layout, sums in self._found.items():
            for name, place in _places(layout)[kind].items():
                if sums[place] > 0:
                    word = words(name)
                    found[word] = found.get(word, 0.0) + sums[place]
        return found

    def _one(self, kind: Kind, name: str) -> float:
        return sum(
            sums[place]
            for layout, sums in self._found.items()
            if (place := _places(layout)[kind].get(name)) is not None
        )


@lru_cache(maxsize=256)
def _places(layout: Layout) -> Mapping[Kind, _Places]:
    """By kind and name, where a column stands; names that nobody knows are left out."""
    found: dict[Kind, dict[str, int]] = {kind: {} for kind in Kind}
    for place, column in enumerate(layout.columns):
        words = _WORDS.get(column.kind)
        if words is None or column.name in set(words):
            found[column.kind][column.name] = place
    return found
