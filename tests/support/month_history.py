"""A month's history of the simulated eight-GPU node, with advice and outcomes.

`python tests/support/month_history.py HISTORY` writes it; `tests/support/screenshots.py` shows it.
"""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.advice.engine import judge_all
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.lookup import open_places
from rightsizer.advice.service import configured_rules
from rightsizer.advice.storage import Storage
from rightsizer.advice.verification import measure_all
from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.advice import AdviceState
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.simulator.scenario import SimulatedScenario
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START, SimulatedSource

__all__ = ["fill_month"]

_SCENARIO: Final = "eight-gpu-node"
_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
_HOUR: Final = 3600 * NANOSECONDS_PER_SECOND
_FINE: Final = 2 * _DAY
_MENDED: Final = {"image-train": range(9, 24), "finetune-ddp": range(18, 31)}
"""Days on which a workload behaves like the healthy one."""
_AWAY: Final = {"notebook-ana": range(12, 22)}
_CLAIMED: Final = {"image-train": 5, "notebook-ana": 6}
"""Days that end with claims of a workload's open advice."""
_DISMISSED: Final = {"embedding-svc": 20}
_OUTAGE: Final = (DEFAULT_START + 14 * _DAY + 6 * _HOUR, DEFAULT_START + 14 * _DAY + 13 * _HOUR)
"""The time without an agent."""


def fill_month(
    path: Path, days: int = 30, tick_seconds: float = 120.0, run_every_seconds: float = 10800.0
) -> None:
    """Simulate the month and save it.

    Args:
        path: A history that does not exist.
        days: Number of days; the first begins at the simulator's usual start.
        tick_seconds: Simulated time between two readings.
        run_every_seconds: Simulated time between two runs of the rules.
    """
    settings = Settings()
    accounts = NodeAccounts()
    ledger = Ledger()
    rules = configured_rules(settings)
    storage = Storage(str(path), is_durable=False)
    due = DEFAULT_START + nanoseconds(run_every_seconds)
    for day in range(1, days + 1):
        windows = []
        for snapshot in _snapshots(day, nanoseconds(tick_seconds)):
            now = snapshot.wall_time
            accounts.post(snapshot)
            windows += accounts.drain_closed()
            if now < due:
                continue
            due = now + nanoseconds(run_every_seconds)
            # Each write records the current holders.
            storage.save_windows(windows, (), accounts.device_records())
            windows = []
            cases = cache(lambda span, now=now: accounts.snapshot(now).cases(span))
            measured = cache(lambda span, cases=cases: measure_all(cases(span)))
            ledger.update(judge_all(cases, rules, open_places(ledger.advice())), now, measured)
        _act(ledger, day)
        storage.save_windows(windows, (), accounts.device_records())
        storage.save_ledger(ledger)
    if storage.history is not None:
        storage.history.roll_up(DEFAULT_START + days * _DAY - _FINE)
    storage.close()


def _act(ledger: Ledger, day: int) -> None:
    """Users' decisions at the end of a day."""
    for days, state in ((_CLAIMED, AdviceState.CLAIMED), (_DISMISSED, AdviceState.DISMISSED)):
        names = [name for name, then in days.items() if then == day]
        for advice in ledger.advice():
            if advice.is_open and (advice.finding.workload or "").rpartition("/")[2] in names:
                ledger.act(advice.id, state, "ana", DEFAULT_START + day * _DAY)


def _snapshots(day: int, tick: Nanoseconds) -> Iterator[Snapshot]:
    start = DEFAULT_START + (day - 1) * _DAY
    source = SimulatedSource(_scenario(day), built_in(), start=start, interval=tick, duration=_DAY)
    for snapshot in iter(source.read, None):
        if not _OUTAGE[0] <= snapshot.wall_time < _OUTAGE[1]:
            yield snapshot


def _scenario(day: int) -> SimulatedScenario:
    written = load_scenario(_SCENARIO, built_in())
    healthy = next(task for task in written.tasks if task.workload.name == "llm-pretrain")
    return replace(
        written,
        tasks=tuple(
            replace(task, phases=healthy.phases)
            if day in _MENDED.get(task.workload.name, ())
            else task
            for task in written.tasks
            if day not in _AWAY.get(task.workload.name, ())
        ),
    )


if __name__ == "__main__":
    fill_month(Path(sys.argv[1]))
