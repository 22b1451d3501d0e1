"""Connection to NVML: keeps it open, reopens it with back-off, calls from its own worker."""

import itertools
import time
from collections.abc import Callable, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.io.clock import Clock
from rightsizer.io.worker import Crashed, Stuck, Worker
from rightsizer.model.values import Missing, Nanoseconds, nanoseconds
from rightsizer.telemetry.nvml.driver import NvmlDriver, explain
from rightsizer.telemetry.nvml.inventory import Inventory, StuckProbes
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.settings import LiveSettings

_OPENING: Final = "NVML is being opened"
_SEARCH_RATIO: Final = 0.1
"""Wait between searches for what is away, of the time that it has been: its unknown time is at most
a tenth longer than its absence. A search disturbs no GPU."""
_REOPENING_RATIO: Final = 1.0
"""Reopening costs the GPUs that respond a reading each: the waits double."""
_MOST_GPUS: Final = 16
"""Upper bound of a node."""
_RELEASED: Final = NvmlFailure(Missing.RELEASED, "nvmlShutdown", "released")


class BackOff:
    """Waits that are a share of the time since the first one, between two bounds."""

    def __init__(self, first_seconds: float, longest_seconds: float, ratio: float) -> None:
        self._first = nanoseconds(first_seconds)
        self._longest = nanoseconds(longest_seconds)
        self._ratio = ratio
        self._since: Nanoseconds | None = None

    def wait(self, now: Nanoseconds) -> Nanoseconds:
        """Return how long to wait from now on; the first call begins."""
        if self._since is None:
            self._since = now
        return min(max(self._first, round(self._ratio * (now - self._since))), self._longest)

    def reset(self) -> None:
        """Start over with the first wait."""
        self._since = None


class _Release(Enum):
    """Progress of a release of NVML on request."""

    NONE = auto()
    WANTED = auto()
    UNDER_WAY = auto()
    DONE = auto()


