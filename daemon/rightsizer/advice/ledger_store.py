"""Keeps the ledger in the history's database, so that advice survives a restart."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from rightsizer.advice.ledger import Record
from rightsizer.domain.advice import Advice, AdviceState
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
from rightsizer.edge.database import Database

__all__ = ["LEDGER_SCHEMA", "LedgerStore"]

LEDGER_SCHEMA: Final = (
    "CREATE TABLE advice (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID"
)


class LedgerStore:
    """Records of the ledger as JSON rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, records: Iterable[Record]) -> None:
        """Write all records in place of those that were there.

        Raises:
            HistoryError: they could not be written; what was there stays.
        """
        rows = [(record.advice.id, json.dumps(asdict(record))) for record in records]
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM advice")
            connection.executemany("INSERT INTO advice VALUES (?, ?)", rows)

    def load(self) -> list[Record]:
        """The records that were saved; a row that cannot be understood is passed over."""
        with self._database.transaction() as connection:
            rows = connection.execute("SELECT record FROM advice ORDER BY id").fetchall()
        records = []
        for (text,) in rows:
            try:
                records.append(_record(json.loads(text)))
            except (ValueError, KeyError, TypeError):
                continue
        return records


def _record(form: dict[str, Any]) -> Record:
    advice = form["advice"]
    return Record(
        advice=Advice(
            **advice
            | {"finding": _finding(advice["finding"]), "state": AdviceState(advice["state"])}
        ),
        key=form["key"],
        quiet_since=form["quiet_since"],
        seen=form["seen"],
    )


def _finding(form: dict[str, Any]) -> Finding:
    return Finding(
        **form
        | {
            "finding": FindingKind(form["finding"]),
            "reasons": tuple(Reason(name) for name in form["reasons"]),
            "devices": tuple(form["devices"]),
            "culprits": tuple(form["culprits"]),
            "action": Action(form["action"]),
            "options": tuple(map(_option, form["options"])),
            "risk": Risk(form["risk"]),
            "savings": Savings(**form["savings"]),
            "severity": Severity(form.get("severity", Severity.LOW)),
            "instructions": tuple(Instruction(**each) for each in form.get("instructions", ())),
        }
    )


def _option(form: dict[str, Any]) -> Option:
    action, savings = form.get("action"), form.get("savings")
    return Option(
        **form
        | {
            "risk": Risk(form["risk"]),
            "action": None if action is None else Action(action),
            "savings": None if savings is None else Savings(**savings),
            "risks": {name: Risk(risk) for name, risk in form.get("risks", {}).items()},
        }
    )
