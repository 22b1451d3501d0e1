"""HistoryService: restores the accounts from the history, writes their windows, prunes it."""

import threading
from collections import Counter
from typing import Final

from rightsizer.accounting.history import HistoryRepository
from rightsizer.accounting.served import SERVED_KEPT
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import HistorySettings
from rightsizer.advice.storage import Storage
from rightsizer.io.clock import Clock, wall_offset
from rightsizer.io.database import SLOW_SECONDS
from rightsizer.io.log import logger
from rightsizer.model.values import (
    DAY,
    Device,
    HistoryError,
    Nanoseconds,
    nanoseconds,
    seconds,
    utc_text,
)

_RESTORED: Final = 30 * DAY
_SET_BACK: Final = DAY
"""Records further in the future come from a wrong clock, and would make all others look too old."""
_LAST_SEEN: Final[Nanoseconds] = nanoseconds(3600.0)
"""Devices without a window in the last hour of the history had left before the agent stopped."""
_LEAP: Final[Nanoseconds] = nanoseconds(3600.0)
"""Largest jump of the wall clock that is not taken for a wrong clock."""


class HistoryService:
    """Restoration at the start, jobs `flush` and `prune`, and counters of their failures."""

    def __init__(
        self,
        accounting: AccountingService,
        storage: Storage,
        clock: Clock,
        settings: HistorySettings,
    ) -> None:
        self._accounting = accounting
        self._storage = storage
        self._clock = clock
        self.change_settings(settings)
        self._offset = wall_offset(clock)
        self._flushing = threading.Lock()
        self._rewritten_breaks = storage.database.breaks
        self._failures_in_row = 0
        self._served_until: Nanoseconds = 0
        """Wall time up to which hours of served models are in the history."""
        self._log = logger("recommender")
        self.counts: Counter[str] = Counter(
            {
                "history_writes": 0,
                "history_write_failures": 0,
                "history_breaks": storage.database.breaks,
                "history_slow_writes": 0,
                "history_windows_forgotten": 0,
                "history_windows_damaged": 0,
            }
        )

    def metrics(self) -> dict[str, float]:
        """Writes, slow and failed ones and breaks since the start, and the size."""
        metrics = {f"rightsizer_{name}_total": float(n) for name, n in self.counts.items()}
        if self._storage.history is not None:
            metrics["rightsizer_history_size_bytes"] = self._storage.history.size_bytes
        return metrics

    def change_settings(self, settings: HistorySettings) -> None:
        """Change the retention, from the next pruning on."""
        self._retention: Nanoseconds = nanoseconds(settings.retention)
        self._fine: Nanoseconds = nanoseconds(settings.fine_retention)

    def restore(self) -> tuple[int, tuple[Device, ...]]:
        """Restore the accounts; return the number of windows, and the devices present at their end.

        Raises:
            HistoryError: there is no history, or it cannot be read.
        """
        history = self._storage.kept_history
        now = self._clock.wall_time()
        devices = history.devices()
        windows = history.load(now - _RESTORED, now + _SET_BACK)
        restored = self._accounting.restore(devices, windows)
        self._accounting.restore_served(self._storage.served.load(now - SERVED_KEPT))
        since = restored.end - _LAST_SEEN
        records = history.present_devices()
        present = (e.device for e in records if restored.ends.get(e.device.uuid, -1) >= since)
        self._log_damage(history)
        return restored.number, tuple(present)

    def flush(self) -> None:
        """Write the windows closed since the last flush, and those still open."""
        with self._flushing:
            drained = self._accounting.drain_windows()
            try:
                if self._storage.save_windows(*drained):
                    self._rewrite_after_break()
                    self._save_served()
                    self.counts["history_writes"] += 1
            except HistoryError:
                self.counts["history_write_failures"] += 1
                self._failures_in_row += 1
                raise
            else:
                if self._failures_in_row:
                    failed = self._failures_in_row
                    self._failures_in_row = 0
                    self._log.info("history_writes_recovered", failed_flushes=failed)
            finally:
                self._log_history()

    def forget(self, uuid: str) -> bool:
        """Forget the accounts of a device that is gone; return whether the history knew it.

        Raises:
            HistoryError: the history cannot be written.
        """
        # A flush that has drained the device must not write it again afterwards.
        with self._flushing:
            is_known = self._accounting.forget(uuid)
            history = self._storage.history
            return (history is not None and history.forget(uuid)) or is_known

    def _save_served(self) -> None:
        """Write the hours of served models since the last write, the running one included."""
        now = self._clock.wall_time()
        self._storage.served.save(self._accounting.served_hours(self._served_until))
        self._served_until = now

    def _rewrite_after_break(self) -> None:
        """Write all windows in memory if the file was replaced since the last write."""
        if (breaks := self._storage.database.breaks) != self._rewritten_breaks:
            self._storage.rewrite_windows(*self._accounting.drain_all_windows())
            self._rewritten_breaks = breaks
            self._served_until = 0

    def prune(self) -> None:
        """Roll old windows up into hours, and delete those beyond the retention.

        Skipped once after the clock has leapt ahead: a wrong clock would delete everything.
        """
        history = self._storage.history
        now = self._clock.wall_time()
        before = self._offset
        self._offset = wall_offset(self._clock)
        if history is not None and self._offset - before <= _LEAP:
            history.roll_up(now - self._fine)
            history.prune(now - self._retention)
            self._storage.served.prune(now - SERVED_KEPT)

    def check(self) -> None:
        """Log a change that the disk has not taken yet; callable while `flush` hangs in it."""
        if self._storage.database.write_seconds > SLOW_SECONDS:
            self._log.warning("history_write_hangs", remedy=self._disk_remedy)

    @property
    def _disk_remedy(self) -> str:
        return f"check the disk or server of {self._storage.database.path}"

    def _log_history(self) -> None:
        """Log slow writes, each broken file and where it was moved, and once a full history."""
        database = self._storage.database
        if database.slow_writes > self.counts["history_slow_writes"]:
            self.counts["history_slow_writes"] = database.slow_writes
            seconds = round(database.last_slow_seconds, 1)
            self._log.warning("history_write_slow", seconds=seconds, remedy=self._disk_remedy)
        if self._storage.database.breaks > self.counts["history_breaks"]:
            self.counts["history_breaks"] = self._storage.database.breaks
            self._log_break()
        if (history := self._storage.history) is not None and history.forgotten:
            if not self.counts["history_windows_forgotten"]:
                self._log.warning(
                    "history_full",
                    size_bytes=history.size_bytes,
                    remedy="raise history.maximum_size, or lower history.retention",
                )
            self.counts["history_windows_forgotten"] = history.forgotten
        if history is not None:
            self._log_damage(history)

    def _log_damage(self, history: HistoryRepository) -> None:
        """Log once which windows cannot be decoded; readers of older ones may meet more."""
        damaged = tuple(history.damaged.values())
        if len(damaged) <= self.counts["history_windows_damaged"]:
            return
        self.counts["history_windows_damaged"] = len(damaged)
        lost = sum(max(0, window.end - window.start) for window in damaged)
        self._log.warning(
            "history_windows_damaged",
            windows=len(damaged),
            devices_and_workloads=len({window.uuid for window in damaged}),
            first=utc_text(seconds(min(window.start for window in damaged))),
            last=utc_text(seconds(max(window.end for window in damaged))),
            lost_hours=round(seconds(lost) / 3600.0, 2),
            remedy="their time is missing in windows and recommendations; restore the file from a "
            "backup with the agent stopped, or leave it: the retention ends it",
        )

    def _log_break(self) -> None:
        reason = self._storage.database.break_reason
        moved_to = self._storage.database.set_aside
        if moved_to is None:
            remedy = "keep other programs from the folder; a new history was begun from memory"
            self._log.error("history_lost", reason=reason, remedy=remedy)
        else:
            remedy = "inspect it; stop the agent before you restore a history"
            moved = str(moved_to)
            self._log.error("history_set_aside", reason=reason, moved_to=moved, remedy=remedy)
