"""Runner of one action on its own thread: a program without a shell, or a webhook."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from rightsizer.actions.order import ActionOrder, ActionResult
from rightsizer.actions.repository import ActionOutcome
from rightsizer.actions.settings import arguments
from rightsizer.io.program import Ending, Limits, Run, run_program

_STOP_SECONDS: Final = 5.0
_OUTCOMES: Final = {
    Ending.ABSENT: ActionOutcome.FAILED,
    Ending.TOO_MUCH: ActionOutcome.FAILED,
    Ending.TIMED_OUT: ActionOutcome.TIMED_OUT,
    Ending.STOPPED: ActionOutcome.INTERRUPTED,
}


class ThreadedActionRunner:
    """One order at a time. Times are the world's."""

    def __init__(self) -> None:
        """Nothing is under way."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._log = structlog.get_logger(component="actions")

    @property
    def is_busy(self) -> bool:
        """Whether something is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(
        self, order: ActionOrder, note: Callable[[int], None], done: Callable[[ActionResult], None]
    ) -> None:
        """Begin; the thread ends by itself, within the order's bounds.

        Args:
            order: What to do.
            note: Is told the number of a program's process.
            done: Is told how it ended, once, from the thread.
        """
        self._thread = threading.Thread(
            target=self._carry_out, args=(order, note, done), name="action", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End what is under way."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _carry_out(
        self, order: ActionOrder, note: Callable[[int], None], done: Callable[[ActionResult], None]
    ) -> None:
        ended = ActionResult(ActionOutcome.UNKNOWN, "the log says why")
        try:
            ended = self._do(order, note)
        except Exception:  # noqa: BLE001 - its end is told, whatever it is.
            self._log.exception("action_broke", id=order.id)
        finally:
            done(ended)

    def _do(self, order: ActionOrder, note: Callable[[int], None]) -> ActionResult:
        if not order.settings.command:
            # Most agents never make a request.
            from rightsizer.actions.webhook import post  # noqa: PLC0415 - as said above.

            return post(order, self._stop.wait)
        words = arguments(order.settings.command, order.placeholders)
        limits = Limits(order.settings.timeout, self._stop, lambda: None)
        return _result_of(run_program(words, Path("/"), limits, note=note))


def _result_of(run: Run) -> ActionResult:
    usual = ActionOutcome.DONE if run.status == 0 else ActionOutcome.FAILED
    return ActionResult(_OUTCOMES.get(run.ending, usual), run.detail, run.status, run.said)
