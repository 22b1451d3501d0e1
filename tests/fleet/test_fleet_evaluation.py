"""A fleet is judged in batches, by any number of processes, with the same verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shutil import copyfile

import pytest
from msgspec.structs import replace

from cached_fleet import FIRST_DAY, MadeUp, NoStore, day_frame, estate_device
from readings import DAY, HOUR, MINUTE, workload
from rightsizer.advice.rules import RULES
from rightsizer.advice.verdict import CaseSubject
from rightsizer.catalogue.catalogue import built_in, mig_instance
from rightsizer.fleet.cache.day_cache import DayCache, PackedDay
from rightsizer.fleet.cache.grid import COARSE_STEP, Grid
from rightsizer.fleet.cases.case import BatchRequest, batches_of, case_measurement
from rightsizer.fleet.cases.evaluation import (
    BatchEvaluation,
    BatchVerdicts,
    evaluate_batches,
    spans_of,
)
from rightsizer.fleet.cases.occupancy import occupancy_of
from rightsizer.fleet.cases.view_builder import BatchContribution, view_of
from rightsizer.fleet.fetch import FetchTask, PlannedSource, fetch, plan_of
from rightsizer.fleet.model import FleetDay, FleetDevice
from rightsizer.fleet.process_pool import ProcessPool
from rightsizer.fleet.rules.wrong_gpu_type import RULE as WRONG_GPU_TYPE
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.model.device import Device
from rightsizer.model.finding import Finding, FindingKind
from rightsizer.model.state import State
from rightsizer.model.workload import Workload, WorkloadClass

NOW = (FIRST_DAY + 3) * DAY + 2 * HOUR
DEVICES = {
    each.device.uuid: each
    for each in (estate_device(number, "h100" if number < 16 else "spare") for number in range(20))
}
LLAMA = workload("llama", WorkloadClass.SERVING)
TRAIN = workload("train")
HOLDERS: Mapping[str, Workload] = {
    **{f"GPU-{number}": LLAMA for number in range(4)},
    **{f"GPU-{number}": TRAIN for number in range(8, 16)},
}
STATES = {
    **{f"GPU-{number}": State.IDLE_EMPTY for number in (4, 5, 6, 7, 16, 17, 18, 19)},
    **{f"GPU-{number}": State.IDLE_HELD for number in range(4)},
}
"""The service holds four GPUs and idles; eight are free; the job is healthy."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cache of three days and two hours."""
    return cached(tmp_path_factory.mktemp("estate") / "fleet.db", HOLDERS)


def cached(path: Path, holders: Mapping[str, Workload]) -> Path:
    """Write the days of a fleet with these holders."""
    report = SourceReport("rightsizer", devices=20, oldest=FIRST_DAY * DAY)
    sources = [PlannedSource(report, tuple(DEVICES.values()))]
    source = MadeUp(holders, STATES)
    settings = FleetSettings(lookback_seconds=3 * 86400.0, samples_maximum=100_000)
    with DayCache(path) as day_cache:
        plan = plan_of(sources, day_cache.done, NOW, settings)
        fetch(plan, day_cache, FetchTask(NoStore, {"rightsizer": (source, report)}), ProcessPool())
    return path


def order(path: Path) -> BatchRequest:
    """Order for the whole fleet."""
    with DayCache(path, read_only=True) as day_cache:
        rows = day_cache.holdings(FIRST_DAY, FIRST_DAY + 3)
        occupied = occupancy_of(DEVICES, rows, NOW, 10 * MINUTE)
        return BatchRequest(occupied, DEVICES, day_cache.workloads(), FIRST_DAY, NOW)


def judged(path: Path, workers: int = 1, **facts: object) -> BatchVerdicts:
    """Verdicts on the whole fleet."""
    spans = (3 * DAY, DAY)
    judging = BatchEvaluation(path, spans=spans, **facts)  # type: ignore[arg-type]
    with ProcessPool(workers) as pool:
        return evaluate_batches(judging, order(path), pool)


