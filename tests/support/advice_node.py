"""A node's advice service over real accounts and a real database."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from readings import EMPTY, EPOCH, HELD, MINUTE, gpu, snapshot, workload
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings, HistorySettings
from rightsizer.advice.policy import Policy, PolicySet
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.service import AdviceService, EventSink, JudgementSource, Recommender
from rightsizer.advice.settings import LedgerSettings
from rightsizer.advice.storage import Storage
from rightsizer.agent.history_service import HistoryService
from rightsizer.io.clock import FastClock
from rightsizer.model.advice import Advice, AdviceEvent
from rightsizer.model.report import AgentReport
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import WorkloadClass

AGENT: Final = AgentReport("0", "test", EPOCH, 60.0)
NOTEBOOK: Final = workload("ana", WorkloadClass.NOTEBOOK)


@dataclass
class Sink:
    """A sink that reads the disk when it gets events."""

    path: Path
    events: list[AdviceEvent] = field(default_factory=list)
    on_disk: list[tuple[Advice, ...]] = field(default_factory=list)
    deliveries: int = 0

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Accept events, and read the disk."""
        storage = Storage(str(self.path), read_only=True)
        self.on_disk.append(storage.ledger(LedgerSettings()).advice())
        storage.close()
        self.events.extend(events)

    def deliver(self) -> None:
        """Count the call."""
        self.deliveries += 1


class NodeServices:
    """The services of an agent: rules, advice, and the writer of its history."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that an agent brings together.
        self,
        accounting: AccountingService,
        storage: Storage,
        clock: FastClock,
        sinks: Sequence[EventSink] = (),
        rules: Sequence[Rule[Any]] = RULES,
        policies: Sequence[Policy] = (),
        profiles: JudgementSource | None = None,
    ) -> None:
        self.recommender = Recommender(
            accounting,
            rules,
            PolicySet(policies),
            clock,
            {} if profiles is None else {"profiles": profiles},
        )
        self.failures = self.recommender.failures
        ledger = storage.ledger(LedgerSettings())
        self.advice_service = AdviceService(self.recommender, ledger, storage, sinks, clock)
        self.history_service = HistoryService(accounting, storage, clock, HistorySettings())


@dataclass
class AdviceNode:
    """The services of a node with all their dependencies."""

    path: Path
    clock: FastClock
    accounting: AccountingService
    storage: Storage
    sink: Sink

    def __post_init__(self) -> None:
        """Start without a run."""
        self.take(NodeServices(self.accounting, self.storage, self.clock, (self.sink,)))

    def take(self, services: NodeServices) -> None:
        """Continue with other services."""
        self.recommender = services.recommender
        self.advice_service = services.advice_service
        self.history_service = services.history_service

    def hold_idle(self, first_minute: int, last_minute: int) -> None:
        """Let a notebook hold an idle GPU, minute by minute."""
        device = gpu()
        for minute in range(first_minute, last_minute):
            self.accounting.post(
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
        """Leave the GPU without a holder."""
        device = gpu()
        for minute in range(first_minute, last_minute):
            seen = snapshot(minute * 60.0, [device], {device: EMPTY}, interval_seconds=60.0)
            self.accounting.post(seen, (), lambda: AGENT)
        self.at(EPOCH + (last_minute - 1) * MINUTE)

    def at(self, time: Nanoseconds) -> None:
        """Advance the time."""
        self.clock = FastClock(time)
        self.take(NodeServices(self.accounting, self.storage, self.clock, (self.sink,)))


@pytest.fixture
def advice_node(tmp_path: Path) -> Iterator[AdviceNode]:
    """An empty node."""
    path = tmp_path / "history.db"
    clock = FastClock(EPOCH)
    service = AccountingService(AccountingSettings())
    storage = Storage(str(path))
    sink = Sink(path)
    yield AdviceNode(path, clock, service, storage, sink)
    storage.close()
