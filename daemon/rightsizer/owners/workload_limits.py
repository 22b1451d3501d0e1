"""Limits on workloads: named ones at once, and those of one answer of a scheduler."""

import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, NamedTuple, Self

from msgspec.structs import replace

from rightsizer.model.values import Holding, Refusal, Workload, WorkloadKind
from rightsizer.owners.collector_settings import OwnerCollectorSettings

Allocations = Mapping[str, tuple[Workload, ...]]
"""Workloads by the key of an allocated device: uuid of a GPU or MIG instance, `index:N`, or a
lower-case PCI address such as `0000:1b:00.0`; for a MIG instance also its GPU's key and number,
such as `index:0/gi7`."""

OTHER_WORKLOADS: Final = Workload(
    "other", WorkloadKind.OTHER, "other", unproven="it is the sum of workloads without a name"
)
"""Aggregate of all workloads beyond the limit."""
_KEYS_MAXIMUM: Final = 1024
"""Source: 32 GPUs of eight MIG instances, each by uuid, index and address."""


class LimitedAllocations(NamedTuple):
    """Allocations of one answer, and what was left out of it."""

    allocations: Allocations
    refusal: Refusal | None = None


def limited_allocations(allocations: Allocations, workloads_maximum: int) -> LimitedAllocations:
    """Limit the devices and workloads of an answer; further workloads become one."""
    names = _Names(workloads_maximum)
    kept = {
        key: tuple(dict.fromkeys(map(names.name, workloads)))
        for key, workloads in islice(allocations.items(), _KEYS_MAXIMUM)
    }
    devices = len(allocations) - len(kept)
    return LimitedAllocations(kept, refusal_of(devices, len(names.others)))


def limited_holdings(
    holdings: Mapping[str, tuple[Holding, ...]], workloads_maximum: int
) -> tuple[Mapping[str, tuple[Holding, ...]], int]:
    """Limit the workloads of an answer; return the number of those that became one."""
    names = _Names(workloads_maximum)
    limited = {uuid: with_names(held, names.name) for uuid, held in holdings.items()}
    return limited, len(names.others)


def with_names(
    holdings: tuple[Holding, ...], name: Callable[[Workload], Workload]
) -> tuple[Holding, ...]:
    """Rename the holders of a device; shares of the same holder are added."""
    holdings_by_workload: dict[Workload, Holding] = {}
    for holding in holdings:
        workload = name(holding.workload)
        before = (
            holdings_by_workload[workload].share_ratio if workload in holdings_by_workload else 0.0
        )
        share_ratio = min(1.0, before + holding.share_ratio)
        holdings_by_workload[workload] = replace(
            holding, workload=workload, share_ratio=share_ratio
        )
    return tuple(holdings_by_workload.values())


def refusal_of(devices: int, holders: int) -> Refusal | None:
    """Describe what was left out of an answer; `None` if nothing was."""
    reasons = []
    if devices:
        reasons.append(f"{devices} devices are not this node's: check whose address is configured")
    if holders:
        reasons.append(
            f"{holders} holders are summed up as 'other': raise sources.owners.workloads_maximum"
        )
    return Refusal(devices + holders, "; ".join(reasons)) if reasons else None


class _Names:
    """Names the first workloads of an answer, by key."""

    def __init__(self, workloads_maximum: int) -> None:
        self._workloads_maximum = workloads_maximum
        self._named: set[str] = set()
        self.others: set[str] = set()

    def name(self, workload: Workload) -> Workload:
        key = workload.key
        if key not in self._named:
            if len(self._named) >= self._workloads_maximum:
                self.others.add(key)
                return OTHER_WORKLOADS
            self._named.add(key)
        return workload


class WorkloadNameLimiter:
    """Limits the number of named workloads; those not seen for a while are replaced.

    One serves all sources of a node, on several threads.
    """

    def __init__(
        self, workloads_maximum: int, hold_seconds: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.workloads_maximum = workloads_maximum
        self._hold_seconds = hold_seconds
        self._now = now
        self._seen: dict[str, float] = {}
        self._is_full = False

    @classmethod
    def of(
        cls, settings: OwnerCollectorSettings, now: Callable[[], float] = time.monotonic
    ) -> Self:
        """Create it by the settings."""
        return cls(settings.workloads_maximum, settings.time_to_live_seconds, now)

    def __len__(self) -> int:
        return len(self._seen)

    def name(self, workload: Workload) -> Workload:
        """Return the workload, or `OTHER_WORKLOADS` beyond the limit."""
        now = self._now()
        if workload.key not in self._seen and not self._has_room(now):
            return OTHER_WORKLOADS
        self._seen[workload.key] = now
        return workload

    def _has_room(self, now: float) -> bool:
        if len(self._seen) < self.workloads_maximum:
            return True
        since = now - self._hold_seconds
        # Copied at once: another thread may name a workload.
        items = tuple(self._seen.items())
        self._seen = {key: seen for key, seen in items if seen >= since}
        was_full = self._is_full
        self._is_full = len(self._seen) >= self.workloads_maximum
        if self._is_full and not was_full:
            # Imported on use, for settings load the owners' instructions, and no log.
            from rightsizer.io.log import logger  # noqa: PLC0415

            logger("owners").warning(
                "workloads_beyond_bound",
                workloads_maximum=self.workloads_maximum,
                remedy="the others are summed up as 'other'; raise workloads_maximum to name them",
            )
        return not self._is_full
