"""Whether the published probability that work resumes soon is what happens."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evaluation.reclaim import MINUTE, SOON
from measured import table
from rightsizer.advice.rules.idle import IdleGap, IdleSettings, idle_gaps, resumption
from rightsizer.model.block import BLOCK_SPAN, Block
from rightsizer.model.units import Nanoseconds, seconds

__all__ = ["AGES", "Forecast", "Spell", "calibration", "forecasts", "pooled", "spells_of"]

AGES: Final = tuple(minutes * MINUTE for minutes in (30, 60, 90, 120))
_BINS: Final = 5
_BUSY: Final = IdleSettings().busy_ratio
_PROVEN_GAPS: Final = 20
"""From so many gaps on the product lets the probability count as a risk."""


@dataclass(frozen=True, slots=True)
class Spell:
    """An idle time as all of the trace shows it."""

    start: Nanoseconds
    end: Nanoseconds
    has_ended: bool
    """With work; False where the trace, or the pod, ended."""

    def seen_at(self, time: Nanoseconds) -> IdleGap:
        """What was known of it at a time."""
        return IdleGap(
            seconds(min(self.end, time) - self.start), self.has_ended and self.end <= time
        )

    def outcome(self, age: Nanoseconds) -> bool | None:
        """Whether work resumed soon after so much idleness; `None` where nobody saw."""
        rest = self.end - self.start - age
        if rest >= SOON:
            return self.has_ended and rest == SOON
        return True if self.has_ended else None


@dataclass(frozen=True, slots=True)
class Forecast:
    """A probability that was published, and what happened."""

    probability_ratio: float
    gaps: int
    has_resumed: bool


def spells_of(blocks: Sequence[Block]) -> list[Spell]:
    """The idle times of a pod, oldest first; where a block is missing, one is cut off."""
    found: list[Spell] = []
    start: Nanoseconds | None = None
    followers: list[Block | None] = [*blocks[1:], None]
    for block, following in zip(blocks, followers, strict=True):
        if block.mean >= _BUSY:
            continue
        start = block.start if start is None else start
        end = block.start + BLOCK_SPAN
        if following is None or following.start != end:
            found.append(Spell(start, end, has_ended=False))
            start = None
        elif following.mean >= _BUSY:
            found.append(Spell(start, end, has_ended=True))
            start = None
    return found


def forecasts(fleet: Mapping[str, Sequence[Block]]) -> Iterator[Forecast]:
    """What the product says of each pod by its own past, at each age of an idle time."""
    for blocks in fleet.values():
        for spell, age, has_resumed in _asked(spells_of(blocks)):
            known = [block for block in blocks if block.start < spell.start + age]
            said = resumption(idle_gaps(known, _BUSY), seconds(age), seconds(SOON))
            if said is not None:
                yield Forecast(said.probability_ratio, said.gaps, has_resumed)


def pooled(fleet: Mapping[str, Sequence[Block]]) -> Iterator[Forecast]:
    """What it would say by the past of all pods together."""
    spells = sorted(
        (spell for blocks in fleet.values() for spell in spells_of(blocks)),
        key=lambda spell: spell.start,
    )
    for spell, age, has_resumed in _asked(spells):
        now = spell.start + age
        known = (
            each.seen_at(now) for each in spells if each.start + age < now and each is not spell
        )
        said = resumption(known, seconds(age), seconds(SOON))
        if said is not None:
            yield Forecast(said.probability_ratio, said.gaps, has_resumed)


def calibration(fleet: Mapping[str, Sequence[Block]]) -> Iterator[str]:
    """Tables of what was published against what happened."""
    own = list(forecasts(fleet))
    kinds = (
        ("its own past", own),
        (f"its own past, {_PROVEN_GAPS} gaps", [each for each in own if each.gaps >= _PROVEN_GAPS]),
        ("the fleet's past", list(pooled(fleet))),
    )
    yield table(
        ((name, *_scores(said)) for name, said in kinds),
        ("by", "forecasts", "said", "happened", "Brier score", "of the mean alone", "off by"),
    )
    yield ""
    yield table(
        (
            (name, f"{low:.1f}-{low + 1 / _BINS:.1f}", *_means(inside))
            for name, said in kinds
            for low in (number / _BINS for number in range(_BINS))
            if (inside := [each for each in said if _bin(each) == round(low * _BINS)])
        ),
        ("by", "said between", "forecasts", "said", "happened"),
    )


def _asked(spells: Iterable[Spell]) -> Iterator[tuple[Spell, Nanoseconds, bool]]:
    for spell in spells:
        for age in AGES:
            if spell.end - spell.start > age:
                outcome = spell.outcome(age)
                if outcome is not None:
                    yield spell, age, outcome


def _bin(forecast: Forecast) -> int:
    return min(_BINS - 1, int(forecast.probability_ratio * _BINS))


def _means(said: Sequence[Forecast]) -> tuple[str, str, str]:
    count = len(said)
    mean = sum(each.probability_ratio for each in said) / count
    return f"{count}", f"{mean:.2f}", f"{sum(each.has_resumed for each in said) / count:.2f}"


def _scores(said: Sequence[Forecast]) -> tuple[str, ...]:
    """With the mean distance of a bin's words from what happened (expected calibration error)."""
    if not said:
        return "0", "", "", "", "", ""
    rate = sum(each.has_resumed for each in said) / len(said)
    brier = sum((each.probability_ratio - each.has_resumed) ** 2 for each in said) / len(said)
    sums = [0.0] * _BINS
    for each in said:
        sums[_bin(each)] += each.probability_ratio - each.has_resumed
    error = sum(map(abs, sums)) / len(said)
    return *_means(said), f"{brier:.3f}", f"{rate * (1 - rate):.3f}", f"{error:.3f}"
