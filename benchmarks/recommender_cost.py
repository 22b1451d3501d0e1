"""Cost of one run of all rules over thirty days of the eight-GPU node."""

import time
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from benchmarks.month_history import one_day
from benchmarks.options import Options
from cases import moved
from measured import Figure, quantile
from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import AccountingSettings
from rightsizer.advice.policy import PolicySet
from rightsizer.advice.rules import RULES
from rightsizer.advice.service import Recommender
from rightsizer.io.clock import FastClock
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.window import Window

_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
_DAYS: Final = 30
_RUNS: Final = 5
_MOST_MILLISECONDS: Final = 200.0


def measure(_: Options) -> Iterator[Figure]:
    """The median of some runs, each of which reads the past again."""
    end = time.time_ns()
    end -= end % (3600 * NANOSECONDS_PER_SECOND)
    recommender = Recommender(thirty_days(end), RULES, PolicySet(), FastClock(end))
    took = 1e3 * quantile((_seconds(recommender) for _ in range(_RUNS)), 0.5)
    what = f"one run of the rules over {_DAYS} days of eight GPUs"
    yield Figure(what, took, "ms", _MOST_MILLISECONDS, f"{len(RULES)} rules")


def thirty_days(end: Nanoseconds) -> AccountingService:
    """Accounts of the same simulated day, over and over, with holders who stayed."""
    accounts = NodeAccounts()
    windows = list[Window]()
    for snapshot in one_day(end):
        accounts.post(snapshot)
        windows += accounts.drain_closed()
    known = [
        replace(record, holder_since=end - _DAYS * _DAY) for record in accounts.device_records()
    ]
    shifted = (moved(window, -day * _DAY) for day in reversed(range(_DAYS)) for window in windows)
    accounting = AccountingService(AccountingSettings())
    accounting.restore(known, shifted)
    return accounting


def _seconds(recommender: Recommender) -> float:
    started = time.perf_counter()
    recommender.run()
    return time.perf_counter() - started
