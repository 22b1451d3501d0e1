"""The simulated node: coherent readings, growing counters, and true states that fit them."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.state import Condition, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.simulator.counters import STEP, GpuCounters, RateIntegral, Rates
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.packaged import packaged_scenarios
from rightsizer.simulator.physics import BoardState
from rightsizer.simulator.scenario import SimulatedScenario
from rightsizer.simulator.scenario_reader import load_scenario
from simulated_driver import MIDNIGHT, hour, node_of

NODES = {name: node_of(name) for name in packaged_scenarios()}
STEADY = sorted(name for name, node in NODES.items() if node.scenario.name != "faulty-node")
"""Scenarios without a reload of the driver: their counters start only once."""
TIMES = st.integers(MIDNIGHT, MIDNIGHT + 3 * 86400 * NANOSECONDS_PER_SECOND)
MORNING = st.integers(MIDNIGHT, MIDNIGHT + 6 * 3600 * NANOSECONDS_PER_SECOND)
NOTHING = (0.0,) * (len(GpuCounters.__struct_fields__) - 1)
SCENARIOS = st.sampled_from(sorted(NODES))


def pipes(state: BoardState) -> float:
    """The busiest pipe."""
    load = state.load
    return max(load.tensor_active, load.fp32_active, load.fp16_active, load.fp64_active)


def power_ratio(node: SimulatedNode, uuid: str, time: int) -> float:
    """Draw above idle, as a share of the range above idle."""
    around = node.unit(uuid).around
    draw = node.state(uuid, time).power_watts
    return (draw - around.idle_watts) / (around.power_limit_watts - around.idle_watts)


@given(SCENARIOS, TIMES)
def test_readings_are_always_possible(scenario: str, time: int) -> None:
    """At any time of any scenario, ratios are within 0 to 1 and memory fits."""
    node = NODES[scenario]
    for device in node.devices:
        state = node.state(device.uuid, time)
        assert all(0.0 <= value <= 1.0 for value in state.load.values())
        assert 0.0 <= state.memory_controller_busy <= 1.0
        held = state.memory_used_bytes + state.memory_reserved_bytes
        assert held <= state.memory_total_bytes
        assert state.memory_total_bytes == device.memory_total_bytes


@given(SCENARIOS, TIMES)
def test_power_stays_within_the_limit_but_for_noise(scenario: str, time: int) -> None:
    """The sensor's error is at most one percent."""
    node = NODES[scenario]
    for unit in node.units:
        draw = node.state(unit.device.uuid, time).power_watts
        assert 0.99 * unit.around.idle_watts <= draw <= 1.01 * unit.around.power_limit_watts


@given(SCENARIOS, TIMES)
def test_the_processes_hold_the_memory(scenario: str, time: int) -> None:
    """Their memory is the device's used memory, less a small part of the driver's."""
    node = NODES[scenario]
    for device in node.devices:
        held = sum(process.memory_used_bytes or 0 for process in node.processes(device.uuid, time))
        used = node.state(device.uuid, time).memory_used_bytes
        assert 0 <= used - held < 4 * 2**20


@given(st.sampled_from(STEADY), st.lists(MORNING, min_size=2, max_size=4))
def test_counters_never_fall(scenario: str, times: list[int]) -> None:
    """Energy and traffic only grow, whatever the order of calls."""
    node = NODES[scenario]
    uuid = node.units[0].device.uuid
    found = {time: node.counters(uuid, time) for time in times}
    ordered = [found[time] for time in sorted(found)]
    for earlier, later in pairwise(ordered):
        assert earlier.energy_joules <= later.energy_joules
        assert earlier.pcie_receive_bytes <= later.pcie_receive_bytes
        assert earlier.nvlink_transmit_bytes <= later.nvlink_transmit_bytes


@given(MORNING, st.lists(MORNING, max_size=2))
@settings(max_examples=15)
def test_a_counter_does_not_remember_what_it_was_asked(time: int, before: list[int]) -> None:
    """The same time gives the same energy, whatever was read before."""
    fresh = node_of("l4-pair")
    asked = node_of("l4-pair")
    uuid = fresh.units[0].device.uuid
    for other in before:
        asked.counters(uuid, other)
    assert asked.counters(uuid, time) == fresh.counters(uuid, time)


