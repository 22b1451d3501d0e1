"""Controller of actions: checks approval, decides, records, and only then executes."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from rightsizer.actions.approvals import Approval, Approvals
from rightsizer.actions.audit_log import AuditLog
from rightsizer.actions.encoder import ActionState
from rightsizer.actions.holders import change_of, holders_of
from rightsizer.actions.proposals import (
    ActionConditions,
    ActionProposal,
    PastAction,
    is_suspended,
    proposals,
)
from rightsizer.actions.repository import ActionOutcome, ActionRecord, ActionVerdict, result_of
from rightsizer.actions.runner import ActionOrder, ActionResult, ActionRunner
from rightsizer.actions.settings import ActionMode, ActionSettings, ActionsSettings, arguments
from rightsizer.host.process_table import end_group, started_of
from rightsizer.io.clock import Clock
from rightsizer.io.jobs import Job
from rightsizer.io.log import logger
from rightsizer.model.values import (
    Advice,
    Nanoseconds,
    ProcessGeneration,
    Report,
    RightsizerError,
    Workload,
    merge_workloads,
    series_key,
)

_SILENT: Final = (ActionVerdict.DUE, ActionVerdict.NOT_OPTED_IN, ActionVerdict.DONE_BEFORE)
"""Verdicts recorded elsewhere, or not worth recording."""
_Key = tuple[str, str, Nanoseconds]


class ActionContext(Struct, frozen=True):
    """Sources of current state, called in every pass from a job's thread."""

    report: Callable[[], Report | None]
    advice: Callable[[], Sequence[Advice]]
    """All advice, including closed."""
    claim: Callable[[str, str, str], object]
    """Claims advice with actor and reason, so that before and after are compared."""
    still_runs: Callable[[ProcessGeneration], bool] = lambda _: True
    """Whether a process runs still, in its control groups; called from the action's thread."""


