"""Scenario files: packaged ones, and errors that name place and remedy."""

from pathlib import Path

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.errors import ScenarioError
from rightsizer.model.state import Condition, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, nanoseconds
from rightsizer.model.workload import Allocator, WorkloadClass, WorkloadKind
from rightsizer.simulator.packaged import packaged_scenarios
from rightsizer.simulator.scenario import (
    BurstyLoad,
    ConstantLoad,
    DiurnalLoad,
    SimulatedScenario,
    SimulatedTask,
)
from rightsizer.simulator.scenario_reader import load_scenario
from rightsizer.simulator.source import DEFAULT_START
from rightsizer.simulator.workloads import TaskSchedule

WHOLE = """\
name: mine
seed: 3
cores: 64
boards:
  - {board: H100-SXM5-80GB, count: 2, power_limit_watts: 500, ambient_celsius: 35}
  - {board: A100-SXM4-80GB, mig: [3g.40gb, 1g.10gb], pcie_width: 8, pcie_generation: 3}
activities:
  warm: {residency: 0.5, coverage: 0.5, tensor: 0.2}
workloads:
  - name: job
    kind: slurm
    class: batch
    allocator: growing
    namespace: team
    gpus: [0, 1]
    start: "22:30"
    stop: "06:00"
    memory_gib: [10, 20]
    processes: 2
    load: {shape: bursty, share: 0.5, interval_seconds: 30, level: 0.8}
    phases:
      - {activity: warm, state: productive, seconds: 60, jitter_ratio: 0.2,
         host: {cpu: 0.5, io_pressure: 0.1}, conditions: [no_tensor_cores]}
      - {activity: collective_spin, state: hidden_stall, between: ["01:00", "02:00"],
         follows_load: false}
  - name: service
    instances: ["2/1"]
    memory_ratio: 0.9
    load: {shape: diurnal, peak: "14:30", night_ratio: 0.1}
    phases: [{activity: request_serving, state: productive}]
"""


def load(tmp_path: Path, text: str) -> SimulatedScenario:
    """Scenario of a text."""
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return load_scenario(str(file), built_in())


def test_these_scenarios_come_with_the_program() -> None:
    """Documentation and demonstration use these names."""
    assert packaged_scenarios() == (
        "a100-mig",
        "eight-gpu-node",
        "faulty-node",
        "gb200-node",
        "h100-mig",
        "l4-pair",
        "serving-node",
        "shared-node",
        "single-h100",
        "t4-pair",
        "zoo",
    )


@pytest.mark.parametrize("name", packaged_scenarios())
def test_every_packaged_scenario_loads(name: str) -> None:
    """Each agrees with the catalog and has the name of its file."""
    scenario = load_scenario(name, built_in())
    assert scenario.name == name
    assert scenario.tasks


def test_the_shared_node_has_free_gpus_at_any_hour() -> None:
    """Trying a lease on it without a GPU works at any time."""
    scenario = load_scenario("shared-node", built_in())
    held = {(spot.gpu, spot.instance) for task in scenario.tasks for spot in task.spots}
    whole = [slot.index for slot in scenario.slots if slot.is_ever_whole]
    divided = [slot for slot in scenario.slots if not slot.is_ever_whole]

    assert [gpu for gpu in whole if (gpu, None) not in held] == [3, 4, 5, 6]
    assert [slot.index for slot in divided] == [7]
    parts = range(len(divided[0].profiles))
    assert [number for number in parts if (7, number) not in held] == [1, 3]
    assert {task.stop_seconds - task.start_seconds for task in scenario.tasks} == {86400.0}
    assert scenario.faults == ()


def test_a_file_says_all_there_is_to_say(tmp_path: Path) -> None:
    """Boards, places, hours, memory, load and phases equal the written ones."""
    scenario = load(tmp_path, WHOLE)
    assert [slot.board.key for slot in scenario.slots] == ["H100-SXM5-80GB"] * 2 + [
        "A100-SXM4-80GB"
    ]
    assert scenario.slots[1].power_limit_watts == 500.0
    assert [profile.name for profile in scenario.slots[2].profiles] == ["3g.40gb", "1g.10gb"]
    assert (scenario.slots[2].pcie_generation, scenario.slots[2].pcie_width) == (3, 8)
    job, service = scenario.tasks
    assert (job.workload.key, job.workload.kind) == ("slurm/team/job", WorkloadKind.SLURM)
    assert (job.workload.workload_class, job.workload.allocator) == (
        WorkloadClass.BATCH,
        Allocator.GROWING,
    )
    assert [spot.gpu for spot in job.spots] == [0, 1]
    assert (job.start_seconds, job.stop_seconds) == (22.5 * 3600.0, 6 * 3600.0)
    assert [plan.last_bytes for plan in job.memory] == [20 * 2.0**30] * 2
    assert job.shape == BurstyLoad(0.8, 0.5, 30.0)
    assert service.shape == DiurnalLoad(peak_seconds=14.5 * 3600.0, share=0.6, night_ratio=0.1)
    assert (service.spots[0].gpu, service.spots[0].instance) == (2, 1)


