"""Who held a device, and which part of it, by stretches of a day."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.workload import Workload
from rightsizer.fleet.estate import Held
from rightsizer.fleet.sources.agent.form import Form, Labels

__all__ = ["held", "shares_query"]

_LEAST: Final = 0.005
"""Half of what the store's answer is rounded to."""

_FORMS: Final = (
    (
        Form("uuid_workload:rightsizer_workload_share_ratio:avg5m", "sum_over_time"),
        Form("uuid:rightsizer_used_seconds:increase5m", "count_over_time"),
    ),
    (
        Form("rightsizer_workload_share_ratio", "sum_over_time"),
        Form("rightsizer_device_up", "count_over_time"),
    ),
)
"""Parts of a device, and how often there was anything to say of it: who held it for half of a
stretch has half of his part there."""


def shares_query(names: AbstractSet[str], labels: Labels, span: Nanoseconds) -> str | None:
    """The mean part over a span by device and workload; `None` where none is kept."""
    for parts, times in _FORMS:
        if parts.names <= names:
            whole = f"max by (uuid) ({times.promql(labels, span)})"
            part = f"max by (uuid, workload) ({parts.promql(labels, span)})"
            return f"round({part} / on (uuid) group_left () {whole}, 0.01)"
    return None


def held(shares: Mapping[str, array[float]], workloads: Mapping[str, Workload]) -> tuple[Held, ...]:
    """The parts of one device by workload, stretches with the same part as one.

    Args:
        shares: By key, the mean part over each stretch.
        workloads: By key.
    """
    totals = _totals(list(shares.values()))
    found = [
        Held(workloads[key], first, last, share)
        for key, parts in shares.items()
        for first, last, share in _runs(parts, totals)
    ]
    return tuple(sorted(found, key=lambda each: (each.first, each.workload.key)))


def _totals(columns: Sequence[array[float]]) -> Sequence[float]:
    if len(columns) == 1:
        return columns[0]
    return [sum(part for part in each if part > 0) for each in zip(*columns, strict=True)]


def _runs(parts: array[float], totals: Sequence[float]) -> Iterator[tuple[int, int, float]]:
    """First and last stretch of each run of the same share; those of one stretch sum to 1."""
    first, running = 0, 0.0
    is_even = totals is parts and parts.count(parts[0]) == len(parts)
    # The same holder all along, which is what most devices have, is one stretch's work.
    for place, part in enumerate(parts[:1] if is_even else parts):
        share = part / max(1.0, totals[place]) if part >= _LEAST else 0.0
        if share != running:
            if running:
                yield first, place - 1, running
            first, running = place, share
    if running:
        yield first, len(parts) - 1, running
