"""Reads what the ledger wrote as JSON, by this program, an older or a newer one.

What an older one did not know has its default, what a newer one added is left out.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from rightsizer.advice.measurement import Measurement
from rightsizer.advice.record import Record
from rightsizer.advice.track_record import Tally
from rightsizer.advice.verification import Baseline
from rightsizer.domain.advice import Advice, AdviceEvent, AdviceEventKind, AdviceState
from rightsizer.domain.finding import (
    Action,
    Finding,
    FindingKind,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
    Severity,
)

__all__ = ["event_from", "finding_from", "record_from", "tally_from"]

_Form = Mapping[str, Any]
_Made = TypeVar("_Made")


def record_from(form: _Form) -> Record:
    """A record of the ledger.

    Raises:
        ValueError, KeyError, TypeError: it is none, or says what this program has no word for.
    """
    severity = form.get("severity", form["advice"]["finding"].get("severity", Severity.LOW))
    baseline = form.get("baseline")
    return _made(
        Record,
        form,
        advice=_advice(form["advice"]),
        severity=Severity(severity),
        baseline=None if baseline is None else _baseline(baseline),
    )


def event_from(form: _Form) -> AdviceEvent:
    """An event, as `record_from` reads records."""
    return AdviceEvent(AdviceEventKind(form["kind"]), _advice(form["advice"]), int(form["time"]))


def tally_from(form: _Form) -> Tally:
    """A tally, as `record_from` reads records."""
    return _made(
        Tally,
        form,
        confirmed=tuple(form["confirmed"]),
        contradicted=tuple(form["contradicted"]),
    )


def _made(kind: type[_Made], form: _Form, **parts: Any) -> _Made:
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in form.items() if name in known} | parts)


def _advice(form: _Form) -> Advice:
    finding, state = finding_from(form["finding"]), AdviceState(form["state"])
    return _made(Advice, form, finding=finding, state=state)


def _baseline(form: _Form) -> Baseline:
    workload = form["workload"]
    return _made(
        Baseline,
        form,
        workload=_made(
            Measurement,
            workload,
            boards=tuple(workload["boards"]),
            devices=tuple(workload["devices"]),
        ),
    )


def finding_from(form: _Form) -> Finding:
    """A rule's verdict, as `record_from` reads records."""
    return _made(
        Finding,
        form,
        finding=FindingKind(form["finding"]),
        reasons=tuple(Reason(name) for name in form["reasons"]),
        devices=tuple(form["devices"]),
        culprits=tuple(form["culprits"]),
        action=Action(form["action"]),
        options=tuple(map(_option, form["options"])),
        risk=Risk(form["risk"]),
        savings=_made(Savings, form["savings"]),
        severity=Severity(form.get("severity", Severity.LOW)),
        instructions=tuple(_made(Instruction, each) for each in form.get("instructions", ())),
    )


def _option(form: _Form) -> Option:
    action, savings = form.get("action"), form.get("savings")
    return _made(
        Option,
        form,
        risk=Risk(form["risk"]),
        action=None if action is None else Action(action),
        savings=None if savings is None else _made(Savings, savings),
        risks={name: Risk(risk) for name, risk in form.get("risks", {}).items()},
    )