def test_energy_is_the_sum_of_power() -> None:
    """Over ten minutes the counter grows by the integral of the draw."""
    node = node_of("single-h100")
    uuid = node.units[0].device.uuid
    start = hour(9.0)
    seconds = range(600)
    draws = [node.state(uuid, start + at * NANOSECONDS_PER_SECOND).power_watts for at in seconds]
    begin, end = (node.counters(uuid, time).energy_joules for time in (start, hour(9 + 1 / 6)))
    assert end - begin == pytest.approx(sum(draws), rel=0.01)


def test_counters_begin_at_the_start() -> None:
    """Before the driver was loaded they are 0."""
    node = node_of("single-h100", hour(6.0))
    uuid = node.units[0].device.uuid
    assert node.counters(uuid, hour(5.0)) == GpuCounters()
    assert node.counters(uuid, hour(6.0)) == GpuCounters()
    assert node.counters(uuid, hour(6.1)).energy_joules > 0.0


def test_counters_without_a_start_begin_when_they_are_read() -> None:
    """Without a given start, earlier years are not accumulated."""
    node = node_of("single-h100", None)
    uuid = node.units[0].device.uuid
    far = hour(24.0 * 365 * 20)
    assert node.counters(uuid, far).energy_joules == 0.0
    later = node.counters(uuid, far + 60 * NANOSECONDS_PER_SECOND)
    assert 60 * 60.0 < later.energy_joules < 60 * 800.0


def test_an_integral_is_exact_for_a_straight_line() -> None:
    """The area under a rate of 2 t is t squared, also between grid points."""
    second = NANOSECONDS_PER_SECOND
    integral = RateIntegral(lambda time: (2.0 * time / second, *NOTHING), 0)
    for at in (0, 7, 10, 25, 3, 9000, 3605, 9001):
        assert integral.at(at * second).energy_joules == pytest.approx(at * at)


def test_an_integral_that_is_read_often_asks_for_little() -> None:
    """Each grid point is evaluated at most twice while time advances."""
    asked: Counter[int] = Counter()

    def rates(time: int) -> Rates:
        asked[time] += 1
        return (1.0, *NOTHING)

    integral = RateIntegral(rates, 0)
    for step in range(1000):
        integral.at(step * STEP)
    assert set(asked.values()) <= {1, 2}


def test_the_same_seed_gives_the_same_readings() -> None:
    """All readings of two nodes of a scenario agree, whatever was read before."""
    one = node_of("eight-gpu-node")
    other = node_of("eight-gpu-node")
    times = [hour(at) for at in (3.0, 9.5, 12.0, 14.5, 20.0)]
    uuids = [device.uuid for device in one.devices]
    assert uuids == [device.uuid for device in other.devices]
    forward = [one.state(uuid, time) for uuid in uuids for time in times]
    backward = [other.state(uuid, time) for uuid in uuids for time in reversed(times)]
    assert forward == [
        state
        for first in range(0, len(backward), len(times))
        for state in reversed(backward[first : first + len(times)])
    ]


def test_another_seed_gives_other_readings() -> None:
    """UUIDs and noise both differ."""
    scenario = load_scenario("single-h100", built_in())
    other = SimulatedNode(_reseeded(scenario, 99), built_in(), MIDNIGHT)
    uuid = NODES["single-h100"].units[0].device.uuid
    assert other.units[0].device.uuid != uuid
    draws = [
        node.state(node.units[0].device.uuid, hour(12.0)).power_watts
        for node in (NODES["single-h100"], other)
    ]
    assert draws[0] != draws[1]


def _reseeded(scenario: SimulatedScenario, seed: int) -> SimulatedScenario:
    return SimulatedScenario(scenario.name, seed, scenario.slots, scenario.tasks, scenario.cores)


def test_all_signals_of_a_workload_move_together() -> None:
    """Over an hour of training, tensor activity and power correlate."""
    node = NODES["single-h100"]
    uuid = node.units[0].device.uuid
    states = [node.state(uuid, hour(9.0) + at * 10**10) for at in range(150)]
    tensor = [state.load.tensor_active for state in states]
    power = [state.power_watts for state in states]
    assert _correlation(tensor, power) > 0.9


def _correlation(xs: list[float], ys: list[float]) -> float:
    mean_x = sum(xs) / len(xs)
    mean_y = sum(ys) / len(ys)
    product = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    spread = sum((x - mean_x) ** 2 for x in xs) * sum((y - mean_y) ** 2 for y in ys)
    return product / spread**0.5


