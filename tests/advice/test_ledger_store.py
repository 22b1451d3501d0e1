"""Storage of the ledger across restarts."""

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import NOW, after, finding, judgement
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.ledger_repository import LEDGER_SCHEMA, TRACK_SCHEMA, LedgerRepository
from rightsizer.advice.track_record import TrackRecord
from rightsizer.io.database import Database
from rightsizer.model.advice import (
    Advice,
    AdviceEvent,
    AdviceEventKind,
    AdviceState,
    Baseline,
    Measurement,
)
from rightsizer.model.errors import HistoryError
from rightsizer.model.finding import (
    Action,
    Finding,
    FindingKind,
    Option,
    Reason,
    Risk,
    Savings,
    Severity,
)
from rightsizer.model.workload import WorkloadClass

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
    kind=st.sampled_from(FindingKind),
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
    key=TEXT,
)
ADVICE: Final[st.SearchStrategy[Advice]] = st.builds(
    Advice,
    finding=FINDINGS,
    state=st.sampled_from(AdviceState),
    opened=TIME,
    updated=TIME,
    expires=st.none() | TIME,
    closed=st.none() | TIME,
    actor=st.none() | TEXT,
    quiet_since=st.none() | TIME,
    seen=TIME,
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database for a ledger."""
    with closing(Database(tmp_path / "history.db", (LEDGER_SCHEMA, TRACK_SCHEMA))) as opened:
        yield opened


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ADVICE, max_size=4, unique_by=lambda advice: advice.id))
def test_every_field_survives(database: Database, records: list[Advice]) -> None:
    """Loading returns what was saved, ordered by id, and nothing older."""
    store = LedgerRepository(database)
    store.save(records)
    assert store.load() == sorted(records, key=lambda advice: advice.id.encode())


def test_ledger_goes_on_where_it_was(database: Database) -> None:
    """Quiet time from before the restart counts."""
    ledger = Ledger()
    ledger.update([judgement()], NOW)
    quiet = judgement(id="nothing", may_open=False, still_holds=False)
    ledger.update([quiet], after(10))
    LedgerRepository(database).save(ledger.advice())
    restarted = Ledger(LedgerRepository(database).load())
    assert restarted.advice() == ledger.advice()
    (event,) = restarted.update([quiet], after(20))
    assert event.advice.state is AdviceState.EXPIRED


def test_rows_that_cannot_be_understood_are_passed_over(database: Database) -> None:
    """An unknown value of a newer program costs its own row and no other."""
    record = Advice(finding(), AdviceState.ACTIVE, NOW, NOW)
    LedgerRepository(database).save([record])
    with database.transaction() as connection:
        connection.execute(
            "INSERT INTO advice SELECT 'b', replace(record, 'active', 'levitating') FROM advice"
        )
        connection.executemany(
            "INSERT INTO advice VALUES (?, ?)", [("c", "{"), ("d", "[]"), ("e", "3"), ("f", "{}")]
        )
    assert LedgerRepository(database).load() == [record]


def test_failed_save_leaves_what_was_there(database: Database) -> None:
    """Half a ledger would lose dismissals."""
    record = Advice(finding(), AdviceState.ACTIVE, NOW, NOW)
    store = LedgerRepository(database)
    store.save([record])
    with database.transaction() as connection:
        connection.execute("ALTER TABLE advice_event RENAME TO away")
    with pytest.raises(HistoryError, match="advice_event"):
        store.save([])
    assert store.load() == [record]


def test_record_of_a_newer_program_is_read_without_what_it_added(database: Database) -> None:
    """A record of an older program gets defaults for missing fields."""
    record = Advice(finding(), AdviceState.ACTIVE, NOW, NOW, opening_confidence=0.9)
    LedgerRepository(database).save([record])
    with database.transaction() as connection:
        (text,) = connection.execute("SELECT record FROM advice").fetchone()
        document = json.loads(text)
        document["mood"] = document["finding"]["mood"] = "good"
        document["finding"]["savings"]["mood"] = "good"
        for name in ("confidence", "severity", "baseline", "trial_since", "why"):
            del document[name]
        connection.execute("UPDATE advice SET record = ?", (json.dumps(document),))
    assert LedgerRepository(database).load() == [replace(record, opening_confidence=0.0)]


def test_unreadable_ledger_row_is_kept(database: Database) -> None:
    """The program that wrote it may come back."""
    known = Advice(finding(), AdviceState.ACTIVE, NOW, NOW)
    foreign = Advice(finding(id="b"), AdviceState.ACTIVE, NOW, NOW)
    LedgerRepository(database).save([known, foreign])
    levitate(database, "b")
    store = LedgerRepository(database)
    assert store.load() == [known]
    store.save([])
    store.save([known])
    with database.transaction() as connection:
        rows = connection.execute("SELECT id FROM advice ORDER BY id").fetchall()
    assert rows == [(known.id,), ("b",)]


def levitate(database: Database, advice_id: str) -> None:
    """Set a state unknown to the current program."""
    with database.transaction() as connection:
        connection.execute(
            "UPDATE advice SET record = replace(record, 'active', 'levitating') WHERE id = ?",
            (advice_id,),
        )


def test_only_what_changed_is_written(database: Database) -> None:
    """Thousands of closed items are not rewritten in each run."""
    store = LedgerRepository(database)
    records = [Advice(finding(id=name), AdviceState.ACTIVE, NOW, NOW) for name in "abc"]
    store.save(records)
    levitate(database, "a")
    store.save([records[0], replace(records[1], why="other"), records[2]])
    found = LedgerRepository(database).load()
    assert [record.why for record in found] == ["other", ""]


def test_texts_are_not_kept(database: Database) -> None:
    """Those of a ledger take more memory than the ledger itself."""
    store = LedgerRepository(database)
    records = [
        Advice(finding(id=str(number)), AdviceState.ACTIVE, NOW, NOW) for number in range(100)
    ]
    store.save(records[:1])
    tracemalloc.start()
    try:
        store.encode(records)
        encoded_bytes, _ = tracemalloc.get_traced_memory()
        store.save(records)
        store.encode(records)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < encoded_bytes / 2


def test_trial_survives_with_its_figures_from_before(database: Database) -> None:
    """A week's comparison survives many restarts."""
    before = Measurement(
        2.0, 0.9, 400.0, {"stalled": 0.1}, ("h100",), ("GPU-0",), WorkloadClass.BATCH
    )
    record = Advice(
        finding(severity=Severity.HIGH),
        AdviceState.CLAIMED,
        NOW,
        NOW,
        why="doing it",
        highest_severity=Severity.HIGH,
        baseline=Baseline(before, {"slurm/other": 0.5}),
        trial_since=NOW,
        trial_seconds=3600.0,
    )
    LedgerRepository(database).save([record])
    (found,) = LedgerRepository(database).load()
    assert found == record
    assert found.baseline is not None
    assert found.baseline.peers == {"slurm/other": 0.5}
    assert found.baseline.workload.harms == {"stalled": 0.1}


def test_track_record_and_what_is_unknown_survive(database: Database) -> None:
    """In one transaction with their advice; a delivered event is removed."""
    advice = Advice(finding(), AdviceState.SUCCEEDED, NOW, NOW)
    track = TrackRecord()
    track.count_end(advice)
    track.count_answer(advice, was_right=True)
    event = AdviceEvent(AdviceEventKind.VERIFIED, advice, after(1))
    store = LedgerRepository(database)
    store.save([], track.tallies, [event, event])
    again = LedgerRepository(database)
    assert again.load_pending() == [event, event]
    assert tuple(again.load_tallies()) == track.tallies
    again.clear_pending()
    assert LedgerRepository(database).load_pending() == []
