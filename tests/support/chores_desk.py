"""Chores over real accounts and a real database, on a desk of their own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from readings import EMPTY, EPOCH, HELD, MINUTE, gpu, snapshot, workload
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.rules import RULES
from rightsizer.advice.settings import LedgerSettings
from rightsizer.agent.node_jobs import NodeJobs
from rightsizer.agent.storage import Storage
from rightsizer.io.clock import FastClock
from rightsizer.model.advice import Advice, AdviceEvent
from rightsizer.model.report import AgentReport
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import WorkloadClass
from rightsizer.notify.grafana.service import AnnotationReport

AGENT: Final = AgentReport("0", "test", EPOCH, 60.0)
NOTEBOOK: Final = workload("ana", WorkloadClass.NOTEBOOK)


@dataclass
class Sink:
    """Somewhere that takes events, and looks at what the disk holds when it does."""

    path: Path
    events: list[AdviceEvent] = field(default_factory=list)
    on_disk: list[tuple[Advice, ...]] = field(default_factory=list)
    deliveries: int = 0

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Take events, and look."""
        storage = Storage(str(self.path), read_only=True)
        self.on_disk.append(storage.ledger(LedgerSettings()).advice())
        storage.close()
        self.events.extend(events)

    def deliver(self) -> AnnotationReport:
        """Count."""
        self.deliveries += 1
        return AnnotationReport()


@dataclass
class Desk:
    """Chores with all that they work on."""

    path: Path
    clock: FastClock
    accountant: AccountingService
    storage: Storage
    sink: Sink
    chores: NodeJobs

    def hold_idle(self, first_minute: int, last_minute: int) -> None:
        """Let a notebook hold a GPU and do nothing with it, minute by minute."""
        device = gpu()
        for minute in range(first_minute, last_minute):
            self.accountant.post(
                snapshot(
                    minute * 60.0,
                    [device],
                    {device: HELD},
                    interval_seconds=60.0,
                    holders={device: NOTEBOOK},
                ),
                (),
                lambda: AGENT,
            )
        self.at(EPOCH + (last_minute - 1) * MINUTE)

    def leave_empty(self, first_minute: int, last_minute: int) -> None:
        """Let nobody hold the GPU."""
        device = gpu()
        for minute in range(first_minute, last_minute):
            seen = snapshot(minute * 60.0, [device], {device: EMPTY}, interval_seconds=60.0)
            self.accountant.post(seen, (), lambda: AGENT)
        self.at(EPOCH + (last_minute - 1) * MINUTE)

    def at(self, time: Nanoseconds) -> None:
        """Let it be later."""
        self.clock = FastClock(time)
        self.chores = chores(self.accountant, self.storage, self.sink, self.clock)


def chores(
    accountant: AccountingService, storage: Storage, sink: Sink | None, clock: FastClock
) -> NodeJobs:
    """Chores whose ledger is what the storage holds."""
    return NodeJobs(
        accountant=accountant,
        storage=storage,
        ledger=storage.ledger(LedgerSettings()),
        rules=RULES,
        sinks=() if sink is None else (sink,),
        clock=clock,
        retention_seconds=30 * 86400.0,
    )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Everything empty."""
    path, clock = tmp_path / "history.db", FastClock(EPOCH)
    books, storage, sink = (
        AccountingService(AccountingSettings()),
        Storage(str(path)),
        Sink(path),
    )
    yield Desk(path, clock, books, storage, sink, chores(books, storage, sink, clock))
    storage.close()
