"""When a job runs next: an interval after its last run, wherever the wall clock is by then."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta

from apscheduler.triggers.base import BaseTrigger


class Every(BaseTrigger):  # type: ignore[misc] # The library has no types.
    """A trigger that counts no runs that were missed.

    The library's own goes through all of them one by one, and keeps them: a node that boots in
    1970 and then learns the time would need gigabytes for it.
    """

    def __init__(
        self,
        interval_seconds: float,
        jitter_seconds: float = 0.0,
        chance: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """A trigger for every so often.

        Args:
            interval_seconds: From one run to the next.
            jitter_seconds: How far a run may be shifted either way.
            chance: A number between two.
        """
        self._interval = timedelta(seconds=interval_seconds)
        self._jitter_seconds = jitter_seconds
        self._chance = chance
        self._due: datetime | None = None

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """The next run: on the beat where that lies ahead, else an interval from now."""
        # The shift of the run before is none of the beat.
        base = self._due if previous_fire_time is not None and self._due is not None else now
        due = base + self._interval
        if not now < due <= now + self._interval:
            due = now + self._interval
        self._due = due
        shift = self._chance(-self._jitter_seconds, self._jitter_seconds)
        return max(due + timedelta(seconds=shift), now + timedelta(milliseconds=1))