def test_phases_arrive_as_they_are_written(tmp_path: Path) -> None:
    """A phase has its activity, true state, episode and host signals."""
    first, second = load(tmp_path, WHOLE).tasks[0].phases
    assert (first.activity.tensor, first.state, first.jitter_ratio) == (0.2, State.PRODUCTIVE, 0.2)
    assert (first.host.cpu, first.host.io_pressure) == (0.5, 0.1)
    assert first.conditions == {Condition.NO_TENSOR_CORES}
    assert second.between == (3600.0, 7200.0)
    assert not second.follows_load


def test_memory_by_ratio_is_of_the_instance(tmp_path: Path) -> None:
    """A ratio of 0.9 on a tenth-sized instance is not 0.9 of the GPU."""
    (plan,) = load(tmp_path, WHOLE).tasks[1].memory
    assert 8 * 2**30 < plan.first_bytes < 10 * 2**30


def test_a_job_on_one_gpu_has_nobody_to_talk_to(tmp_path: Path) -> None:
    """The same activity has NVLink traffic on two GPUs, and none on one."""
    pair = load(tmp_path, WHOLE).tasks[0].phases[1].activity
    alone = load(tmp_path, WHOLE.replace("gpus: [0, 1]", "gpus: [0]")).tasks[0].phases[1].activity
    assert pair.nvlink_transmit > 0.0
    assert alone.nvlink_transmit == 0.0


def test_the_least_that_a_scenario_needs(tmp_path: Path) -> None:
    """A board and a name suffice; the rest has defaults."""
    scenario = load(tmp_path, "name: least\nboards: [{board: L4}]\n")
    assert (len(scenario.slots), scenario.tasks) == (1, ())


def test_a_constant_load_is_the_default(tmp_path: Path) -> None:
    """A workload without a load shape is always busy."""
    text = WHOLE.replace('    load: {shape: diurnal, peak: "14:30", night_ratio: 0.1}\n', "")
    assert load(tmp_path, text).tasks[1].shape == ConstantLoad()


def test_a_daily_fault_without_an_end_ends_with_its_day(tmp_path: Path) -> None:
    """From midnight on it is over until its next start."""
    faults = "faults: [{kind: loss, gpus: [0], at: '10:00'}]\n"
    window = load(tmp_path, WHOLE + faults).faults[0].window
    times = [
        DEFAULT_START + round(hour * 3600) * NANOSECONDS_PER_SECOND for hour in (9, 23.9, 24.5, 34)
    ]
    held = [window.since(time, DEFAULT_START) is not None for time in times]
    assert held == [False, True, False, True]


@pytest.mark.parametrize("midnight", [1800.0, 9.5 * 3600.0, 23 * 3600.0])
def test_the_day_may_begin_at_another_time(tmp_path: Path, midnight: float) -> None:
    """Tasks, their phases, memory and load, and faults are later by as much."""
    file = tmp_path / "mine.yaml"
    kinds = ("{kind: loss, gpus: [1], at: '23:50', for: 30m}", "{kind: loss, gpus: [0], at: 21:00}")
    file.write_text(WHOLE + f"faults: [{', '.join(kinds)}]\n")
    shift = nanoseconds(midnight)
    usual, later = (
        [
            lambda time, by=by, window=fault.window: window.since(time + by, DEFAULT_START + by)
            for fault in scenario.faults
        ]
        + [lambda time, by=by, task=task: _plan(task, time + by) for task in scenario.tasks]
        for by, scenario in (
            (0, load_scenario(str(file), built_in())),
            (shift, load_scenario(str(file), built_in(), midnight)),
        )
    )
    assert len(usual) == len(later) > len(kinds)
    for minute in range(0, 24 * 60, 7):
        time = DEFAULT_START + minute * 60 * NANOSECONDS_PER_SECOND
        assert [each(time) for each in usual] == [each(time) for each in later]


def _plan(task: SimulatedTask, time: int) -> tuple[object, ...]:
    schedule = TaskSchedule(task, 1)
    phase = schedule.phase(time)
    level = task.shape.daylight(time) if isinstance(task.shape, DiurnalLoad) else 0.0
    is_hung = phase is not None and phase.state is State.HIDDEN_STALL
    return is_hung, schedule.memory_bytes(task.memory[0], time), round(level, 9)


