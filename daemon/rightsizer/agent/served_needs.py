"""ServedNeeds: what the node's engines would need, asked of the planner now and then."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from rightsizer.accounting.served import SERVED_KEPT
from rightsizer.advice.engine import without_conflicts
from rightsizer.advice.rules.rule import Judgement
from rightsizer.advice.served import EngineAnswer, served_judgements
from rightsizer.io.clock import Clock
from rightsizer.io.codec import convert
from rightsizer.model.values import (
    HOUR,
    Advice,
    Case,
    Nanoseconds,
    RightsizerError,
    ServedLoads,
    ServedNeed,
)

ASKED_SECONDS: Final = 3600.0
"""Between two questions. Source: loads are kept by the hour."""
_TAUGHT_SECONDS: Final = 3000.0
"""Of the last whole hour in which an engine served that teaches. Source: assumed: an hour, less
failed readings."""


class ServedNeeds:
    """Answers of the planner about all engines of the node, as judgements too."""

    def __init__(
        self,
        loads: ServedLoads,
        config_file: Path | None,
        clock: Clock,
        cases: Callable[[Nanoseconds], Iterable[Case]] = lambda _: (),
    ) -> None:
        """Create it; `cases` are those of the node at a wall time, over what loads are kept."""
        self._loads = loads
        self._config_file = config_file
        self._clock = clock
        self._cases = cases
        self._answers: tuple[EngineAnswer, ...] = ()
        self._taught_until: Nanoseconds = 0
        self.latest: tuple[ServedNeed, ...] = ()

    def ask(self) -> None:
        """Ask once, in a process of its own.

        Raises:
            RightsizerError: the planner failed; the last answers stay.
        """
        # Imported on use: most agents never plan.
        from rightsizer.report.served_answers import served_answers, served_needs  # noqa: PLC0415

        loads = tuple(self._loads(self._clock.wall_time() - SERVED_KEPT))
        answers = served_answers(loads, self._config_file)
        self._answers = convert(answers, tuple[EngineAnswer, ...])
        self.latest = served_needs(answers)

    def learn(self) -> None:
        """Keep what engines teach that served in the last whole hour; each hour teaches once.

        Raises:
            RightsizerError: nothing could be kept.
        """
        from rightsizer.report.served_answers import served_answers  # noqa: PLC0415

        faults: list[str] = []
        now = self._clock.wall_time()
        until = now - now % HOUR
        if until == self._taught_until:
            return
        recent = self._loads(until - HOUR, until)
        loads = [load for load in recent if load.window_seconds >= _TAUGHT_SECONDS]
        served_answers(loads, self._config_file, unlearned=faults.append)
        if faults:
            raise RightsizerError(f"nothing is learned: {faults[0]}")
        self._taught_until = until

    def combined_with(
        self,
        judgements: Sequence[Judgement],
        open_now: AbstractSet[tuple[str, str]],
        now: Nanoseconds,
        advice: Sequence[Advice] = (),
    ) -> tuple[Judgement, ...]:
        """Add the judgements of the last answers to those of the rules."""
        del open_now, advice
        if not self._answers:
            return tuple(judgements)
        judged = served_judgements(self._answers, self._cases(now))
        return without_conflicts((*judgements, *judged))
