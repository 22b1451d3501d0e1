"""Generated fleet of the tests: its states sum to its time, and generation is deterministic."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from estate.character import SLOTS, STEP_SECONDS
from estate.dcgm import dcgm_runs
from estate.kube import kube_runs
from estate.layout import JOBS, LARGE, SMALL, Layout
from estate.life import Life, live
from estate.own import own_runs
from estate.series import Counters, Run, pieces
from estate.served import planted_waits, wait_score
from estate.slurm import slurm_runs
from estate.stores import stretches
from estate.truth import PLANTED, Metrics, planted_in, score
from estate.waiting import PENDING, QUEUED
from estate.writing import json_lines, open_metrics
from prometheus_server import promtool
from rightsizer.exposition.settings import DcgmLabels
from rightsizer.model.metric import METRICS
from rightsizer.simulator.source import DEFAULT_START

DAYS = 11
START = DEFAULT_START // 10**9
STATES = "rightsizer_state_seconds_total"


@pytest.fixture(scope="module")
def life() -> Life:
    """The small fleet, after its gap and its restarts."""
    return live(SMALL, DAYS, START, tick_seconds=300, variants=1)


def last_values(runs: Iterator[Run], name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The last value of each series of a name."""
    return {run.labels: run.values[-1] for run in runs if run.name == name}


def test_there_are_a_hundred_gpus_and_a_smaller_estate() -> None:
    """The large fleet has the promised size; the small one fits into a test.

    Eight more GPUs of each joined in the last hours.
    """
    assert LARGE.size == 100 + 8
    assert SMALL.size == 48 + 8


@pytest.mark.parametrize("layout", [SMALL, LARGE], ids=lambda layout: layout.name)
def test_every_fault_is_planted_somewhere(layout: Layout) -> None:
    """Both fleets contain every fault, and healthy workloads too."""
    assert planted_in(layout, Metrics.OWN) == PLANTED
    faulty = {subject for planted in PLANTED for subject in planted.subjects}
    assert {job.name for job in layout.jobs} - faulty


def test_states_sum_to_the_time_of_the_agent(life: Life) -> None:
    """Every second of a GPU has exactly one state, whatever its holder."""
    sums: dict[str, float] = {}
    for labels, value in last_values(own_runs(life, Counters(), 0, SLOTS), STATES).items():
        sums[dict(labels)["uuid"]] = sums.get(dict(labels)["uuid"], 0.0) + value
    assert sums == pytest.approx(dict.fromkeys(sums, 86400.0))
    assert len(sums) == sum(gpu.parts[0].first == 0 for gpu in life.gpus)


def test_counters_only_grow_but_where_the_agent_began_again(life: Life) -> None:
    """An agent's restart resets counters to 0; nothing else does."""
    counters = Counters()
    before = dict[tuple[str, object], float]()
    shrunk = set[str]()
    for first, last in stretches(life):
        for run in own_runs(life, counters, first, last):
            if not run.name.endswith(("_total", "_bucket", "_sum", "_count")):
                continue
            key = run.name, run.labels
            values = [before.get(key, 0.0), *run.values]
            if any(after < value for value, after in pairwise(values)):
                shrunk.add(dict(run.labels)["instance"].partition(":")[0])
            before[key] = values[-1]
    assert shrunk == {"train-3", "batch-1", "serve-2"}


def test_a_node_is_away_for_a_day(life: Life) -> None:
    """The node is not scraped for that day: its GPUs have no samples."""
    gpu = next(gpu for gpu in life.gpus if gpu.machine.name == "serve-2")
    assert not pieces(life, gpu, 5 * SLOTS, 6 * SLOTS)
    assert pieces(life, gpu, 6 * SLOTS, 7 * SLOTS)


def test_some_machines_came_in_the_last_hours(life: Life) -> None:
    """Neither their GPUs nor owners of pods on them appear earlier."""
    late = [gpu for gpu in life.gpus if gpu.machine.pool == "burst"]
    assert {part.first for gpu in late for part in gpu.parts} == {life.slots - 2 * 12}
    for first, there in ((life.slots - 25, False), (life.slots - 24, True)):
        runs = list(kube_runs(life, first, first + 1))
        assert any(("node", "burst-1") in run.labels for run in runs) is there