def test_ranks_of_one_job_keep_the_same_pace() -> None:
    """Two GPUs of a job differ only by their sensors' errors."""
    node = NODES["eight-gpu-node"]
    two, three = (node.units[index].device.uuid for index in (2, 3))
    for at in (3.0, 8.0, 12.0, 20.0):
        one = node.state(two, hour(at)).load
        other = node.state(three, hour(at)).load
        assert one.tensor_active == pytest.approx(other.tensor_active, rel=0.021, abs=1e-9)


SIGNATURES = {
    State.IDLE_EMPTY: lambda s, _: s.memory_used_bytes < 512 * 2**20 and s.load.gpu_busy == 0.0,
    State.IDLE_HELD: lambda s, _: s.memory_used_bytes > 512 * 2**20 and s.load.gpu_busy < 0.01,
    State.HIDDEN_STALL: lambda s, power: (
        s.load.gpu_busy >= 0.98 and power < 0.25 and pipes(s) < 0.02 and s.load.dram_active < 0.05
    ),
    State.PCIE_BOUND: lambda s, _: (
        max(s.load.pcie_receive, s.load.pcie_transmit) >= 0.6 and pipes(s) < 0.3
    ),
    State.MEMORY_BANDWIDTH_BOUND: lambda s, _: s.load.dram_active >= 0.65,
    State.COMPUTE_BOUND: lambda s, _: pipes(s) >= 0.5 and s.load.dram_active < 0.65,
    State.LAUNCH_BOUND: lambda s, _: (
        s.load.gpu_busy >= 0.5 and s.load.sm_active < 0.25 and pipes(s) >= 0.02
    ),
    State.STORAGE_BOUND: lambda s, _: 0.01 <= s.load.gpu_busy < 0.7,
    State.HOST_BOUND: lambda s, _: 0.01 <= s.load.gpu_busy < 0.7,
    State.PRODUCTIVE: lambda s, _: (
        max(s.load.gpu_busy, s.load.engines) >= 0.01
        and pipes(s) < 0.5
        and s.load.dram_active < 0.5
        and (s.load.gpu_busy < 0.5 or s.load.sm_active >= 0.25)
    ),
}


@given(SCENARIOS, TIMES)
def test_true_states_are_visible_in_the_readings(scenario: str, time: int) -> None:
    """Profiling readings show the design's signature of every true state."""
    node = NODES[scenario]
    for device in node.devices:
        state, _ = node.truth(device.uuid, time)
        if device.has_mig_instances:
            assert state is State.UNKNOWN
        if state is State.UNKNOWN:
            unit = node.unit(device.uuid)
            assert (
                unit.instances
                or node.timeline(unit).is_silent(time)
                or node.unload(time) is not None
            )
            continue
        power = power_ratio(node, device.uuid, time) if device.mig is None else 0.0
        assert SIGNATURES[state](node.state(device.uuid, time), power), state


@given(SCENARIOS, TIMES)
def test_pressure_explains_the_gaps(scenario: str, time: int) -> None:
    """Where storage or host is the true bottleneck, the workload's own pressure shows it."""
    node = NODES[scenario]
    for device in node.devices:
        state, _ = node.truth(device.uuid, time)
        pids = [process.pid for process in node.processes(device.uuid, time)]
        host = node.workloads.owner_host(pids, time)
        if state is State.STORAGE_BOUND:
            assert host is not None
            assert host.io_pressure >= 0.2
        if state is State.HOST_BOUND:
            assert host is not None
            assert host.cpu >= 0.9 or host.cpu_pressure >= 0.2


@given(SCENARIOS, TIMES)
def test_true_conditions_have_causes(scenario: str, time: int) -> None:
    """A throttled GPU is at its limit, one near out of memory is nearly full."""
    node = NODES[scenario]
    for device in node.devices:
        _, conditions = node.truth(device.uuid, time)
        state = node.state(device.uuid, time)
        if Condition.POWER_THROTTLED in conditions:
            assert power_ratio(node, device.uuid, time) > 0.97
            assert state.electrical.sm_clock_hertz < 0.9 * device.sm_clock_maximum_hertz
        if Condition.NEAR_OUT_OF_MEMORY in conditions:
            assert state.memory_used_bytes >= 0.95 * state.memory_total_bytes


