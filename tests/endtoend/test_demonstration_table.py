"""The first page's table is what each demonstration finds in its first minutes."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.accounting.rollup_store import FINE_KEPT
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.policy import PolicySet
from rightsizer.advice.service import Recommender, configured_rules
from rightsizer.catalogue.catalogue import built_in
from rightsizer.cli.demo import DemoSettings, agent_settings, told_at
from rightsizer.io.clock import FastClock
from rightsizer.model.advice import AdviceEventKind
from rightsizer.model.finding import Finding
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import (
    DAY,
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    nanoseconds,
    percent_text,
    seconds,
)
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import SimulatedSource

pytestmark = pytest.mark.timeout(400)

PAGE: Final = Path(__file__).parents[2] / "README.md"
BLOCK: Final = re.compile(
    "(?<=<!-- demonstration -->\n).*(?=<!-- end of demonstration -->)", re.DOTALL
)
BEGINS: Final[Nanoseconds] = 1_767_709_800 * NANOSECONDS_PER_SECOND
"""In the afternoon of a day of January 2026."""
TICK_SECONDS: Final = 600.0
"""Slower machines miss readings: what is told needs few of them."""
TOLD: Final = (
    ("notebook-ana", "release"),
    ("finetune-ddp", "investigate_straggler"),
    ("image-train", "fix_input_pipeline"),
    ("embedding-svc", "share_mig"),
)


def snapshots(
    demo: DemoSettings, start: Nanoseconds, span: float, tick: float
) -> Iterator[Snapshot]:
    """The simulated node from a time on."""
    catalogue = built_in()
    source = SimulatedSource(
        load_scenario(demo.scenario, catalogue, demo.midnight_seconds),
        catalogue,
        start=start,
        interval=nanoseconds(tick),
        duration=nanoseconds(span) + 1,
    )
    return iter(source.read, None)


def opened(folder: Path) -> Iterator[tuple[Nanoseconds, str, Finding]]:
    """Recommendations of the demonstration's day as they open: after how long, whose, and what."""
    demo = told_at(DemoSettings(), BEGINS)
    settings = agent_settings(demo, folder)
    accounts = NodeAccounts(settings.accounting)
    before = demo.days_before * seconds(DAY)
    past = snapshots(demo, BEGINS - nanoseconds(before), before, demo.memory_tick_seconds)
    accounts.keep_hours_before(BEGINS - FINE_KEPT)
    for snapshot in past:
        accounts.post(snapshot)
    accounts.reset_totals()
    ledger = Ledger((), settings.recommender.ledger)
    policies = PolicySet(settings.policies_here)
    recommender = Recommender(accounts, configured_rules(settings), policies, FastClock(BEGINS))
    interval = nanoseconds(settings.recommender.interval)
    due = BEGINS + interval
    for snapshot in snapshots(demo, BEGINS, seconds(DAY), TICK_SECONDS):
        accounts.post(snapshot)
        if snapshot.wall_time < due:
            continue
        due += interval
        judged, now, _ = recommender.run(ledger.advice(), snapshot.wall_time)
        for event in ledger.update(judged, now):
            if event.kind is AdviceEventKind.OPENED:
                finding = event.advice.finding
                name = (finding.workload or "").rpartition("/")[2]
                yield snapshot.wall_time - BEGINS, name, finding


def row_of(finding: Finding) -> str:
    """A line of the table."""
    low = finding.savings.gpu_hours_per_month_low
    high = finding.savings.gpu_hours_per_month_high
    assert high is not None
    hours = f"{low:.0f} to {high:.0f}" if low else f"up to {high:.0f}"
    hours = f"{high:.0f}" if low == high else hours
    confidence = percent_text(finding.confidence)
    return f"| {finding.summary} | `{finding.action}` | {confidence} | {hours} |\n"


def test_the_first_page_shows_what_each_demonstration_finds(
    golden: Callable[[str | Path, str], None], tmp_path: Path
) -> None:
    """The scenario has its seed: `make golden` writes the table."""
    rows: dict[tuple[str, str], str] = {}
    for after, name, finding in opened(tmp_path):
        key = name, str(finding.action)
        if key in TOLD:
            # Two minutes at the demonstration's usual pace.
            assert seconds(after) / DemoSettings().speed <= 120.0
            rows.setdefault(key, row_of(finding))
        if len(rows) == len(TOLD):
            break
    assert rows.keys() == {*TOLD}
    heading = "| finding | action | confidence | GPU-hours a month |\n|---|---|---|---|\n"
    table = heading + "".join(rows[key] for key in TOLD)
    page = PAGE.read_text("utf-8")
    assert BLOCK.search(page) is not None
    golden(PAGE, BLOCK.sub(lambda _: f"\n{table}\n", page))