class ActionController:
    """Decides in every pass; its state may be read from any thread."""

    def __init__(  # noqa: PLR0913 - dependencies are arguments.
        self,
        actions: Sequence[ActionSettings],
        acting: ActionsSettings,
        context: ActionContext,
        runner: ActionRunner,
        audit: AuditLog,
        *,
        clock: Clock,
    ) -> None:
        self._actions = {action.name: action for action in actions}
        self._acting = acting
        self._context = context
        self._runner = runner
        self._audit = audit
        self._clock = clock
        self._approvals = Approvals(acting.approvers)
        self.note_claim = self._approvals.note
        self._approved: frozenset[_Key] = frozenset()
        self._log = logger("actions")
        self.suspended: frozenset[str] = frozenset()
        """Actions whose results failed too often."""
        self.proposals: tuple[ActionProposal, ...] = ()
        """Result of the last pass."""

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Periodic jobs."""
        return (Job("actions", self.run, self._acting.interval),)

    def start(self) -> None:
        """Record actions that the previous agent left without an outcome; they are not repeated."""
        with contextlib.suppress(RightsizerError):  # Reported in the next pass.
            for record in self._audit.mended():
                if record.outcome is ActionOutcome.STARTED:
                    self._audit.ended(_interrupted(record))

    def stop(self) -> None:
        """Stop the running action, before the history closes."""
        self._runner.stop()

    def metrics(self) -> dict[str, float]:
        """Number of outcomes, by action and outcome."""
        return {
            series_key("rightsizer_actions_total", action=action, outcome=outcome): float(count)
            for (action, outcome), count in self._audit.counts.items()
        }

    def state(self) -> ActionState:
        """State for the API."""
        actions = tuple(self._actions.values())
        return ActionState(actions, self.suspended, self.proposals, self._audit.records())

    def run(self) -> None:
        """Check results of earlier actions and execute what is due, at most one per pass.

        Raises:
            RightsizerError: the action cannot be recorded, so it is not executed.
        """
        ledger = {advice.id: advice for advice in self._context.advice()}
        mended = self._audit.mended()
        records = self._audit.pruned([self._settled(e, ledger.get(e.advice)) for e in mended])
        standing = self._approvals.standing(self._context.advice, records)
        records = [self._approved_of(record, standing) for record in records]
        report = self._context.report()
        advice = self._context.advice()
        here = _holders(report)
        fitting = {
            recommendation.id: self._fitting(recommendation, here)
            for recommendation in advice
            if recommendation.is_open
        }
        conditions = ActionConditions(
            gpus=0 if report is None else len(report.devices),
            workloads=here,
            approvals=standing,
            proposed=_proposed(records),
            unfit=_unfit(advice, fitting, here),
            is_kept=self._audit.is_kept,
        )
        begun = (record for record in records if record.outcome.is_execution)
        past_actions = [PastAction(action, self._audit.ago_seconds(action)) for action in begun]
        limits = self._acting.limits
        self.proposals = action_proposals = proposals(
            advice, fitting, past_actions, conditions, limits
        )
        suspended = {
            action for action in self._actions if is_suspended(action, past_actions, limits)
        }
        self._log_suspensions(suspended)
        self._refuse_withdrawn(action_proposals, conditions, records)
        self._write_refusals(action_proposals, records)
        due = next(
            (proposal for proposal in action_proposals if proposal.verdict is ActionVerdict.DUE),
            None,
        )
        if due is not None and not self._runner.is_busy:
            self._do(due, report, standing)

    def _approved_of(self, record: ActionRecord, standing: Mapping[str, Approval]) -> ActionRecord:
        """Add the approver to an entry that was proposed for approval and approved since."""
        approval = standing.get(record.advice)
        is_put_up = record.verdict is ActionVerdict.NOT_APPROVED
        if not is_put_up or approval is None or approval.why_not:
            return record
        kept = replace(record, approved=approval.claimed, approver=approval.actor)
        if kept != record:
            self._audit.keep(kept)
        return kept

    def _settled(self, record: ActionRecord, advice: Advice | None) -> ActionRecord:
        if (linked := result_of(record, advice, self._clock.wall_time())) is not None:
            self._audit.link(linked)
        return linked or record

    def _fitting(self, advice: Advice, here: Mapping[str, Workload]) -> tuple[ActionSettings, ...]:
        """Actions for the reasons and workload of a piece of advice."""
        finding = advice.finding
        workload = here.get(finding.workload or "")
        return tuple(
            action
            for action in self._actions.values()
            if any(reason in action.reasons for reason in finding.reasons)
            and action.match.fits(workload, finding.devices)
        )

    def _do(
        self, due: ActionProposal, report: Report | None, standing: Mapping[str, Approval]
    ) -> None:
        settings = self._actions[due.action]
        advice = due.advice
        is_approved = settings.mode is ActionMode.APPROVE
        actor = standing[advice.id].actor if is_approved else f"action:{settings.name}"
        record = self._audit.entry(settings, advice, actor)
        # Written to disk before execution, so that an agent killed meanwhile does not repeat it.
        self._audit.intend(record)

        def note(pid: int) -> None:
            nonlocal record
            record = replace(record, process=pid, process_started=started_of(pid))
            self._audit.keep(record)

        def done(ended: ActionResult) -> None:
            self._done(record, ended, settings)

        devices = advice.finding.devices
        before = holders_of(report, devices)

        def change() -> str:
            now = holders_of(self._context.report(), devices)
            return change_of(before, now, self._context.still_runs)

        workload = _holders(report).get(advice.finding.workload or "")
        order = ActionOrder(record.id, settings, advice, workload, actor, change)
        self._runner.start(order, note, done)

    def _done(self, record: ActionRecord, ended: ActionResult, settings: ActionSettings) -> None:
        """Record the end of an action; runs in the thread that executed it."""
        now = self._clock.wall_time()
        if ended.outcome is ActionOutcome.REFUSED:
            record = replace(record, verdict=ActionVerdict.CHANGED)
        self._audit.ended(replace(record, **asdict(ended), ended=now))
        if settings.mode is ActionMode.AUTOMATIC and ended.outcome is ActionOutcome.DONE:
            try:
                # To compare before and after, as after a claim by a user.
                self._context.claim(record.advice, record.actor, f"done as {record.id}")
            except RightsizerError as error:
                self._log.warning("action_not_claimed", id=record.id, error=str(error))

    def _write_refusals(
        self, action_proposals: Sequence[ActionProposal], records: Sequence[ActionRecord]
    ) -> None:
        """Record each kind of reason against an action once per piece of advice."""
        reported = {
            (record.key, record.verdict) for record in records if not record.outcome.is_execution
        }
        for proposal in action_proposals:
            if proposal.verdict in _SILENT or (proposal.key, proposal.verdict) in reported:
                continue
            is_dry = proposal.verdict is ActionVerdict.DRY_RUN
            self._refuse(proposal, ActionOutcome.DRY_RUN if is_dry else ActionOutcome.REFUSED)

    def _refuse_withdrawn(
        self,
        action_proposals: Sequence[ActionProposal],
        conditions: ActionConditions,
        records: Sequence[ActionRecord],
    ) -> None:
        """Record approvals that were withdrawn before execution."""
        done = {record.key for record in records if record.outcome.is_execution}
        approved = set()
        for proposal in action_proposals:
            key = proposal.key
            claimed = conditions.approved(proposal.advice.id)
            proposed = conditions.proposed.get(key)
            if proposed is not None and claimed is not None and claimed >= proposed:
                approved.add(key)
            elif key in self._approved and key not in done:
                self._refuse(proposal, ActionOutcome.WITHDRAWN)
        self._approved = frozenset(approved)

    def _refuse(self, proposal: ActionProposal, outcome: ActionOutcome) -> None:
        settings = self._actions[proposal.action]
        advice = proposal.advice
        actor = advice.actor or f"action:{settings.name}"
        entry = self._audit.entry(settings, advice, actor)
        verdict = proposal.verdict
        why = proposal.why
        self._audit.refuse(replace(entry, outcome=outcome, verdict=verdict, why=why))

    def _log_suspensions(self, suspended: AbstractSet[str]) -> None:
        """Log when an action becomes suspended, and when it is resumed."""
        for name in sorted(suspended - self.suspended):
            remedy = "see `rightsizer actions`; fix it, and give it another name"
            self._log.warning("action_suspended", action=name, remedy=remedy)
        for name in sorted(self.suspended - suspended):
            self._log.info("action_resumed", action=name)
        self.suspended = frozenset(suspended)


def _holders(report: Report | None) -> dict[str, Workload]:
    devices = () if report is None else report.devices
    holdings = (holding for device in devices for holding in device.holdings)
    return {held.key: held for held in merge_workloads(holding.workload for holding in holdings)}


def _interrupted(record: ActionRecord) -> ActionRecord:
    """Mark an action left by a killed agent as unknown; kill its program if still running."""
    why = "the agent ended before it knew what came of it; it is not repeated"
    if end_group(record.process, record.process_started):
        why += "; its program still ran, and was ended"
    return replace(record, outcome=ActionOutcome.UNKNOWN, why=why)


def _unfit(
    advice: Sequence[Advice],
    fitting: Mapping[str, Sequence[ActionSettings]],
    here: Mapping[str, Workload],
) -> dict[tuple[str, str], str]:
    """Reasons why an action's placeholders cannot be filled in, by action and advice.

    Checked before anything starts: an invalid name must not use up a limit.
    """
    reasons = {}
    for recommendation in advice:
        for settings in fitting.get(recommendation.id, ()):
            order = ActionOrder(
                "", settings, recommendation, here.get(recommendation.finding.workload or ""), ""
            )
            try:
                arguments(settings.command, order.placeholders)
            except ValueError as error:
                reasons[settings.name, recommendation.id] = str(error)
    return reasons


def _proposed(records: Sequence[ActionRecord]) -> dict[_Key, Nanoseconds]:
    times: dict[_Key, Nanoseconds] = {}
    for record in records:
        if record.verdict is ActionVerdict.NOT_APPROVED:
            times.setdefault(record.key, record.at)
    return times