def test_the_demonstration_shows_each_condition_on_a_gpu_of_its_own() -> None:
    """Over a day, each GPU of the eight-GPU node spends time in the state it demonstrates."""
    node = NODES["eight-gpu-node"]
    states: dict[int, Counter[State]] = {unit.device.index: Counter() for unit in node.units}
    conditions: Counter[tuple[int, Condition]] = Counter()
    for minute in range(0, 1440, 3):
        for unit in node.units:
            state, held = node.truth(unit.device.uuid, hour(minute / 60))
            states[unit.device.index][state] += 1
            conditions.update((unit.device.index, condition) for condition in held)
    hours = {
        index: Counter({state: n / 20 for state, n in found.items()})
        for index, found in states.items()
    }
    assert conditions[0, Condition.POWER_THROTTLED] / 20 > 18
    assert hours[0][State.STORAGE_BOUND] > 0.5
    assert 4 < conditions[1, Condition.NEAR_OUT_OF_MEMORY] / 20 < 10
    assert hours[2][State.HIDDEN_STALL] == hours[3][State.HIDDEN_STALL] == pytest.approx(4.5)
    assert hours[4][State.IDLE_HELD] > 8
    assert hours[4][State.PRODUCTIVE] > 8
    assert hours[5][State.HOST_BOUND] == pytest.approx(12.0)
    assert hours[5][State.LAUNCH_BOUND] > 10
    assert hours[6][State.PRODUCTIVE] > 15
    assert hours[7][State.IDLE_HELD] > 12
    assert hours[7][State.IDLE_EMPTY] > 9


def test_an_instance_has_its_part_and_its_parent_the_whole() -> None:
    """Its memory is less than its slices'; the parent's load is that of all instances."""
    node = NODES["a100-mig"]
    parent = node.units[5]
    first = parent.instances[0].device
    assert first.mig is not None
    assert first.mig.parent_uuid == parent.device.uuid
    assert (first.mig.profile, first.mig.compute_share) == ("3g.40gb", pytest.approx(3 / 7))
    assert first.name == "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
    assert 39e9 < (first.memory_total_bytes or 0.0) < 0.5 * (parent.device.memory_total_bytes or 0)
    time = hour(13.0)
    shares = {unit.device.uuid: unit.device.mig for unit in parent.instances}
    total = sum(
        node.state(uuid, time).load.sm_active * mig.compute_share
        for uuid, mig in shares.items()
        if mig
    )
    found = node.state(parent.device.uuid, time).load.sm_active
    assert found == pytest.approx(total, rel=0.03)


def test_instances_share_the_power_of_their_gpu() -> None:
    """Power and clocks of an instance are those of the whole board."""
    node = NODES["a100-mig"]
    parent = node.units[6]
    time = hour(12.0)
    whole = node.state(parent.device.uuid, time).electrical
    for unit in parent.instances:
        assert node.state(unit.device.uuid, time).electrical == whole


def test_devices_come_in_the_order_of_the_driver() -> None:
    """GPUs are in index order, each followed by its instances; all UUIDs differ."""
    devices = NODES["a100-mig"].devices
    assert [device.index for device in devices] == sorted(device.index for device in devices)
    assert len({device.uuid for device in devices}) == len(devices) == 20
    assert devices[5].has_mig_instances
    assert [device.mig is not None for device in devices[5:9]] == [False, True, True, True]


def test_half_of_the_gpus_are_near_each_socket() -> None:
    """The first four of eight are on NUMA node 0, the others on 1; a pair is on one node."""
    eight = [unit.device.numa_node for unit in NODES["eight-gpu-node"].units]
    assert eight == [0] * 4 + [1] * 4
    assert {unit.device.numa_node for unit in NODES["l4-pair"].units} == {0}


def test_the_host_is_as_busy_as_its_workloads() -> None:
    """CPU use of the node is the sum of used cores; its pressure is the worst workload's."""
    node = NODES["eight-gpu-node"]
    morning = node.workloads.host(hour(9.0))
    night = node.workloads.host(hour(23.9))
    assert morning.cpu_pressure == 0.45
    assert night.cpu_pressure == 0.0
    assert 0.1 < night.cpu < morning.cpu < 0.5


def test_a_strange_process_has_no_owner() -> None:
    """Only processes of the scenario have a workload."""
    node = NODES["eight-gpu-node"]
    (process,) = node.processes(node.units[2].device.uuid, hour(3.0))
    workload = node.workloads.workload_of(process.pid)
    assert workload is not None
    assert workload.name == "finetune-ddp"
    assert node.workloads.workload_of(1) is None
    assert node.workloads.owner_host([1], hour(3.0)) is None
