"""Counts the Xids of all GPUs on a thread of its own, for as long as the agent runs."""

import time
from collections.abc import Mapping
from typing import Final

import structlog

from rightsizer.domain.snapshot import CollectorOutcome
from rightsizer.domain.xid import CRITICAL_XIDS, XID_MEANINGS, XidLog
from rightsizer.edge.clock import Clock
from rightsizer.telemetry.nvml.event_set import EventSet, Heard, Xid
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.inventory import Gpu, Inventory
from rightsizer.telemetry.nvml.settings import LiveSettings
from rightsizer.telemetry.worker import Crashed, Stuck, Worker

__all__ = ["XidListener"]

_Followed = tuple[int, tuple[Gpu, ...]]
"""The generation and the GPUs that are listened to."""
_UNKNOWN: Final = "see NVIDIA's Xid catalog"


class XidListener:
    """What the driver reported of each device; counts outlive inventories and openings of NVML.

    Everything here is for the coordinator's thread, which never waits.
    """

    def __init__(self, *, clock: Clock, settings: LiveSettings) -> None:
        """Listens to nobody before it follows an inventory.

        Args:
            clock: Tells when an Xid was heard.
            settings: How patiently the driver is asked.
        """
        self._clock = clock
        self._settings = settings
        self._log = structlog.get_logger(component="xid")
        self._worker: Worker[EventSet, Heard] = Worker(
            "xid",
            lambda: EventSet(()),
            abandon_after_seconds=settings.abandon_after_seconds,
            abandoned_maximum=settings.abandoned_threads_maximum,
        )
        self._inventory: Inventory | None = None
        self._followed: _Followed | None = None
        self._asked_of: _Followed | None = None
        self._is_asking = False
        self._is_idle = True
        self._is_partial = False
        self.xids: Mapping[str, XidLog] = {}
        """By uuid; a device that nothing is heard of is missing, one without an Xid is not."""
        self.outcome: CollectorOutcome | None = None
        """Of the last look; `None` where no GPU has such events."""

    @property
    def workers(self) -> tuple[Worker[EventSet, Heard], ...]:
        """The worker, which holds an event set of the opening that it follows."""
        return (self._worker,)

    def follow(self, inventory: Inventory | None) -> None:
        """Listen to the GPUs of an inventory; `None` lets go of the driver."""
        if inventory is self._inventory:
            return
        self._inventory = inventory
        followed = None if inventory is None else (inventory.generation, inventory.gpus)
        # GPUs that could not be registered may be well again at the next look for devices.
        if followed is not None and followed == self._followed and not self._is_partial:
            return
        self._followed = followed
        gpus = () if inventory is None else inventory.gpus
        self._worker.renew(lambda: EventSet(gpus))
        self._is_idle = not gpus
        self._is_partial = False
        self.outcome = None

    def poll(self) -> None:
        """Take in what was heard, and listen on."""
        if self._is_asking:
            self._take()
        if not self._is_asking:
            self._ask()

    def close(self, deadline: float) -> None:
        """Free the event set and let the thread end; one that hangs is left behind.

        Args:
            deadline: How long to wait, a point on the monotonic clock.
        """
        self.follow(None)
        self._worker.close()
        self._worker.join(deadline)

    def _ask(self) -> None:
        if not self._is_idle and self._worker.ask(EventSet.look):
            self._is_asking = True
            self._asked_of = self._followed

    def _take(self) -> None:
        answer = self._worker.answer(time.monotonic())
        if isinstance(answer, Stuck):
            if answer.seconds >= self._settings.deadline_seconds:
                self.outcome = CollectorOutcome(success=False, duration_seconds=answer.seconds)
            # What is heard just now is not dropped, but fetched in the next tick.
            if answer.still_seconds >= self._settings.abandon_after_seconds:
                self._ask()
            return
        self._is_asking = False
        if isinstance(answer, Crashed):
            self._fail(repr(answer.error), 0.0)
        else:
            self._accept(answer)

    def _accept(self, heard: Heard) -> None:
        quiet = {uuid: XidLog({}) for uuid in heard.listening if uuid not in self.xids}
        if quiet:
            self.xids = {**self.xids, **quiet}
        for xid in heard.xids:
            self._note(xid)
        if self._asked_of != self._followed:
            return  # What was heard last of GPUs that are followed no longer.
        self._is_partial = heard.is_partial
        if heard.failure is not None:
            self._give_up(heard.failure, heard.duration_seconds)
        elif not heard.listening:
            self._is_idle = True  # None of these GPUs has such events.
        else:
            self.outcome = CollectorOutcome(not heard.is_partial, heard.duration_seconds)

    def _give_up(self, failure: Failure, duration_seconds: float) -> None:
        """Stop where asking again is of no use before the next inventory."""
        self._is_idle = failure.is_unsupported or failure.driver_is_gone
        if not failure.is_unsupported:
            self._fail(str(failure), duration_seconds)

    def _fail(self, reason: str, duration_seconds: float) -> None:
        self.outcome = CollectorOutcome(success=False, duration_seconds=duration_seconds)
        self._log.warning("xids_unheard", reason=reason)

    def _note(self, xid: Xid) -> None:
        is_critical = xid.code in CRITICAL_XIDS
        tell = self._log.error if is_critical else self._log.warning
        tell(
            "xid",
            code=xid.code,
            uuid=xid.uuid,
            meaning=XID_MEANINGS.get(xid.code, _UNKNOWN),
            critical=is_critical,
        )
        # A GPU's own count has those of its instances, which come and go, and it does not.
        for uuid in (xid.uuid, xid.parent_uuid):
            if uuid is not None:
                self._count(uuid, xid.code)

    def _count(self, uuid: str, code: int) -> None:
        known = self.xids.get(uuid)
        counts = {} if known is None else dict(known.counts)
        counts[code] = counts.get(code, 0) + 1
        log = XidLog(counts, code, self._clock.wall_time())
        self.xids = {**self.xids, uuid: log}