class NvmlConnection:
    """NVML as seen by the coordinator: the current inventory, or why there is none."""

    def __init__(
        self, *, clock: Clock, settings: LiveSettings, catalogue: Catalogue, sysfs: Path, root: Path
    ) -> None:
        generations = itertools.count()
        self.stuck_probes = StuckProbes()
        self._clock = clock
        self._settings = settings
        self._worker: Worker[NvmlDriver, Inventory | NvmlFailure] = Worker(
            "nvml",
            lambda: NvmlDriver(
                generations, catalogue, sysfs, self.stuck_probes, lambda: self.inventory, root=root
            ),
            abandon_after_seconds=0.0,  # `_is_given_up` decides.
            # Threads that hang during enumeration are each at another GPU.
            abandoned_maximum=_MOST_GPUS * settings.abandoned_threads_maximum,
            moved_at=lambda driver: driver.library.asked_at,
        )
        waits = settings.retry_first_seconds, settings.retry_longest_seconds
        self._opening_back_off = BackOff(*waits, _SEARCH_RATIO)
        self._missing_back_off = BackOff(*waits, _SEARCH_RATIO)
        self._reopening_back_off = BackOff(*waits, _REOPENING_RATIO)
        self._due = clock.time()
        self._next_opening = self._due
        self._next_reopening = self._due
        self._enumerated = self._due
        self._reopening = False
        self._retired: tuple[Worker[Any, Any], ...] = ()
        self._is_waiting = self._is_outdated = False
        self._abandoned = 0
        self._release = _Release.NONE
        self.inventory: Inventory | None = None
        self.trouble: str | None = _OPENING
        self.reason = Missing.LOST
        self.cause = ""
        """What the driver said when it refused to open."""

    @property
    def is_released(self) -> bool:
        """Whether NVML was released and no thread is left inside it."""
        workers = (self._worker, *self._retired)
        return self._release is _Release.DONE and not any(worker.abandoned for worker in workers)

    @property
    def abandoned(self) -> int:
        """Number of threads that hang during enumeration and were abandoned."""
        return self._worker.abandoned

    @property
    def may_reopen(self) -> bool:
        """Whether the back-off since the last reopening is over."""
        return self._clock.time() >= self._next_reopening

    def advance(self, deadline: float) -> None:
        """Take the result of an enumeration, and start the next one when due.

        Waits for a result, until a point on the monotonic clock, only while there is no inventory.
        """
        if self._release is not _Release.NONE:
            self._advance_release()
            return
        abandoned = self._abandoned
        self._abandoned = self.abandoned
        if self._abandoned < abandoned:
            self.retry_soon()  # A thread came back, and with it perhaps its GPU.
        if not self._is_waiting and self._clock.time() >= self._due:
            self._enumerate()
        if self._is_waiting and self.inventory is not None:
            self._take_answer(time.monotonic())
        while self._is_waiting and self.inventory is None and time.monotonic() < deadline:
            self._take_answer(min(deadline, time.monotonic() + max(0.0, self._first_patience_left)))
            if self._first_patience_left <= 0.0 and self._is_waiting:
                self._take_answer(deadline)  # The hanging call cannot be skipped.

    def retry_soon(self) -> None:
        """Enumerate again within the shortest retry interval: a device has changed."""
        if self.inventory is None:
            return  # Already under way.
        self._is_outdated = True
        soon = self._clock.time() + nanoseconds(self._settings.retry_first_seconds)
        self._due = min(self._due, soon)

    def seek(self, *, are_missing: bool) -> None:
        """Enumerate again soon while known devices are missing, less often the longer they are."""
        if self.inventory is None:
            return  # Already under way.
        if not are_missing:
            self._missing_back_off.reset()
            return
        wait = self._missing_back_off.wait(self._clock.time())
        self._due = min(self._due, self._enumerated + wait)

    def reopen(self, retired: Sequence[Worker[Any, Any]], reason: str) -> None:
        """Shut NVML down and open it again when the back-off allows.

        `retired` are closed workers that may still hold handles of this opening.
        """
        self._retired = tuple(retired)
        self._reopening = True
        now = self._clock.time()
        self._due = max(now, self._next_opening)
        self._next_opening = self._due + self._opening_back_off.wait(now)
        self._next_reopening = now + self._reopening_back_off.wait(now)
        self.inventory = None
        self.trouble = reason

    def release(self, retired: Sequence[Worker[Any, Any]], reason: str) -> None:
        """Shut NVML down until `resume`.

        `retired` are closed workers that may still hold handles of this opening.
        """
        if self._release is _Release.NONE:
            self._release = _Release.WANTED
            self._retired = tuple(retired)
        self.inventory = None
        self.trouble = reason
        self.reason = Missing.RELEASED

    def resume(self) -> None:
        """Open NVML again after a release."""
        if self._release is not _Release.NONE:
            self._release = _Release.NONE
            self._retired = ()
            self._due = self._clock.time()
            self.trouble = _OPENING
            self.reason = Missing.LOST

    def confirm(self, *, all_respond: bool) -> None:
        """Reset the back-off of openings, as devices respond; that of reopenings once all do."""
        self._opening_back_off.reset()
        if all_respond:
            self._reopening_back_off.reset()

    def close(self, deadline: float) -> None:
        """Shut NVML down; give up at the deadline if it hangs."""
        self._worker.close()
        self._worker.join(deadline)

    def _advance_release(self) -> None:
        """Discard the pending answer, then close; wait for a call that hangs."""
        if self._is_waiting:
            self._is_waiting = isinstance(self._worker.answer(time.monotonic()), Stuck)
            if not self._is_waiting and self._release is _Release.UNDER_WAY:
                self._release = _Release.DONE
        if not self._is_waiting and self._release is _Release.WANTED:
            self._is_waiting = self._ask_after_close(lambda _: _RELEASED)
            if self._is_waiting:
                self._release = _Release.UNDER_WAY

    def _enumerate(self) -> None:
        self._is_outdated = False
        ask = self._ask_after_close if self._reopening else self._worker.ask
        if ask(NvmlDriver.find_devices):
            self._is_waiting = True

    def _ask_after_close(self, then: Callable[[NvmlDriver], Inventory | NvmlFailure]) -> bool:
        """Close NVML once the retired workers hold nothing, then call `then`."""
        retired = self._retired
        wait_seconds = self._settings.deadline_seconds

        def close(driver: NvmlDriver) -> Inventory | NvmlFailure:
            deadline = time.monotonic() + wait_seconds
            for worker in retired:
                worker.join(deadline)
            driver.close()
            return then(driver)

        return self._worker.ask(close)

    def _take_answer(self, deadline: float) -> None:
        answer = self._worker.answer(deadline)
        if isinstance(answer, Stuck):
            if self.inventory is None:
                call = answer.state.library.asking if answer.state is not None else None
                self.trouble = (
                    f"NVML is slow: it is not open after {answer.seconds:.1f} s"
                    if answer.still_seconds < self._settings.hung_after_seconds
                    else f"NVML hangs in {call or 'opening'} for {answer.still_seconds:.1f} s"
                )
            # Enumeration of many GPUs is slow and must not be restarted while calls return.
            if self._is_given_up(answer):
                self._enumerate()
            return
        self._is_waiting = False
        if isinstance(answer, Inventory):
            self._accept(answer)
        elif isinstance(answer, NvmlFailure) and answer.reason is Missing.RELEASED:
            self._enumerate()  # Resumed while the release was under way.
        else:
            self._refuse(answer)

    @property
    def _first_patience_seconds(self) -> float:
        """Time that one GPU may delay the first enumeration; shorter the more GPUs hang."""
        settings = self._settings
        longest = min(settings.first_look_patience_seconds, settings.hung_after_seconds)
        return longest * max(1 / 8, 1 / (1 + self.abandoned) ** 2)

    @property
    def _first_patience_left(self) -> float:
        return self._first_patience_seconds - self._worker.stuck().still_seconds

    def _is_given_up(self, stuck: Stuck[NvmlDriver]) -> bool:
        """Whether another thread takes over the enumeration.

        Before the first inventory a GPU that hangs would block all others, so it is skipped early;
        if it was only slow, it is found once its thread comes back.
        """
        settings = self._settings
        driver = stuck.state
        if self.inventory is None and driver and self.stuck_probes.holds(driver.library):
            return stuck.still_seconds >= self._first_patience_seconds
        return (
            stuck.still_seconds >= settings.abandon_after_seconds
            and self.abandoned < settings.abandoned_threads_maximum
        )

    def _accept(self, inventory: Inventory) -> None:
        self._reopening = False
        self._retired = ()
        self.inventory = inventory
        self.cause = ""
        self._enumerated = self._clock.time()
        offers = inventory.gpus or inventory.unopened
        interval = nanoseconds(self._settings.enumeration_interval_seconds)
        self.trouble = None if offers else "the NVIDIA driver offers no GPU on this node"
        if self._is_outdated:  # Something changed since this enumeration began.
            interval = min(interval, nanoseconds(self._settings.retry_first_seconds))
        self._due = self._enumerated + interval

    def _refuse(self, answer: NvmlFailure | Crashed) -> None:
        if isinstance(answer, Crashed):
            answer = NvmlFailure(Missing.FAILED, "enumeration", repr(answer.error))
        if answer.driver_is_gone or self.inventory is None:
            self.inventory = None
            self.trouble = explain(answer)
            self.cause = answer.down.cause
            is_asleep = answer.reason is Missing.SUSPENDED
            self.reason = Missing.SUSPENDED if is_asleep else Missing.LOST
        now = self._clock.time()
        self._due = now + self._opening_back_off.wait(now)
