"""What workloads waste and suffer, worked out for those that are asked about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rightsizer.advice.measurement import Measurement, measure_all
from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.cases.batch import Order, batches_of, read_batch
from rightsizer.fleet.cases.case import CaseSettings, FleetCases
from rightsizer.fleet.cases.roster import Roster
from rightsizer.fleet.kept.shelf import Shelf

__all__ = ["Measuring"]


class Measuring:
    """A `Measured` of some workloads, and of others to compare them with."""

    def __init__(
        self,
        shelf: Shelf,
        order: Order,
        keys: Iterable[str],
        peers: int = 32,
        settings: CaseSettings | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            shelf: Where days are kept.
            order: Of the whole estate.
            keys: Who is asked about; those that have gone are passed over.
            peers: How many others stand for the rest of the estate.
            settings: Thresholds.
        """
        self._shelf, self._settings = shelf, settings
        present = order.roster.present
        asked = [key for key in dict.fromkeys(keys) if key in present]
        others = sorted(order.roster.ever.keys() & present.keys() - set(asked))
        # Evenly from the alphabet, so that they stay the same from look to look.
        step = max(1, len(others) // peers) if peers else 1
        wanted = [*asked, *others[::step][:peers]] if asked else []
        roster = Roster({key: present[key] for key in sorted(wanted)}, order.roster.ever)
        self._orders = list(batches_of(replace(order, roster=roster)))
        self._found: dict[Nanoseconds, dict[str, Measurement]] = {}

    def __call__(self, span: Nanoseconds) -> Mapping[str, Measurement]:
        """What is measured over the last span of time, by key."""
        if span not in self._found:
            found: dict[str, Measurement] = {}
            for order in self._orders:
                batch = FleetCases(read_batch(self._shelf, order), order.now, self._settings)
                found |= measure_all(batch.cases(span))
            self._found[span] = found
        return self._found[span]
