"""Node labels for Kubernetes: facts of a report, and debounced health of each GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rightsizer.agent.settings import LabelSettings
from rightsizer.io.clock import Clock
from rightsizer.io.files import whole_file
from rightsizer.model.values import Nanoseconds, Report, Topology, nanoseconds

if TYPE_CHECKING:
    from rightsizer.broker.slot import LeaseSlot
    from rightsizer.report.schedulers import NodeFacts


_WHAT = "the feature file"


def facts_of(report: Report, healthy: Iterable[str]) -> NodeFacts:
    """Return the facts that labels are made of."""
    from rightsizer.report.schedulers import NodeFacts  # noqa: PLC0415

    return NodeFacts(
        devices=tuple(device.device for device in report.devices),
        topology=report.node.topology or Topology(),
        healthy=frozenset(healthy),
    )


@dataclass(slots=True)
class _Health:
    """Published health of a GPU, and since when readings differ from it."""

    is_healthy: bool
    differs_since: Nanoseconds | None = None


class LabelWriter:
    """Keeps the feature file up to date; `write` is run as a job."""

    def __init__(
        self,
        settings: Callable[[], LabelSettings],
        latest: Callable[[], Report | None],
        slots: Callable[[Report], tuple[LeaseSlot, ...]],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._latest = latest
        self._slots = slots
        self._clock = clock
        self._health: dict[str, _Health] = {}

    def write(self) -> None:
        """Write the file, if one is configured and a report has devices.

        Before the first report, and while there are no devices, the last file is kept until it
        expires: a driver update must not move every pod.

        Raises:
            RightsizerError: the file cannot be written.
        """
        settings = self._settings()
        report = self._latest()
        if not settings.file or report is None or not report.devices:
            return
        # Imported on use: most nodes write no labels.
        from rightsizer.report.schedulers import feature_file, labels  # noqa: PLC0415

        self._update_health(self._slots(report), nanoseconds(settings.settled))
        healthy = (uuid for uuid, health in self._health.items() if health.is_healthy)
        expires = self._clock.wall_time() + nanoseconds(settings.expiry)
        text = feature_file(labels(facts_of(report, healthy)), expires)
        with whole_file(Path(settings.file), _WHAT) as file:
            file.write(text.encode())

    def _update_health(self, slots: tuple[LeaseSlot, ...], settled: Nanoseconds) -> None:
        now = self._clock.time()
        boards = [slot for slot in slots if slot.device.mig is None]
        present = {slot.uuid for slot in boards}
        self._health = {uuid: health for uuid, health in self._health.items() if uuid in present}
        for slot in boards:
            is_healthy = slot.trouble is None
            health = self._health.setdefault(slot.uuid, _Health(is_healthy))
            if health.is_healthy == is_healthy:
                health.differs_since = None
                continue
            health.differs_since = now if health.differs_since is None else health.differs_since
            if now - health.differs_since >= settled:
                self._health[slot.uuid] = _Health(is_healthy)
