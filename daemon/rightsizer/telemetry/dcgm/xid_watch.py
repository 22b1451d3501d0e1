"""Xids seen through a gauge that sticks at the last one."""

from collections.abc import Mapping
from dataclasses import replace

from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.xid import XidLog

__all__ = ["XidWatch"]


class XidWatch:
    """Counts changes of the gauge. What stood there at first may be from long ago."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._last: dict[str, int] | None = None
        self.logs: dict[str, XidLog] = {}
        """By uuid; the same code twice in a row cannot be told from one."""

    def see(self, xids: Mapping[str, int], wall_time: Nanoseconds) -> None:
        """Take in what the newest page says."""
        for uuid in xids.keys() - self.logs.keys():
            self.logs[uuid] = XidLog({})
        if self._last is not None:
            for uuid, code in xids.items():
                if self._last.get(uuid) != code:
                    log = self.logs[uuid]
                    counts = {**log.counts, code: log.counts.get(code, 0) + 1}
                    self.logs[uuid] = replace(
                        log, counts=counts, last=code, last_wall_time=wall_time
                    )
        self._last = {**(self._last or {}), **xids}
