"""Recommendations without an agent: one run over a history on disk; decisions, explanations."""

from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.accounting.service import AccountingService
from rightsizer.advice.lookup import find_advice
from rightsizer.advice.policy import PolicySet
from rightsizer.advice.service import AdviceService, Recommender, configured_rules
from rightsizer.advice.storage import Storage
from rightsizer.agent.settings import Settings
from rightsizer.io.clock import Clock, FastClock, SystemClock
from rightsizer.io.files import is_there
from rightsizer.model.values import Advice, AdviceState, Evidence, Finding, HistoryError, Window
from rightsizer.notify.service import NotificationService
from rightsizer.profiler.service import ProfileService
from rightsizer.report.evidence import accounts_evidence
from rightsizer.report.explanation import Explanation, explain_advice, explain_finding


class OfflineAdvice(NamedTuple):
    """Findings over a whole history, advice of the updated ledger, and what they rest on."""

    findings: tuple[Finding, ...]
    advice: tuple[Advice, ...]
    evidence: tuple[Evidence, ...]


def run_offline(path: Path, settings: Settings, *, save: bool = False) -> OfflineAdvice:
    """Judge the whole history by every rule.

    `save` stores the ledger and delivers its events.

    Raises:
        HistoryError: there is no history, it is empty, or, to save, an agent holds it.
    """
    _must_exist(path)
    opened = _opened(path, settings) if save else Storage(str(path), read_only=True)
    with closing(opened) as storage:
        accounting = AccountingService(settings.accounting)
        history = storage.kept_history
        # GPUs that have left are not judged, and their past is kept.
        end = accounting.restore(history.present_devices(), history.load(), counts=True).end
        if not end:
            what = f"history '{path}' is empty; let the agent run for a while first"
            raise HistoryError(f"{what}, or name it with --url")
        clock = FastClock(end)
        policies = PolicySet(settings.policies_here)
        profiles = ProfileService(accounting, storage, clock, settings.profiles)
        rules = configured_rules(settings)
        recommender = Recommender(accounting, rules, policies, clock, {"profiles": profiles})
        if save:
            service = _service(recommender, settings, storage, clock)
            service.recommend()
            service.deliver()
            advice = service.advice
        else:
            ledger = storage.ledger(settings.recommender.ledger)
            ledger.update(*recommender.run(ledger.advice()))
            advice = ledger.advice()
        findings = recommender.over_all(end)
        evidence = tuple(accounts_evidence(accounting.whole_accounts(end)))
    found_by = {finding.rule for finding in findings}
    of_profiles = (judgement.finding for judgement in recommender.judgements)
    others = (profile for profile in of_profiles if profile.rule not in found_by)
    return OfflineAdvice((*findings, *others), advice, evidence)


def findings_over(
    devices: Iterable[DeviceRecord], windows: Iterable[Window], settings: Settings
) -> tuple[Finding, ...]:
    """Judge windows of a history by every rule; windows come oldest first."""
    accounting = AccountingService(settings.accounting)
    end = accounting.restore(devices, windows, counts=True).end
    policies = PolicySet(settings.policies_here)
    rules = configured_rules(settings)
    return Recommender(accounting, rules, policies, FastClock(end)).over_all(end)


def _opened(path: Path, settings: Settings) -> Storage:
    _must_exist(path)
    return Storage(str(path), maximum_bytes=settings.history.maximum_size_bytes)


def _service(
    recommender: Recommender, settings: Settings, storage: Storage, clock: Clock
) -> AdviceService:
    """Build a service whose sinks never wait for a peer: the next run retries."""
    sinks = NotificationService(
        settings,
        storage.database,
        lambda: service.advice,
        clock=SystemClock(),
        warn=lambda *_: None,
        sleep=lambda _: True,
    )
    ledger = storage.ledger(settings.recommender.ledger)
    service: AdviceService = AdviceService(recommender, ledger, storage, (sinks,), clock)
    return service


def act_offline(  # noqa: PLR0913 - who, what, why, for how long, and where.
    path: Path,
    settings: Settings,
    advice_id: str,
    *,
    state: AdviceState,
    actor: str,
    why: str,
    for_seconds: float | None,
) -> Advice:
    """Change advice in a history that no agent holds; the next agent delivers the events.

    Raises:
        UsageError: there is no such open advice.
        HistoryError: an agent holds it, or it cannot be written.
    """
    with closing(_opened(path, settings)) as storage:
        clock = SystemClock()
        recommender = Recommender(AccountingService(settings.accounting), (), PolicySet(), clock)
        service = _service(recommender, settings, storage, clock)
        return service.act(advice_id, state, actor, why, for_seconds)


def explain_offline(path: Path, settings: Settings, asked: str) -> Explanation:
    """Explain advice or a finding, by its id, of one run over the history.

    Raises:
        UsageError: nothing has that id.
        HistoryError: there is no history, or it cannot be read.
    """
    # Judged now, as `advise` does: saved advice is older and may have another risk.
    rules = settings.rule_trees
    findings, advice, _ = run_offline(path, settings)
    with closing(Storage(str(path), read_only=True)) as storage:
        records = storage.kept_history.devices()
        extent = storage.kept_history.extent()
    names = {record.device.uuid: record.device.label for record in records}
    recorded = {record.device.uuid for record in records if record.is_of_recording}
    finding = next((candidate for candidate in findings if candidate.id == asked), None)
    if finding is None or any(recommendation.id == asked for recommendation in advice):
        return explain_advice(find_advice(advice, asked), rules, recorded=recorded, names=names)
    end = 0 if extent is None else extent[1]
    return explain_finding(finding, end, rules, recorded=recorded, names=names)


def _must_exist(path: Path) -> None:
    # What may not be looked at is told by what opens it.
    with suppress(PermissionError):
        if not is_there(path):
            what = f"history '{path}' does not exist; name one with --history.path"
            raise HistoryError(f"{what}, or an agent with --url")
