"""SQLite repository of the ledger, and the JSON codec of its records."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any, Final, TypeVar

from rightsizer.advice.track_record import OutcomeCounts
from rightsizer.advice.verification import AdviceRecord, Baseline, Measurement
from rightsizer.io.database import Database
from rightsizer.model.advice import Advice, AdviceEvent, AdviceEventKind, AdviceState
from rightsizer.model.finding import (
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

_Form = Mapping[str, Any]
_Made = TypeVar("_Made")


def record_from(form: _Form) -> AdviceRecord:
    """A record of the ledger.

    Raises:
        ValueError, KeyError, TypeError: it is none, or says what this program has no word for.
    """
    severity = form.get("severity", form["advice"]["finding"].get("severity", Severity.LOW))
    baseline = form.get("baseline")
    return _made(
        AdviceRecord,
        form,
        advice=_advice(form["advice"]),
        severity=Severity(severity),
        baseline=None if baseline is None else _baseline(baseline),
    )


def event_from(form: _Form) -> AdviceEvent:
    """An event, as `record_from` reads records."""
    return AdviceEvent(AdviceEventKind(form["kind"]), _advice(form["advice"]), int(form["time"]))


def tally_from(form: _Form) -> OutcomeCounts:
    """A tally, as `record_from` reads records."""
    return _made(
        OutcomeCounts,
        form,
        confirmed=tuple(form["confirmed"]),
        contradicted=tuple(form["contradicted"]),
    )


def _made(made: type[_Made], form: _Form, **parts: Any) -> _Made:
    known = {each.name for each in fields(made)}  # type: ignore[arg-type]
    return made(**{name: value for name, value in form.items() if name in known} | parts)


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


def stored_finding(form: _Form) -> dict[str, Any]:
    """Fields of a finding under the names they are stored by; its kind has been 'finding'."""
    return {"finding" if name == "kind" else name: value for name, value in form.items()}


def finding_from(form: _Form) -> Finding:
    """A rule's verdict, as `record_from` reads records."""
    return _made(
        Finding,
        form,
        kind=FindingKind(form["finding"]),
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


LEDGER_SCHEMA: Final = (
    "CREATE TABLE advice (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID"
)
TRACK_SCHEMA: Final = """
CREATE TABLE advice_event (number INTEGER PRIMARY KEY, event TEXT NOT NULL);
CREATE TABLE advice_tally (name TEXT PRIMARY KEY, tally TEXT NOT NULL) WITHOUT ROWID
"""
"""A migration's script: what is still to be told, and how advice fared so far."""

_Read = TypeVar("_Read")


class LedgerRepository:
    """Records of the ledger as JSON rows."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._foreign: frozenset[str] = frozenset()
        """Ids of rows that were not understood: a newer program may have written them."""
        self._written: dict[str, str] = {}
        """What the rows hold, for most stay as they are from run to run."""

    def save(
        self,
        records: Iterable[AdviceRecord],
        tallies: Iterable[OutcomeCounts] = (),
        pending: Iterable[AdviceEvent] = (),
    ) -> None:
        """Write everything in place of what was there, rows that nobody understood excepted.

        Args:
            records: All advice.
            tallies: How it fared.
            pending: Events that are not offered yet; see `told`.

        Raises:
            HistoryError: they could not be written; what was there stays.
        """
        rows = {record.advice.id: _text(record) for record in records}
        counts = [(f"{tally.rule}/{tally.reason}", _text(tally)) for tally in tallies]
        events = list(enumerate(map(_text, pending)))
        with self._database.transaction() as connection:
            present = {row[0] for row in connection.execute("SELECT id FROM advice")}
            gone = present - rows.keys() - self._foreign
            connection.executemany("DELETE FROM advice WHERE id = ?", [(each,) for each in gone])
            connection.executemany(
                "INSERT OR REPLACE INTO advice VALUES (?, ?)",
                [
                    (each, text)
                    for each, text in rows.items()
                    if each not in present or self._written.get(each) != text
                ],
            )
            connection.executemany("INSERT OR REPLACE INTO advice_tally VALUES (?, ?)", counts)
            connection.execute("DELETE FROM advice_event")
            connection.executemany("INSERT INTO advice_event VALUES (?, ?)", events)
        self._written = rows

    def load(self) -> list[AdviceRecord]:
        """The records that were saved; a row that cannot be understood is passed over."""
        rows = self._rows("SELECT id, record FROM advice ORDER BY id")
        found = {advice_id: _read_rows(text, record_from) for advice_id, text in rows}
        self._foreign = frozenset(each for each, record in found.items() if record is None)
        return [record for record in found.values() if record is not None]

    def load_tallies(self) -> list[OutcomeCounts]:
        """How advice fared so far."""
        rows = self._rows("SELECT name, tally FROM advice_tally ORDER BY name")
        found = (_read_rows(text, tally_from) for _, text in rows)
        return [tally for tally in found if tally is not None]

    def load_pending(self) -> list[AdviceEvent]:
        """Events that were saved and may never have been told, oldest first."""
        rows = self._rows("SELECT number, event FROM advice_event ORDER BY number")
        found = (_read_rows(text, event_from) for _, text in rows)
        return [event for event in found if event is not None]

    def told(self) -> None:
        """Forget the events, which everybody took note of."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM advice_event")

    def _rows(self, query: str) -> list[tuple[Any, str]]:
        with self._database.transaction() as connection:
            return connection.execute(query).fetchall()


def _text(value: Any) -> str:
    form = asdict(value)
    if "advice" in form:
        form["advice"]["finding"] = stored_finding(form["advice"]["finding"])
    return json.dumps(form)


def _read_rows(text: str, read: Callable[[Mapping[str, Any]], _Read]) -> _Read | None:
    try:
        return read(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
