"""Whether the published probability that work resumes soon is what happens.

Pods are left out in turn: what is said of one is learned from its own past and from other pods.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from evaluation.traces.reclaim import MINUTE, SOON
from measured import as_rows, summarized, table
from rightsizer.accounting.idle_gaps import idle_gaps
from rightsizer.advice.resumption import ResumptionModel
from rightsizer.advice.rules.idle import IdleSettings
from rightsizer.model.block import BLOCK_SPAN, Block, Series
from rightsizer.model.pattern import IdleGap
from rightsizer.model.units import Nanoseconds, seconds

AGES: Final = tuple(minutes * MINUTE for minutes in (30, 60, 90, 120))
_AS_SHIPPED: Final = "as shipped, no past"
_BINS: Final = 5
_SHIPPED: Final = IdleSettings()
_BUSY: Final = _SHIPPED.busy_ratio
_FOLDS: Final = 5


class Spell(Struct, frozen=True):
    """An idle time as all of the trace shows it."""

    start: Nanoseconds
    end: Nanoseconds
    has_ended: bool
    """With work; False where the trace, or the pod, ended."""

    @property
    def gap(self) -> IdleGap:
        """As the product sees it."""
        return IdleGap(seconds(self.end - self.start), self.has_ended, self.start)

    def outcome(self, age: Nanoseconds) -> bool | None:
        """Whether work resumed soon after so much idleness; `None` if not recorded."""
        rest = self.end - self.start - age
        if rest >= SOON:
            return self.has_ended and rest == SOON
        return True if self.has_ended else None


class Forecast(Struct, frozen=True):
    """A probability that was published, and what happened."""

    age: Nanoseconds
    probability_ratio: float
    upper_bound_ratio: float
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


def forecasts(
    fleet: Mapping[str, Sequence[Block]], *, by_others: bool, by_own: bool
) -> Iterator[Forecast]:
    """Forecasts of resumption by pod and age of its idle time, cross-validated by fold.

    By what it ships with, by the pods of the other folds, and by the pod's own past before.
    """
    spells = {name: spells_of(blocks) for name, blocks in sorted(fleet.items())}
    prior = ResumptionModel.of_prior(_SHIPPED.resume_exponent, _SHIPPED.borrowed_gaps)
    for number, name in enumerate(spells):
        model = prior
        if by_others:
            others = [own for at, own in enumerate(spells.values()) if (at - number) % _FOLDS]
            model = prior.after(each.gap for own in others for each in own)
            model = model.borrowed(_SHIPPED.borrowed_gaps)
        for spell, age, has_resumed in _asked(spells[name]):
            known = [block for block in fleet[name] if block.start < spell.start]
            found = model.after(idle_gaps(Series.of(known), _BUSY)) if by_own else model
            about = seconds(age), seconds(SOON)
            yield Forecast(age, found.probability(*about), found.upper_bound(*about), has_resumed)


def calibration(fleet: Mapping[str, Sequence[Block]]) -> Iterator[str]:
    """Tables of what was published against what happened."""
    kinds = {
        _AS_SHIPPED: list(forecasts(fleet, by_others=False, by_own=False)),
        "other pods": list(forecasts(fleet, by_others=True, by_own=False)),
        "its own past, on what ships": list(forecasts(fleet, by_others=False, by_own=True)),
        "its own past, on other pods": list(forecasts(fleet, by_others=True, by_own=True)),
    }
    yield summarized(
        ((name, *_scores(said)) for name, said in kinds.items()),
        ("by", "forecasts", "said", "happened", "Brier score", "of the mean alone", "off by"),
        sums_up=lambda line: line[0] == _AS_SHIPPED,
    )
    yield ""
    by_age = table(
        (
            (name, f"{age // MINUTE} min", *_means(inside), f"{_bound(inside):.2f}")
            for name, said in (next(iter(kinds.items())), [*kinds.items()][-1])
            for age in AGES
            if (inside := [each for each in said if each.age == age])
        ),
        ("by", "idle for", "forecasts", "said", "happened", "upper bound, mean"),
    )
    yield as_rows(f"{by_age}\n")


def _bound(said: Sequence[Forecast]) -> float:
    return sum(each.upper_bound_ratio for each in said) / len(said)


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
