"""A single run over a loopback store: shown, kept or explained."""

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import active_children
from pathlib import Path

import pytest
from msgspec.structs import replace

from advice_history import keep_advice
from fleet_loopback import LoopbackStore, loopback_store
from readings import DAY, EPOCH, HOUR
from rightsizer.advice.storage import Storage
from rightsizer.fleet.encoder import FleetAnswer
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.model import LostDevice
from rightsizer.fleet.rules.idle_pool import IdlePoolSettings
from rightsizer.fleet.run import explain_once, run_once
from rightsizer.fleet.settings import (
    FleetConfig,
    FleetSettings,
    StoreSettings,
    day_cache_path,
    ledger_path,
    rule_trees,
)
from rightsizer.io.clock import FastClock
from rightsizer.model.errors import HistoryError, UsageError

NOW = EPOCH + 30 * DAY


@pytest.fixture(scope="module")
def store() -> Iterator[LoopbackStore]:
    """Store of eight GPUs."""
    with loopback_store(8) as found:
        yield found


@pytest.fixture
def settings(store: LoopbackStore, tmp_path: Path) -> FleetConfig:
    """Two days, in this process."""
    fleet = FleetSettings(
        store=StoreSettings(url=store.url),
        path=str(tmp_path / "fleet.db"),
        lookback_seconds=86400.0,
        workers=1,
    )
    return replace(FleetConfig(), fleet=fleet)


@contextmanager
def judge_of(settings: FleetConfig, *, keeps_all: bool = False) -> Iterator[FleetJudge]:
    """A judge whose present is that of the test."""
    with FleetJudge(settings, FastClock(NOW), keeps_all=keeps_all) as judge:
        yield judge


def test_a_look_changes_nothing_but_what_was_read(settings: FleetConfig) -> None:
    """No ledger exists after it."""
    with judge_of(settings) as judge:
        answer = run_once(judge, settings, FastClock(NOW))
    assert [pool.name for pool in answer.view.pools] == ["pool-0"]
    assert answer.use.queries > 0
    assert day_cache_path(settings).is_file()
    assert not ledger_path(settings).exists()


@pytest.mark.parametrize(("age_hours", "is_old"), [(1, False), (72, True)])
def test_shards_that_have_stopped_are_not_waited_for(
    settings: FleetConfig, age_hours: int, *, is_old: bool
) -> None:
    """An answer as of days ago would count as one of now."""
    until = NOW - age_hours * HOUR
    shard = replace(settings, fleet=replace(settings.fleet, shard="node:0/1"))
    with FleetJudge(shard, FastClock(until)) as judge:
        judge.read()
        path = judge.days_path
    with FleetJudge(settings, FastClock(NOW), parts=[path]) as judge:
        answer = run_once(judge, settings, FastClock(NOW))
    assert answer.time == (NOW if is_old else until)
    told = [note for note in answer.notes if note.startswith("Shards last read 3 d ago")]
    assert len(told) == is_old


def test_advice_that_was_kept_is_known_to_the_next_look(settings: FleetConfig) -> None:
    """This includes runs that keep nothing: they show the ledger as it would become."""
    advice_id = keep_advice(
        ledger_path(settings), NOW - DAY, key="kubernetes:web/gone", workload=None
    )
    before = ledger_path(settings).read_bytes()
    with judge_of(settings) as judge:
        answer = run_once(judge, settings, FastClock(NOW))
    assert advice_id in [each.id for each in answer.advice]
    assert ledger_path(settings).read_bytes() == before


_PROCESSES: list[int] = []


class CountingSettings(IdlePoolSettings, frozen=True):
    """Counts worker processes when it is sent to them, and when a rule of the fleet judges."""

    def __getattribute__(self, name: str) -> object:
        if name == "conduct":
            _PROCESSES.append(len(active_children()))
        return super().__getattribute__(name)


def test_workers_have_ended_when_the_fleet_s_rules_judge(settings: FleetConfig) -> None:
    """Views of a large fleet take as much memory as the workers."""
    rules = replace(settings.fleet.rules, idle_pool=CountingSettings())
    fleet = replace(settings.fleet, rules=rules, workers=2, lookback_seconds=3 * 86400.0)
    _PROCESSES.clear()
    with judge_of(replace(settings, fleet=fleet)) as judge:
        run_once(judge, settings, FastClock(NOW))
    assert max(_PROCESSES) == 2
    assert _PROCESSES[-1] == 0


def test_a_ledger_that_is_held_is_not_written_to(settings: FleetConfig) -> None:
    """While a service runs, the run reports who holds the ledger, and changes nothing."""
    keep_advice(ledger_path(settings), NOW)
    holder = Storage(str(ledger_path(settings)))
    try:
        with judge_of(settings) as judge, pytest.raises(HistoryError, match="written by process"):
            run_once(judge, settings, FastClock(NOW), keeps=True)
    finally:
        holder.close()


def test_two_looks_do_not_share_what_is_read(settings: FleetConfig) -> None:
    """The second run fails at once."""
    with (
        judge_of(settings),
        pytest.raises(HistoryError, match="written by process"),
        judge_of(settings),
    ):
        pass


def test_a_verdict_that_is_no_advice_has_its_reasons_too(settings: FleetConfig) -> None:
    """Its ID is the one in the output of --json --all."""
    with judge_of(settings, keeps_all=True) as judge:
        answer = run_once(judge, settings, FastClock(NOW))
        of_estate = next(finding for finding in answer.findings if finding.rule == "idle_pool")
        of_node = next(finding for finding in answer.findings if finding.rule == "idle")
        explained = explain_once(judge, settings, of_estate.id)
        beside = explain_once(judge, settings, of_node.id)
    assert explained.lifecycle is None
    assert explained.thresholds[0].setting == "fleet.rules.idle_pool.on_ratio"
    assert beside.thresholds[0].setting == "recommender.rules.idle.on_ratio"
    assert beside.queries
    assert explained.names[of_estate.devices[0]].startswith("GPU ")


class LosingJudge(FleetJudge):
    """A judge whose GPUs have all disappeared."""

    @property
    def answer(self) -> FleetAnswer:
        """The answer without pools."""
        answer = super().answer
        lost = tuple(
            LostDevice(device, NOW) for pool in answer.view.pools for device in pool.devices
        )
        return replace(answer, view=replace(answer.view, pools=(), lost=lost))


def test_gpus_that_disappeared_have_names_in_explanations(settings: FleetConfig) -> None:
    """They are in no pool."""
    with LosingJudge(settings, FastClock(NOW), keeps_all=True) as judge:
        judge.run()
        verdict = next(finding for finding in judge.answer.findings if finding.devices)
        explained = explain_once(judge, settings, verdict.id)
    assert explained.names[verdict.devices[0]].startswith("GPU ")


def test_an_id_that_is_none_is_refused_by_name(settings: FleetConfig) -> None:
    """The check follows the run, which may find the ID."""
    with judge_of(settings) as judge, pytest.raises(UsageError, match="nosuchid"):
        explain_once(judge, settings, "nosuchid")


def test_every_rule_has_its_settings_under_one_key() -> None:
    """Names of the fleet's and a node's rules do not collide."""
    trees = rule_trees(FleetConfig())
    names = [name for tree in trees.values() for name in tree.__struct_fields__]
    assert len(names) == len(set(names)) > 30