def test_a_time_of_day_needs_no_quotes(tmp_path: Path) -> None:
    """YAML reads 22:30 as a sexagesimal number; it is accepted as a time."""
    assert load(tmp_path, WHOLE.replace('"22:30"', "22:30")).tasks[0].start_seconds == 81000.0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("H100-SXM5-80GB", "H100-SXM9", "mine.yaml:5:6: boards[0].board: board 'H100-SXM9'"),
        ("count: 2", "count: 0", "mine.yaml:5:29: boards[0].count: must be between 1 and 64"),
        ("count: 2", "count: 2.5", "must be a whole number (got 2.5)"),
        ("count: 2", "count: many", "must be a whole number (got 'many')"),
        ("count: 2", "count: 64", "65 GPUs are more than a node has; at most 64"),
        (
            "power_limit_watts: 500",
            "power_limit_watts: 9000",
            "must be between 210 and 700 (got 9000)",
        ),
        ("3g.40gb", "3g.99gb", "'3g.99gb' is not a MIG profile of A100-SXM4-80GB; known: 1g.10gb"),
        ("mig: [3g.40gb", "mig: [7g.80gb, 3g.40gb", "the profiles take 157% of the compute"),
        ("gpus: [0, 1]", "gpus: [0, 7]", "'7' is not a GPU of this node; it has 0 to 2"),
        ("gpus: [0, 1]", "gpus: 0", "job_gpus: must be a list"),
        ("gpus: [0, 1]", "gpus: [2]", "GPU 2 is cut into MIG instances; hold them by 'instances'"),
        ("gpus: [0, 1]", "gpus: []", "holds nothing; add 'gpus: [0]'"),
        ('"2/1"', '"2/5"', "'2/5' is not an instance; GPU 2 has 2, write the first as '2/0'"),
        ('"2/1"', '"x/0"', "'x/0' is not a GPU of this node"),
        ("shape: bursty", "shape: burst", "must be one of constant, bursty, diurnal"),
        ("state: hidden_stall", "state: stall", "must be one of unknown, idle_empty"),
        ("state: hidden_stall", "state: hiden_stall", "did you mean 'hidden_stall'?"),
        ("activity: warm", "activity: wram", "'wram' is not an activity; known: matrix_training"),
        ("tensor: 0.2", "tensor: 2", "must be between 0 and 1 (got 2)"),
        ("tensor: 0.2", "tensr: 0.2", "did you mean 'tensor'?"),
        ("class: batch", "class: bach", "did you mean 'batch'?"),
        ('"22:30"', '"25:00"', "'25:00' is not a time of day; the last is \"24:00\""),
        ('"22:30"', "later", "'later' is not a time of day; write it like \"13:30\""),
        ('["01:00", "02:00"]', '["01:00"]', "must be [start, stop]"),
        ("memory_gib: [10, 20]", "memory_gib: 90", "must be between 0 and 79"),
        ("memory_gib: [10, 20]", "memory_gib: [1, 2, 3]", "must be [first, last]"),
        ("memory_gib: [10, 20]", "processes: 1", "needs either 'memory_gib' or 'memory_ratio'"),
        ("name: mine", "nam: mine", "did you mean 'name'?"),
        ("name: mine\n", "", "name: is required (text)"),
        ("name: mine", "name: 7", "must be text (got 7); put it in quotes"),
        ("phases: [{activity: request_serving, state: productive}]", "phases: []", "needs a phase"),
        ("state: productive}]", "{]", "a scenario is a YAML mapping"),
    ],
)
def test_a_fault_is_named_with_its_place_and_remedy(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    """Each message starts with file, line and column, and has the remedy."""
    assert old in WHOLE
    text = WHOLE.replace(old, new, 1) if "processes" not in new else _without_memory(old)
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith("mine.yaml:")
    assert message.replace("job_gpus", "workloads[0].gpus") in str(caught.value)


def _without_memory(line: str) -> str:
    return WHOLE.replace(f"    {line}\n", "", 1)


@pytest.mark.parametrize("text", ["[1, 2]", "", "just words"])
def test_something_else_is_no_scenario(tmp_path: Path, text: str) -> None:
    """A list, an empty file, and plain words are rejected."""
    with pytest.raises(ScenarioError, match=r"must be a mapping|name: is required"):
        load(tmp_path, text)


def test_a_board_is_needed(tmp_path: Path) -> None:
    """A node without a GPU is rejected."""
    with pytest.raises(ScenarioError, match="needs at least one board; add 'boards:"):
        load(tmp_path, "name: none\n")


def test_an_unknown_name_lists_the_known_ones() -> None:
    """The error for a misspelled scenario lists the packaged ones."""
    with pytest.raises(ScenarioError, match="neither packaged nor a file; packaged: a100-mig"):
        load_scenario("eight-gpu-nod", built_in())


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The error for a missing path says so."""
    with pytest.raises(ScenarioError, match=r"gone\.yaml cannot be read: No such file"):
        load_scenario(str(tmp_path / "gone.yaml"), built_in())


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    """The error for bytes that are no text says so."""
    file = tmp_path / "binary.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="is not text; save it as UTF-8"):
        load_scenario(str(file), built_in())