def test_pods_are_replaced_and_workloads_stay(life: Life) -> None:
    """A deployment's pods get new names every few days; the workload's key stays."""
    gpu = next(gpu for gpu in life.gpus if gpu.parts[0].character == "chat-api")
    pods = {part.pod for part in gpu.parts}
    assert len(pods) == -(-DAYS // 3)
    assert {part.job for part in gpu.parts} == {JOBS["chat-api"]}


def test_a_pool_grows_by_a_gpu_every_other_day(life: Life) -> None:
    """Its tenants arrive one after another."""
    first = [
        next(part.first for part in gpu.parts if part.job)
        for gpu in life.gpus
        if gpu.machine.pool == "tenants"
        if any(part.job for part in gpu.parts)
    ]
    assert first == sorted(set(first))
    assert len(first) > 4


def test_stretches_meet_the_blocks_of_prometheus(life: Life) -> None:
    """Intervals are contiguous, and none crosses the end of a Prometheus block."""
    found = list(stretches(life))
    assert [first for first, _ in found[1:]] == [last for _, last in found[:-1]]
    assert (found[0][0], found[-1][1]) == (0, life.slots)
    block = 18 * 3600
    for first, last in found:
        begins = START + (first + 1) * STEP_SECONDS
        ends = START + last * STEP_SECONDS
        assert begins // block == ends // block


def test_a_life_is_the_same_however_it_is_cut(life: Life) -> None:
    """Counters continue from interval to interval as if the history were generated at once."""
    whole = last_values(own_runs(life, Counters(), 0, 300), STATES)
    counters = Counters()
    parts: dict[tuple[tuple[str, str], ...], float] = {}
    for first, last in ((0, 120), (120, 121), (121, 300)):
        parts |= last_values(own_runs(life, counters, first, last), STATES)
    assert parts == pytest.approx(whole)


def test_our_metrics_are_those_of_the_table(life: Life) -> None:
    """Names and labels are those that the agent exports, plus those that a scrape adds."""
    for run in own_runs(life, Counters(), 0, 12):
        stem = run.name
        for ending in ("_bucket", "_sum", "_count"):
            stem = stem.removesuffix(ending)
        metric = METRICS.get(run.name) or METRICS[stem]
        extra = {"instance", "job", "pool"} | ({"le"} if run.name.endswith("_bucket") else set())
        assert {name for name, _ in run.labels} - extra == set(metric.labels)


def test_rules_keep_what_prometheus_would_have_recorded(life: Life) -> None:
    """Increases of the slots sum to the counter's; raw scrapes exist for the last day."""
    end = life.slots
    recorded: dict[str, float] = {}
    for run in own_runs(life, Counters(), 0, SLOTS, records=True):
        if run.name == "uuid_state:rightsizer_state_seconds:increase5m":
            uuid = dict(run.labels)["uuid"]
            recorded[uuid] = recorded.get(uuid, 0.0) + sum(run.values)
        assert ":" in run.name
    assert recorded == pytest.approx(dict.fromkeys(recorded, 86400.0))
    names = {run.name for run in own_runs(life, Counters(), end - 12, end, records=True)}
    assert {STATES, "uuid:rightsizer_gpu_busy_ratio:avg5m"} <= names


@pytest.mark.parametrize(
    ("spelling", "is_exported", "labels"),
    [
        (DcgmLabels.CURRENT, False, {"UUID", "Hostname", "pod", "namespace", "container"}),
        (DcgmLabels.CURRENT, True, {"UUID", "exported_pod", "exported_namespace", "pod"}),
        (DcgmLabels.FORMER, False, {"uuid", "pod_name", "pod_namespace", "container_name"}),
    ],
)
def test_dcgm_exporters_spell_their_labels_differently(
    life: Life,
    spelling: DcgmLabels,
    is_exported: bool,  # noqa: FBT001 - pytest passes parameters by name.
    labels: set[str],
) -> None:
    """Every generation of label names occurs."""
    runs = dcgm_runs(life, Counters(), 0, 12, spelling=spelling, is_exported=is_exported)
    pods = [run for run in runs if ("instance", "serve-1:9400") in run.labels]
    assert pods
    assert all(labels <= {name for name, _ in run.labels} for run in pods)


def test_profiling_fields_can_be_off(life: Life) -> None:
    """Many exporters export none; here only Hopper GPUs have them."""
    every = {run.name for run in dcgm_runs(life, Counters(), 0, 12)}
    basic = {run.name for run in dcgm_runs(life, Counters(), 0, 12, has_profiling=False)}
    assert every > basic
    assert "DCGM_FI_DEV_GPU_UTIL" in basic
    assert all(name.startswith("DCGM_FI_PROF_") for name in every - basic)


def test_work_waits_for_a_place(life: Life) -> None:
    """Its pods are pending at the end and did not exist at the beginning."""
    pending = ("phase", "Pending")
    early = [run for run in kube_runs(life, 0, SLOTS) if pending in run.labels]
    late = [run for run in kube_runs(life, life.slots - 1, life.slots) if pending in run.labels]
    assert not early
    assert len(late) == sum(each.pods for each in PENDING[SMALL.name])
    queues = {run.labels[0][1] for run in slurm_runs(life, life.slots - 1, life.slots)}
    assert queues == QUEUED.keys()


def test_all_that_waits_has_a_truth() -> None:
    """Each waiting workload has exactly one expected result, in both fleets."""
    for layout in (SMALL, LARGE):
        keys = [wait.key for wait in planted_waits(layout, Metrics.OWN)]
        assert sorted(keys) == sorted([each.key for each in PENDING[layout.name]] + [*QUEUED])


def test_findings_of_waiting_work_are_compared_with_the_truth() -> None:
    """A wrong node, wait or step counts as much as a missing one."""
    anywhere = {
        "key": "kubernetes:newcomers/try-out",
        "pool": "",
        "gpus": 1.0,
        "waiting_seconds": 600.0,
        "left_gpus": 0.0,
        "why_left": None,
        "offers": [{"is_now": True, "nodes": {"spare-1": 1.0}, "steps": []}],
    }
    for change, is_found in (
        ({}, True),
        ({"waiting_seconds": 60.0}, False),
        ({"offers": []}, False),
        ({"key": "kubernetes:nobody/nothing"}, False),
    ):
        document = {"waiting_work": [anywhere | change], "findings": []}
        result = wait_score(SMALL, Metrics.OWN, document)
        assert (len(result.found), len(result.wrong)) == ((1, 0) if is_found else (0, 1))
        assert len(result.found) + len(result.missed) == 7


@pytest.mark.parametrize("metrics", list(Metrics))
def test_no_sample_is_written_twice(life: Life, metrics: Metrics) -> None:
    """Two samples of a series at one time would be rejected or taken for a duplicate scrape."""
    own = partial(own_runs, life, Counters(), records=metrics is Metrics.RULES)
    source = partial(dcgm_runs, life, Counters()) if metrics is Metrics.DCGM else own
    for first, last in ((0, 300), (life.slots - 300, life.slots)):
        seen: dict[tuple[str, object], set[int]] = {}
        schedulers = (*kube_runs(life, first, last), *slurm_runs(life, first, last))
        for run in (*source(first, last), *schedulers):
            slots = seen.setdefault((run.name, run.labels), set())
            assert slots.isdisjoint(run.slots), run
            slots.update(run.slots)


@pytest.mark.parametrize("source", [own_runs, dcgm_runs])
def test_promtool_takes_all_that_is_written(
    life: Life, source: Callable[[Life, Counters, int, int], Iterator[Run]], tmp_path: Path
) -> None:
    """Names, labels and times are valid: nothing is rejected or lost."""
    text = "".join(open_metrics(life, source(life, Counters(), 0, 2)))
    (tmp_path / "samples").write_text(f"{text}# EOF\n")
    made = ("tsdb", "create-blocks-from", "openmetrics", tmp_path / "samples", tmp_path / "data")
    taken = promtool(*made)
    assert not taken.returncode, taken.stderr
    assert f" {text.count(chr(10))} " in f"{taken.stdout} "


def test_texts_say_the_same_to_both_stores(life: Life) -> None:
    """Both have the same samples, in seconds for one store and milliseconds for the other."""
    run = Run("a_total", (("uuid", "x"), ("empty", "")), 3, (1.0, 2.5))
    times = [START + 4 * STEP_SECONDS, START + 5 * STEP_SECONDS]
    assert "".join(open_metrics(life, [run])) == (
        f'a_total{{uuid="x",empty=""}} 1 {times[0]}\na_total{{uuid="x",empty=""}} 2.5 {times[1]}\n'
    )
    assert "".join(json_lines(life, [run])) == (
        '{"metric":{"__name__": "a_total", "uuid": "x"},"values":[1,2.5],'
        f'"timestamps":[{times[0]}000,{times[1]}000]}}\n'
    )


def test_the_last_day_is_scraped_every_minute(life: Life) -> None:
    """Counters grow evenly from slot to slot; gauges stay constant."""
    first = life.fine_from
    counter = Run("a_total", (), first, (15.0, 15.0), 10.0)
    text = "".join(open_metrics(life, [counter, Run("b_ratio", (), first, (0.5,))]))
    samples = [line.split() for line in text.splitlines()]
    assert [value for _, value, _ in samples[:6]] == ["11", "12", "13", "14", "15", "15"]
    assert [value for _, value, _ in samples[10:]] == ["0.5"] * 5
    times = [int(time) - START - first * STEP_SECONDS for *_, time in samples[:10]]
    assert times == list(range(60, 601, 60))


def test_constant_series_is_written_sparsely_before_the_last_day(life: Life) -> None:
    """The last sample is always included, and the last day has one sample a slot.

    Counters of that day are written at each scrape, as exporters do: one sample has no increase.
    """
    run = Run("a_total", (), 4, (7.0, 7.0, 7.0), 7.0, is_steady=True)
    gauge = Run("b_info", (), life.slots - 3, (1.0, 1.0, 1.0), is_steady=True)
    text = "".join(open_metrics(life, [run, gauge]))
    times = [int(line.split()[2]) for line in text.splitlines()]
    assert times[:2] == [START + 5 * STEP_SECONDS, START + 7 * STEP_SECONDS]
    assert times[2:] == [life.end - 2 * STEP_SECONDS, life.end - STEP_SECONDS, life.end]
    last = "".join(open_metrics(life, [replace(run, first=life.slots - 3)]))
    assert len(last.splitlines()) == 3 * STEP_SECONDS // 60


def finding(workload: str | None, *reasons: str) -> Mapping[str, object]:
    """Finding, reduced to what is compared with the expected results."""
    return {"workload": workload, "reasons": list(reasons)}


def test_findings_are_compared_with_the_truth() -> None:
    """Reports found, missed and wrong ones; some unplanted findings are allowed, others are not."""
    said = [
        finding("slurm:stall", "HiddenStall"),
        {**finding(None, "IdleEmpty"), "rule": "idle_pool", "summary": "spare: nobody is there"},
        finding("kubernetes:studio/render", "ComputeSaturated"),
        finding("slurm:pretrain", "IdleHeld"),
        finding(None, "IdleEmpty"),
    ]
    result = score(SMALL, Metrics.OWN, said)
    assert {each.subjects[0] for each in result.found} == {"stall", "pool/spare"}
    assert result.wrong == ("pretrain: IdleHeld",)
    assert len(result.found) + len(result.missed) == len(PLANTED)


def test_two_lives_are_the_same() -> None:
    """Generation is deterministic."""
    one, other = (live(SMALL, 1, START, tick_seconds=300, variants=1) for _ in range(2))
    assert list(own_runs(one, Counters(), 0, 24)) == list(own_runs(other, Counters(), 0, 24))
