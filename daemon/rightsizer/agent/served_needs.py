"""ServedNeeds: what the node's engines would need, asked of the planner now and then."""

from pathlib import Path
from typing import Final

from rightsizer.accounting.served import SERVED_KEPT
from rightsizer.io.clock import Clock
from rightsizer.model.report import ServedSince
from rightsizer.model.served_load import ServedNeed

ASKED_SECONDS: Final = 3600.0
"""Between two questions. Source: loads are kept by the hour."""


class ServedNeeds:
    """Answers of the planner about all engines of the node."""

    def __init__(self, loads: ServedSince, config_file: Path | None, clock: Clock) -> None:
        self._loads = loads
        self._config_file = config_file
        self._clock = clock
        self.latest: tuple[ServedNeed, ...] = ()

    def ask(self) -> None:
        """Ask once, in a process of its own.

        Raises:
            RightsizerError: the planner failed; the last answers stay.
        """
        # Imported on use: most agents never plan.
        from rightsizer.report.served_answers import served_answers, served_needs  # noqa: PLC0415

        loads = tuple(self._loads(self._clock.wall_time() - SERVED_KEPT))
        self.latest = served_needs(served_answers(loads, self._config_file))
