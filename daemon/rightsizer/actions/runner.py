"""Order of an action, and its runner by a program or a webhook."""

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from rightsizer.actions.repository import ActionOutcome
from rightsizer.actions.settings import ActionSettings, arguments
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.io.http_settings import HttpSettings
from rightsizer.io.log import logger
from rightsizer.io.program import Ending, Limits, run_program
from rightsizer.io.worker import TaskThread
from rightsizer.model.values import Advice, RightsizerError, Workload, seconds
from rightsizer.notify.webhook.client import post_once
from rightsizer.report.advice_document import advice_document
from rightsizer.report.node_document import workload_document

ORDER_VERSION = 1
"""Increases when a key changes its meaning or is removed; not when keys are added."""
_LONGEST_SECONDS: Final = 60.0
_OUTCOMES: Final = {
    Ending.ABSENT: ActionOutcome.FAILED,
    Ending.TOO_MUCH: ActionOutcome.FAILED,
    Ending.TIMED_OUT: ActionOutcome.TIMED_OUT,
    Ending.STOPPED: ActionOutcome.INTERRUPTED,
}


def _no_change() -> str:
    return ""


class ActionOrder(Struct, frozen=True):
    """Facts of an action, independent of how it is executed."""

    id: str
    """Unchanged when a message is resent, so that a receiver can detect duplicates."""
    settings: ActionSettings
    advice: Advice
    workload: Workload | None
    """Holder of the devices; `None` if they are free."""
    actor: str
    change: Callable[[], str] = _no_change
    """Called immediately before it runs: returns why it must not, or an empty text."""

    @property
    def placeholders(self) -> dict[str, str]:
        """Values of a command's placeholders; empty text if there is no value."""
        finding = self.advice.finding
        return {
            "id": finding.id,
            "reason": str(finding.reasons[0]),
            "workload": "" if self.workload is None else self.workload.name,
            "namespace": "" if self.workload is None else self.workload.namespace,
            "devices": ",".join(finding.devices),
            "action": str(finding.action),
            "target": finding.options[0].target if finding.options else "",
        }

    def document(self, node: str) -> dict[str, object]:
        """Return its document, with the name of the machine."""
        return {
            "version": ORDER_VERSION,
            "delivery": self.id,
            "action": self.settings.name,
            "actor": self.actor,
            "node": node,
            "time": seconds(self.advice.updated),
            "workload": None if self.workload is None else workload_document(self.workload),
            "advice": advice_document(self.advice),
        }


class ActionResult(Struct, frozen=True):
    """Result from a program or a receiver."""

    outcome: ActionOutcome
    why: str = ""
    """Error in our own words."""
    status: int | None = None
    said: str = ""

    @classmethod
    def refused(cls, why: str) -> Self:
        """It did not run, since what it is for has changed."""
        return cls(ActionOutcome.REFUSED, why)


def post(
    order: ActionOrder, sleep: Callable[[float], object] = time.sleep, node: str = ""
) -> ActionResult:
    """Post the order; resend only if it cannot have arrived.

    `sleep` waits between attempts; a true result ends them. `node` is the name of the machine, by
    default its host name.
    """
    settings = order.settings.webhook
    timeout = min(order.settings.timeout, _LONGEST_SECONDS)
    http = HttpSettings(timeout_seconds=timeout, ca_file=settings.ca_file)
    body = order.document(node or platform.node())
    answer = post_once(settings.url, body, http, token_file=settings.token_file, sleep=sleep)
    if not isinstance(answer, Failure):
        return ActionResult(ActionOutcome.DONE, status=answer.status)
    # The message may have arrived, with an unknown effect.
    was_lost = answer.kind in (FailureKind.INTERRUPTED, FailureKind.MALFORMED)
    outcome = ActionOutcome.UNKNOWN if was_lost else ActionOutcome.FAILED
    return ActionResult(outcome, answer.message, answer.status)


class ActionRunner(TaskThread):
    """Executes actions in its own thread, one at a time."""

    def __init__(self) -> None:
        super().__init__("action")
        self._log = logger("actions")

    def start(
        self, order: ActionOrder, note: Callable[[int], None], done: Callable[[ActionResult], None]
    ) -> None:
        """Start an action; `done` receives the result once, from the thread that executed it.

        `note` receives a program's process id before it runs, and prevents it from running by
        raising RightsizerError.
        """
        self._begin(self._carry_out, order, note, done)

    def _carry_out(
        self, order: ActionOrder, note: Callable[[int], None], done: Callable[[ActionResult], None]
    ) -> None:
        ended = ActionResult(ActionOutcome.UNKNOWN, "the log says why")
        try:
            ended = self._do(order, note)
        except Exception:  # noqa: BLE001 - every end is reported.
            self._log.exception("action_broke", id=order.id)
        finally:
            done(ended)

    def _do(self, order: ActionOrder, note: Callable[[int], None]) -> ActionResult:
        if not order.settings.command:
            change = order.change()
            return ActionResult.refused(change) if change else post(order, self._stop.wait)
        words = arguments(order.settings.command, order.placeholders)
        limits = Limits(order.settings.timeout, self._stop, lambda: None)
        change = ""

        def look(pid: int) -> None:
            nonlocal change
            note(pid)
            if change := order.change():
                raise RightsizerError(change)

        run = run_program(words, Path("/"), limits, note=look)
        if change:
            return ActionResult.refused(change)
        usual = ActionOutcome.DONE if run.status == 0 else ActionOutcome.FAILED
        return ActionResult(_OUTCOMES.get(run.ending, usual), run.detail, run.status, run.said)