def test_planted_faults_are_found_and_nothing_else(path: Path) -> None:
    """The service's GPUs and free ones are idle; the job is healthy."""
    found = judged(path)
    idle = {
        judgement.key
        for judgement in found.judgements
        if judgement.finding.kind is FindingKind.IDLE
    }
    assert idle == {LLAMA.key, *(f"GPU-{number}" for number in (4, 5, 6, 7, 16, 17, 18, 19))}
    assert not [judgement for judgement in found.judgements if judgement.key == TRAIN.key]
    assert all(judgement.may_open for judgement in found.judgements if judgement.key == LLAMA.key)
    assert found.faults == []


def test_every_verdict_is_counted(path: Path) -> None:
    """This includes verdicts that are not kept; on request all are kept."""
    few = judged(path)
    all_of_them = judged(path, keeps_all=True)
    assert few.tallies == all_of_them.tallies
    assert few.tallies.total() == len(all_of_them.judgements) == 10 * len(RULES)
    assert len(few.judgements) < len(all_of_them.judgements)


def test_time_of_a_gpu_that_is_gone_is_no_coverage_of_others(path: Path, tmp_path: Path) -> None:
    """It would hide how much of their time is unknown."""
    later = order(path)
    gone = estate_device(20)
    both = tmp_path / "fleet.db"
    copyfile(path, both)
    with DayCache(both) as day_cache:
        day = FleetDay({gone.device.uuid: day_frame(FIRST_DAY + 1)})
        grid = Grid(FIRST_DAY + 1, COARSE_STEP)
        day_cache.put(PackedDay.of("rightsizer", grid, [gone.device.uuid], NOW, day))
    present = {**later.occupancy.present, gone.device.uuid: (gone.device.uuid,)}
    request = replace(
        later,
        devices={**DEVICES, gone.device.uuid: gone},
        occupancy=replace(later.occupancy, present=present),
    )
    known = []
    for file, each in ((path, later), (both, request)):
        found = evaluate_batches(BatchEvaluation(file, spans=(3 * DAY,)), each, ProcessPool())
        known.append(found.parts.known_seconds[3 * DAY])
    assert known[0] == known[1] > 0
    assert [each.device for each in found.parts.lost] == [gone]


def test_open_advice_is_judged_even_when_healthy(path: Path) -> None:
    """Otherwise its end would not be noticed."""
    found = judged(path, open_now=frozenset({(TRAIN.key, "idle")}))
    (judgement,) = [each for each in found.judgements if each.key == TRAIN.key]
    assert judgement.still_holds is False


@pytest.mark.parametrize(
    "facts",
    [{"keeps_all": True}, {"open_now": frozenset({(TRAIN.key, "wrong_gpu_type")})}],
    ids=str,
)
def test_verdict_of_the_fleet_that_is_kept_names_its_span(
    facts: dict[str, object], tmp_path: Path
) -> None:
    """Also on a job on one GPU, of which the fleet's rules read no window: 0 would be unknown."""
    parts = judged(cached(tmp_path / "fleet.db", {"GPU-8": TRAIN}), **facts).parts
    for span in (3 * DAY, DAY):
        (finding,) = WRONG_GPU_TYPE.judge(view_of(parts, span, NOW))
        assert finding.summary.startswith("A batch workload would only run longer")
        assert finding.evidence["window_seconds"] == span / 1e9
        assert 0 < finding.evidence["known_seconds"] <= span / 1e9


def test_several_processes_come_to_the_same(path: Path) -> None:
    """They are in the same order, too."""
    one = judged(path)
    two = judged(path, workers=2)
    assert [judgement.finding for judgement in one.judgements] == [
        judgement.finding for judgement in two.judgements
    ]
    assert view_of(one.parts, DAY, NOW) == view_of(two.parts, DAY, NOW)
    assert one.parts.uses == two.parts.uses


def test_a_batch_has_whole_workloads(path: Path) -> None:
    """Every device of the fleet is in exactly one batch."""
    orders = list(batches_of(order(path), devices=5))
    assert sorted(uuid for each in orders for uuid in each.devices) == sorted(DEVICES)
    assert sorted(key for each in orders for key in each.occupancy.present) == sorted(
        order(path).occupancy.present
    )


