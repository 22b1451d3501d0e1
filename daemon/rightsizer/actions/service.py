"""Action service: controller, audit log, and the runner of programs and webhooks."""

import contextlib
import platform
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

from rightsizer.actions.audit_log import AuditFile, AuditLog
from rightsizer.actions.controller import ActionController
from rightsizer.actions.encoder import ActionState
from rightsizer.actions.order import ActionContext, ActionOrder, ActionResult
from rightsizer.actions.repository import ActionOutcome, ActionRepository
from rightsizer.actions.settings import ActionSettings, ActionsSettings, arguments
from rightsizer.io.clock import Clock
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.io.http_settings import HttpSettings
from rightsizer.io.jobs import Job
from rightsizer.io.program import Ending, Limits, run_program
from rightsizer.model.advice import Advice
from rightsizer.model.errors import RightsizerError
from rightsizer.model.metric_family import series_key
from rightsizer.notify.webhook.client import post_once
from rightsizer.web.message import SocketPeer

_LONGEST_SECONDS: Final = 60.0


def post(
    order: ActionOrder, sleep: Callable[[float], object] = time.sleep, node: str = ""
) -> ActionResult:
    """Post the facts; they are sent again only where they cannot have arrived.

    `sleep` waits between tries; where it returns true there are no more. `node` is the machine's
    name, by default its host name.
    """
    settings = order.settings.webhook
    http = HttpSettings(
        timeout_seconds=min(order.settings.timeout, _LONGEST_SECONDS), ca_file=settings.ca_file
    )
    body = order.form(node or platform.node())
    answer = post_once(settings.url, body, http, token_file=settings.token_file, sleep=sleep)
    if not isinstance(answer, Failure):
        return ActionResult(ActionOutcome.DONE, status=answer.status)
    # It may have had the message, and what it made of that is unknown.
    was_lost = answer.kind in (FailureKind.INTERRUPTED, FailureKind.MALFORMED)
    outcome = ActionOutcome.UNKNOWN if was_lost else ActionOutcome.FAILED
    return ActionResult(outcome, answer.message, answer.status)


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

        `note` is told the number of a program's process before it runs, `done` how it ended, from
        the thread.
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
            return post(order, self._stop.wait)
        words = arguments(order.settings.command, order.placeholders)
        limits = Limits(order.settings.timeout, self._stop, lambda: None)
        run = run_program(words, Path("/"), limits, note=note)
        usual = ActionOutcome.DONE if run.status == 0 else ActionOutcome.FAILED
        return ActionResult(_OUTCOMES.get(run.ending, usual), run.detail, run.status, run.said)


class ActionService:
    """The controller, its audit log and its runner."""

    def __init__(  # noqa: PLR0913 - what it brings together.
        self,
        actions: Sequence[ActionSettings],
        acting: ActionsSettings,
        context: ActionContext,
        repository: ActionRepository,
        *,
        clock: Clock,
        boot: str,
    ) -> None:
        """A station that does nothing yet; its arguments are those of its parts."""
        self._actions, self._interval = tuple(actions), acting.interval
        file = AuditFile(Path(acting.audit_file) if acting.audit_file else None)
        self._audit = AuditLog(repository, file, clock, boot)
        self._controller = ActionController(
            actions, acting, context, ThreadedActionRunner(), self._audit, clock=clock
        )

    @property
    def jobs(self) -> tuple[Job, ...]:
        """What runs at intervals."""
        return (Job("actions", self._controller.look, self._interval),)

    def start(self) -> None:
        """See to what the last agent left."""
        with contextlib.suppress(RightsizerError):  # The next look tells it.
            self._controller.start()

    def stop(self) -> None:
        """End what is under way, before the history closes."""
        self._controller.stop()

    def note_claim(
        self, advice: Advice, actor: str, peer: SocketPeer | None, identity: str | None
    ) -> None:
        """Take note of a claim, which may approve an action; from any thread."""
        self._controller.note_claim(advice, actor, peer, identity)

    def counters(self) -> dict[str, float]:
        """What was done and was not, by the names of metrics."""
        return {
            series_key("rightsizer_actions_total", action=action, outcome=outcome): float(count)
            for (action, outcome), count in self._audit.counts.items()
        }

    def state(self) -> ActionState:
        """What the API tells."""
        controller = self._controller
        return ActionState(
            self._actions, controller.suspended, controller.proposals, self._audit.records()
        )
