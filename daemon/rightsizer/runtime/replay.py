"""A recording through the same chain as a live node: accounts, rules, ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from rightsizer.accounting.accounts import Accounts
from rightsizer.accounting.history import History
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.recommender import findings, judge_all
from rightsizer.domain.advice import Advice
from rightsizer.domain.device import Device
from rightsizer.domain.entry import Entry
from rightsizer.domain.finding import Finding
from rightsizer.domain.report import Totals
from rightsizer.domain.signal import Signal
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds, seconds
from rightsizer.domain.window import Provisioning, Window
from rightsizer.publish.json_form import advice_form, finding_form
from rightsizer.runtime.market_rules import rules_of
from rightsizer.runtime.policy import Guidance, apply
from rightsizer.runtime.rule_faults import RuleFaults
from rightsizer.runtime.settings import Settings
from rightsizer.telemetry.source import Source

__all__ = ["DeviceSummary", "Replay", "replay", "replay_form"]

_FOR_EVER: Final = 100 * 365 * 86400.0
_STATED_BY: Final = {
    "memory_total_bytes": Signal.MEMORY_TOTAL_BYTES,
    "power_limit_watts": Signal.POWER_LIMIT_WATTS,
    "sm_clock_maximum_hertz": Signal.SM_CLOCK_MAXIMUM_HERTZ,
}


class EntrySink(Protocol):
    """Something that wants every entry as it is made."""

    def write(self, entry: Entry) -> None:
        """Take one entry."""


@dataclass(frozen=True, slots=True)
class DeviceSummary:
    """All that a recording says of one device."""

    device: Device
    window: Window
    totals: Totals
    provisioning: Provisioning
    assumed: tuple[str, ...] = ()
    """Capacities that neither the recording's facts nor its readings state."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of a recording."""

    devices: tuple[DeviceSummary, ...]
    findings: tuple[Finding, ...]
    """Every rule's verdict on the whole recording."""
    advice: tuple[Advice, ...]
    """What the ledger would have opened, closed advice included."""


def replay(
    source: Source,
    settings: Settings,
    *,
    entries: Sequence[EntrySink] = (),
    history: History | None = None,
) -> Replay:
    """Account for a whole recording.

    Args:
        source: Gives snapshots until there are no more.
        settings: Thresholds, policies, the recommender's interval.
        entries: Are given every entry, in time order.
        history: Is given every window.
    """
    run, policies = _Run(settings), settings.policies_here
    while (snapshot := source.read()) is not None:
        snapshot = apply(snapshot, policies)
        for entry in run.accounts.post(snapshot):
            for sink in entries:
                sink.write(entry)
        closed = run.accounts.take_closed()
        if history is not None and closed:
            history.save(closed, run.accounts.known_devices())
        run.recommend(snapshot.wall_time)
    if history is not None:
        history.save(run.accounts.open_windows(), run.accounts.known_devices())
    return run.result()


class _Run:
    def __init__(self, settings: Settings) -> None:
        self.accounts = Accounts(settings.accounting)
        self._rules = rules_of(settings)
        self._guidance = Guidance(settings.policies_here)
        self._faults = RuleFaults()
        # However long the recording is, all that was ever opened is told.
        kept = replace(settings.recommender.ledger, closed_kept_seconds=_FOR_EVER)
        self._ledger = Ledger((), kept)
        self._interval = nanoseconds(settings.recommender.interval)
        self._due: Nanoseconds | None = None

    def recommend(self, now: Nanoseconds) -> None:
        """Judge as often as the agent would have."""
        if self._due is None:
            self._due = now + self._interval
        if now < self._due:
            return
        self._due = now + self._interval
        judgements = judge_all(
            lambda span: self.accounts.cases(span, now),
            self._rules,
            self._ledger.open_now(),
            self._guidance.tuned,
            self._faults.note,
        )
        self._ledger.update(self._guidance.withheld(judgements, now), now)

    def result(self) -> Replay:
        """Everything, once the recording is over."""
        cases = self.accounts.cases(None, 0)
        judged = {
            window.uuid: fit
            for case in cases
            for window, fit in zip(case.windows, case.provisioning, strict=True)
        }
        return Replay(
            devices=tuple(
                DeviceSummary(
                    device,
                    self.accounts.whole(device.uuid),
                    self.accounts.totals(device.uuid),
                    judged[device.uuid],
                    self._assumed(device),
                )
                for device in self.accounts.devices
                if device.uuid in judged
            ),
            findings=findings(cases, self._rules, self._faults.note),
            advice=self._ledger.advice(),
        )

    def _assumed(self, device: Device) -> tuple[str, ...]:
        last = self.accounts.last(device.uuid)
        signals = {} if last is None else last.signals
        return tuple(name for name in device.assumed if _STATED_BY.get(name) not in signals)


def replay_form(result: Replay) -> dict[str, Any]:
    """The replay as JSON has it."""
    return {
        "devices": [_device_form(summary) for summary in result.devices],
        "findings": [finding_form(finding) for finding in result.findings],
        "advice": [advice_form(advice) for advice in result.advice],
    }


def _device_form(summary: DeviceSummary) -> dict[str, Any]:
    device, window, fit = summary.device, summary.window, summary.provisioning
    return {
        "uuid": device.uuid,
        "index": device.index,
        "name": device.name or None,
        "tier": str(window.tier),
        "assumed": list(summary.assumed),
        "seconds": seconds(window.accounted),
        "states": {str(state): seconds(time) for state, time in sorted(window.states.items())},
        "conditions": {
            str(condition): seconds(time) for condition, time in sorted(window.conditions.items())
        },
        "waste": dict(sorted(window.waste_seconds.items())),
        "waste_joules": dict(sorted(window.waste_joules.items())),
        "used_seconds": window.used_seconds,
        "used_joules": window.used_joules,
        "energy_joules": window.energy_joules,
        "signals": _signals_form(summary.totals),
        "needs": _by_resource(fit, "need"),
        "overprovisioned": fit.overprovisioned,
        "saturated": _by_resource(fit, "saturated"),
        "underprovisioned": fit.underprovisioned,
    }


def _signals_form(totals: Totals) -> Mapping[str, Any]:
    return {
        str(signal): {
            "mean": totals.signal_seconds[signal] * NANOSECONDS_PER_SECOND / found.total,
            "p50": found.quantile(0.5),
            "p95": found.quantile(0.95),
            "p99": found.quantile(0.99),
            "max": found.maximum(),
        }
        for signal, found in sorted(totals.distributions.items())
    }


def _by_resource(fit: Provisioning, what: str) -> dict[str, float]:
    values = {str(resource): getattr(each, what) for resource, each in fit.resources.items()}
    return {resource: value for resource, value in sorted(values.items()) if value is not None}
