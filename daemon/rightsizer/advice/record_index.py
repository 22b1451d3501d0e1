"""Index of advice records by id, and of open ones and those in a trial by workload."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TypeVar

from rightsizer.advice.verification import AdviceRecord

_Place = TypeVar("_Place")


class RecordIndex:
    """Index with constant-time queries. Not thread-safe."""

    def __init__(self, records: Iterable[AdviceRecord] = ()) -> None:
        self._records: dict[str, AdviceRecord] = {}
        self._open: dict[tuple[str, str], dict[str, None]] = {}
        self._in_trial: dict[str, dict[str, None]] = {}
        self.open_count = 0
        for record in records:
            self.put(record)

    def __iter__(self) -> Iterator[AdviceRecord]:
        return iter(self._records.values())

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, advice_id: str) -> AdviceRecord:
        return self._records[advice_id]

    def get(self, advice_id: str) -> AdviceRecord | None:
        """Record by id, or `None`."""
        return self._records.get(advice_id)

    def put(self, record: AdviceRecord) -> None:
        """Store a record in place of any previous version."""
        self._forget_place(record.advice.id)
        self._records[record.advice.id] = record
        if record.advice.is_open:
            self._open.setdefault(_place(record), {})[record.advice.id] = None
            self.open_count += 1
        if record.trial_since is not None:
            self._in_trial.setdefault(record.key, {})[record.advice.id] = None

    def remove(self, advice_id: str) -> None:
        """Remove a record."""
        self._forget_place(advice_id)
        del self._records[advice_id]

    def open_of(self, key: str, rule: str) -> list[AdviceRecord]:
        """Open advice of a rule on a workload."""
        return [self._records[advice_id] for advice_id in self._open.get((key, rule), ())]

    @property
    def open_places(self) -> AbstractSet[tuple[str, str]]:
        """Workload key and rule of all open advice."""
        return self._open.keys()

    @property
    def keys_in_trial(self) -> AbstractSet[str]:
        """Keys of workloads in a trial."""
        return self._in_trial.keys()

    def _forget_place(self, advice_id: str) -> None:
        if (former := self._records.get(advice_id)) is None:
            return
        if former.advice.is_open:
            self.open_count -= 1
            _drop(self._open, _place(former), advice_id)
        if former.trial_since is not None:
            _drop(self._in_trial, former.key, advice_id)


def _place(record: AdviceRecord) -> tuple[str, str]:
    return record.key, record.advice.finding.rule


def _drop(places: dict[_Place, dict[str, None]], place: _Place, advice_id: str) -> None:
    del places[place][advice_id]
    if not places[place]:
        del places[place]
