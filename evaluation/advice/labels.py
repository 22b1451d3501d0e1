"""Hand-made labels of sizes, sharing and forecasts, which no truth of a tick decides."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.io.yaml import load_yaml
from rightsizer.model.finding import Reason

FILE: Final = Path(__file__).parent / "labels.yaml"
EVERYWHERE: Final = "everywhere"
"""Stands for a scenario's name, and for a workload's."""


class Label(Struct, frozen=True):
    """Of one workload."""

    expected: frozenset[Reason] = frozenset()
    """Any of them is as right; one of them must come."""
    tolerated: frozenset[Reason] = frozenset()
    """Neither right nor wrong."""


class Labels(Struct, frozen=True):
    """Of all workloads, by the names of scenario and workload."""

    of: Mapping[tuple[str, str], Label] = {}

    @classmethod
    def load(cls, path: Path = FILE) -> "Labels":
        """Read the labels of a file."""
        data = load_yaml(path.read_text(encoding="utf-8"), path.name).data
        return cls(
            {
                (scenario, workload): Label(*(_reasons(entry, kind) for kind in _KINDS))
                for scenario, workloads in data.items()
                for workload, entry in workloads.items()
            }
        )

    def label(self, scenario: str, workload: str) -> Label:
        """Labels of a workload, with those of all workloads."""
        keys = [(scenario, workload), (scenario, EVERYWHERE), (EVERYWHERE, EVERYWHERE)]
        found = [self.of[key] for key in keys if key in self.of]
        return Label(
            frozenset().union(*(each.expected for each in found)),
            frozenset().union(*(each.tolerated for each in found)),
        )


_KINDS: Final = ("expected", "tolerated")


def _reasons(entry: Mapping[str, list[str]], kind: str) -> frozenset[Reason]:
    return frozenset(map(Reason, entry.get(kind, ())))
