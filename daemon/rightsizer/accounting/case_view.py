"""A case as it was looked at: taken under a lock in no time, worked out when that is free."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rightsizer.accounting.past import PastSettings, RememberedPast
from rightsizer.accounting.provisioning import ProvisioningSettings, provision
from rightsizer.accounting.recollection import Recollection
from rightsizer.domain.device import Device
from rightsizer.domain.finding import Case
from rightsizer.domain.node import Node
from rightsizer.domain.state import Resource
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.window import Window
from rightsizer.domain.workload import Allocator, Workload

__all__ = ["CaseView", "DeviceView", "allocator_of", "cases_of"]


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device of a case."""

    device: Device
    recollection: Recollection
    whole: Window | None
    """Everything that was posted, where the case is about that."""
    since: Nanoseconds
    """From when on it is held as it is now."""
    demands: Mapping[Resource, float]
    """What is needed of it now."""

    def window(self, start: Nanoseconds, end: Nanoseconds) -> Window:
        """Its window over a span of time, at most since it is held as it is."""
        if self.whole is not None:
            return replace(self.whole, blocks=self.recollection.blocks(start, end))
        return self.recollection.window(max(start, self.since), end)


@dataclass(frozen=True, slots=True)
class CaseView:
    """What a case is made of; it does not change."""

    key: str
    workload: Workload | None
    devices: tuple[DeviceView, ...]
    group: Recollection | None
    """Of the workload, where one is known."""
    start: Nanoseconds
    end: Nanoseconds
    provisioning: ProvisioningSettings
    past: PastSettings

    def case(self) -> Case:
        """The case that rules judge."""
        windows = tuple(view.window(self.start, self.end) for view in self.devices)
        return Case(
            key=self.key,
            workload=self.workload,
            devices=tuple(view.device for view in self.devices),
            windows=windows,
            provisioning=tuple(
                provision(window, allocator_of(self.workload), self.provisioning, view.demands)
                for view, window in zip(self.devices, windows, strict=True)
            ),
            past=self._past(),
        )

    def _past(self) -> RememberedPast:
        span = (self.start, self.end)
        if self.group is not None:
            return RememberedPast(self.group, *span, self.past)
        first, *others = self.devices
        if others:  # A workload of which nothing is remembered, as in a history of former times.
            return RememberedPast(None, *span, self.past)
        since = first.since if first.whole is None else 0
        return RememberedPast(
            first.recollection, max(self.start, since), self.end, self.past, since
        )


def allocator_of(workload: Workload | None) -> Allocator:
    """How a device's holder takes memory."""
    return Allocator.UNKNOWN if workload is None else workload.allocator


def cases_of(views: Iterable[CaseView], node: Node) -> tuple[Case, ...]:
    """The cases of a node, each of which knows the others."""
    cases = tuple(view.case() for view in views)
    around = replace(node, cases=cases)
    return tuple(replace(case, node=around) for case in cases)
