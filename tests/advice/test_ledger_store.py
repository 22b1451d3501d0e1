"""Advice survives a restart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cases import NOW, after, finding, judgement
from rightsizer.advice.ledger import Ledger, Record
from rightsizer.advice.ledger_store import LEDGER_SCHEMA, LedgerStore
from rightsizer.domain.advice import Advice, AdviceState
from rightsizer.domain.errors import HistoryError
from rightsizer.domain.finding import Action, Finding, FindingKind, Option, Reason, Risk, Savings
from rightsizer.edge.database import Database

TEXT: Final = st.text(max_size=8)
RATIO: Final = st.floats(0.0, 1.0)
TIME: Final = st.integers(0, 2**62)
SAVING: Final = st.none() | st.floats(0.0, 1e6)
EVIDENCE: Final[st.SearchStrategy[Any]] = st.recursive(
    st.none() | st.booleans() | st.integers() | RATIO | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
SAVINGS: Final[st.SearchStrategy[Savings]] = st.builds(
    Savings, SAVING, SAVING, SAVING, SAVING, TEXT, SAVING, SAVING, SAVING, SAVING, TEXT, TEXT
)
OPTIONS: Final[st.SearchStrategy[Option]] = st.builds(
    Option,
    TEXT,
    st.sampled_from(Risk),
    TEXT,
    st.none() | st.sampled_from(Action),
    SAVING,
    utilization=st.dictionaries(TEXT, RATIO, max_size=3),
    fits=st.none() | st.booleans(),
    savings=st.none() | SAVINGS,
)
FINDINGS: Final[st.SearchStrategy[Finding]] = st.builds(
    Finding,
    id=TEXT,
    rule=TEXT,
    finding=st.sampled_from(FindingKind),
    reasons=st.lists(st.sampled_from(Reason), max_size=3).map(tuple),
    devices=st.lists(TEXT, max_size=3).map(tuple),
    culprits=st.lists(TEXT, max_size=3).map(tuple),
    workload=st.none() | TEXT,
    action=st.sampled_from(Action),
    summary=TEXT,
    options=st.lists(OPTIONS, max_size=2).map(tuple),
    confidence=RATIO,
    confidence_factors=st.dictionaries(TEXT, RATIO, max_size=3),
    risk=st.sampled_from(Risk),
    savings=SAVINGS,
    evidence=st.dictionaries(TEXT, EVIDENCE, max_size=3),
    abstained=st.none() | TEXT,
)
RECORDS: Final[st.SearchStrategy[Record]] = st.builds(
    Record,
    advice=st.builds(
        Advice,
        finding=FINDINGS,
        state=st.sampled_from(AdviceState),
        opened=TIME,
        updated=TIME,
        expires=st.none() | TIME,
        closed=st.none() | TIME,
        actor=st.none() | TEXT,
    ),
    key=TEXT,
    quiet_since=st.none() | TIME,
    seen=TIME,
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database for a ledger."""
    with Database(tmp_path / "history.db", (LEDGER_SCHEMA,)) as opened:
        yield opened


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(RECORDS, max_size=4, unique_by=lambda record: record.advice.id))
def test_every_field_survives(database: Database, records: list[Record]) -> None:
    """What is loaded is what was saved, in the order of ids, and nothing that was before."""
    store = LedgerStore(database)
    store.save(records)
    assert store.load() == sorted(records, key=lambda record: record.advice.id.encode())


def test_ledger_goes_on_where_it_was(database: Database) -> None:
    """Quiet time that began before the restart counts."""
    ledger = Ledger()
    ledger.update([judgement()], NOW)
    quiet = judgement(id="nothing", may_open=False, still_holds=False)
    ledger.update([quiet], after(10))
    LedgerStore(database).save(ledger.records)
    restarted = Ledger(LedgerStore(database).load())
    assert restarted.advice() == ledger.advice()
    (event,) = restarted.update([quiet], after(20))
    assert event.advice.state is AdviceState.EXPIRED


def test_rows_that_cannot_be_understood_are_passed_over(database: Database) -> None:
    """A word of a newer program costs its own row and no other."""
    record = Record(Advice(finding(), AdviceState.ACTIVE, NOW, NOW), "slurm/llama")
    LedgerStore(database).save([record])
    with database.transaction() as connection:
        connection.execute(
            "INSERT INTO advice SELECT 'b', replace(record, 'active', 'levitating') FROM advice"
        )
        connection.executemany(
            "INSERT INTO advice VALUES (?, ?)", [("c", "{"), ("d", "[]"), ("e", "3"), ("f", "{}")]
        )
    assert LedgerStore(database).load() == [record]


def test_failed_save_leaves_what_was_there(database: Database) -> None:
    """Half a ledger would forget dismissals."""
    record = Record(Advice(finding(), AdviceState.ACTIVE, NOW, NOW), "slurm/llama")
    store = LedgerStore(database)
    store.save([record])
    with pytest.raises(HistoryError, match="UNIQUE"):
        store.save([record, record])
    assert store.load() == [record]