def _raises(subject: CaseSubject, settings: object) -> Finding:
    raise ZeroDivisionError(subject.case.key)


def test_a_rule_that_raises_costs_its_own_verdicts_alone(path: Path) -> None:
    """The error has the workload, whichever process raised it."""
    broken = replace(RULES[0], judge_with=_raises, screen_with=None)
    found = judged(path, workers=2, rules=(broken, *RULES[1:]))
    assert len(found.faults) == 10
    assert found.faults[0].rule == RULES[0].name
    assert "ZeroDivisionError" in found.faults[0].error
    assert found.tallies.total() == 10 * len(RULES)


def test_pools_are_summed_over_their_nodes(path: Path) -> None:
    """Each hour has the number of GPUs, their holders, and what is free where."""
    view = view_of(judged(path).parts, DAY, NOW)
    pool, spare = view.pools
    assert (pool.name, spare.name) == ("h100", "spare")
    assert pool.size_by_node == {"node-0": 8, "node-1": 8}
    assert pool.free_by_node == {"node-0": 4}
    assert list(pool.held.values) == list(pool.held_peak.values) == [12.0] * 24
    assert list(pool.present.values) == [16.0] * 24
    assert list(pool.active.values) == [8.0] * 24
    assert list(pool.node_free["node-0"].values) == [4.0] * 24
    assert list(spare.held.values) == [0.0] * 24
    assert spare.board == "H100-SXM5-80GB"
    assert view.coverage_ratio == 1.0


def test_gpus_of_a_pool_are_whole_however_they_are_divided() -> None:
    """Two instances of three sevenths leave a seventh that no one can have; one holds a GPU."""
    board = built_in().get("A100-SXM4-80GB")
    devices = [
        FleetDevice(
            Device(f"MIG-{number}", number // 2, mig=mig_instance(board, "3g.40gb", gpu, 1)),
            "node-a",
            "a100",
        )
        for number, gpu in enumerate(("GPU-0", "GPU-0", "GPU-1", "GPU-1"))
    ]
    parts = BatchContribution(present=devices, free={"MIG-1", "MIG-2", "MIG-3"})
    (pool,) = view_of(parts, DAY, NOW).pools
    assert (pool.size_by_node, pool.free_by_node) == ({"node-a": 2}, {"node-a": 1})


def test_workloads_are_seen_by_the_hour(path: Path) -> None:
    """Values are in GPUs, by node."""
    llama, train = view_of(judged(path).parts, 3 * DAY, NOW).workloads
    assert (llama.case.key, train.case.key) == (LLAMA.key, TRAIN.key)
    assert train.nodes == {"node-1": 8}
    assert train.pool == "h100"
    assert len(train.busy.values) == 72
    expected = sum(0.3 + number % 7 / 10 for number in range(8, 16))
    assert [value for value in train.busy.values if value is not None] == pytest.approx(
        [expected] * 72, rel=1e-3
    )
    assert train.case.provisioning[0].active_seconds == pytest.approx(3 * 86400.0)


def test_parts_of_no_batch_are_an_empty_estate() -> None:
    """A fleet without devices has no pools, and nothing of it is known."""
    view = view_of(BatchContribution(), DAY, NOW)
    assert (view.pools, view.workloads, view.coverage_ratio) == ((), (), 0.0)
    assert spans_of((), 1) == ()


def test_case_measurement_has_the_workload_and_its_peers(path: Path) -> None:
    """Without a requested case there is none."""
    with DayCache(path, read_only=True) as day_cache:
        found = case_measurement(day_cache, order(path), [LLAMA.key, "slurm/gone"])(DAY)
        assert set(found) == {LLAMA.key, TRAIN.key}
        assert found[LLAMA.key].gpus == 4.0
        assert found[LLAMA.key].waste_ratio == pytest.approx(1.0)
        assert case_measurement(day_cache, order(path), ())(DAY) == {}
