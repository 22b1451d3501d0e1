"""Index of advice by id, and of open ones and those in a trial by workload."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TypeVar

from rightsizer.model.values import Advice

_Place = TypeVar("_Place")


class AdviceIndex:
    """Index with constant-time queries. Not thread-safe."""

    def __init__(self, advice: Iterable[Advice] = ()) -> None:
        self._by_id: dict[str, Advice] = {}
        self._open: dict[tuple[str, str], dict[str, None]] = {}
        self._in_trial: dict[str, dict[str, None]] = {}
        self.open_count = 0
        for recommendation in advice:
            self.put(recommendation)

    def __iter__(self) -> Iterator[Advice]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, advice_id: str) -> Advice | None:
        """Advice by id, or `None`."""
        return self._by_id.get(advice_id)

    def put(self, advice: Advice) -> None:
        """Store advice in place of any previous version."""
        self._forget_place(advice.id)
        self._by_id[advice.id] = advice
        if advice.is_open:
            self._open.setdefault(_place(advice), {})[advice.id] = None
            self.open_count += 1
        if advice.trial_since is not None:
            self._in_trial.setdefault(advice.finding.key, {})[advice.id] = None

    def remove(self, advice_id: str) -> None:
        """Remove advice."""
        self._forget_place(advice_id)
        del self._by_id[advice_id]

    def open_of(self, key: str, rule: str) -> list[Advice]:
        """Open advice of a rule on a workload."""
        return [self._by_id[advice_id] for advice_id in self._open.get((key, rule), ())]

    @property
    def keys_in_trial(self) -> AbstractSet[str]:
        """Keys of workloads in a trial."""
        return self._in_trial.keys()

    def _forget_place(self, advice_id: str) -> None:
        if (former := self._by_id.get(advice_id)) is None:
            return
        if former.is_open:
            self.open_count -= 1
            _drop(self._open, _place(former), advice_id)
        if former.trial_since is not None:
            _drop(self._in_trial, former.finding.key, advice_id)


def _place(advice: Advice) -> tuple[str, str]:
    return advice.finding.key, advice.finding.rule


def _drop(places: dict[_Place, dict[str, None]], place: _Place, advice_id: str) -> None:
    del places[place][advice_id]
    if not places[place]:
        del places[place]
