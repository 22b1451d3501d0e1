"""The board's physics: coherent, bounded, monotone, and consistent with measured boards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.topology import link_bytes_per_second
from rightsizer.simulator.activity import IDLE, DeviceLoad, KernelActivity
from rightsizer.simulator.physics import board_environment, nvlink_is_up, settle

BOARDS = st.sampled_from(list(built_in().boards.values()))
RATIO = st.floats(0.0, 1.0)
ACTIVITIES = st.builds(KernelActivity, *[RATIO] * 16)
H100 = built_in().boards["H100-SXM5-80GB"]
TRAINING = KernelActivity(0.98, 0.93, 0.36, tensor=0.59, fp32=0.08, dram=0.35)
SATURATING = KernelActivity(0.99, 0.98, 0.30, tensor=0.88, fp32=0.12, dram=0.60)
SPINNING = KernelActivity(1.0, 0.12, 0.04, fp32=0.006, dram=0.012)


@given(ACTIVITIES, RATIO, st.floats(0.9, 1.1))
def test_every_ratio_of_a_load_is_a_ratio(
    activity: KernelActivity, intensity: float, vigor: float
) -> None:
    """All ratios of a load are within 0 to 1, for any activity."""
    load = DeviceLoad.of(activity, intensity, vigor)
    assert all(0.0 <= value <= 1.0 for value in load.values())


@given(ACTIVITIES, RATIO)
def test_no_pipe_works_longer_than_a_kernel_is_there(
    activity: KernelActivity, intensity: float
) -> None:
    """A pipe's activity never exceeds kernel residency."""
    load = DeviceLoad.of(activity, intensity)
    kernels = (load.sm_active, load.tensor_active, load.fp32_active, load.dram_active)
    assert all(value <= load.gpu_busy for value in kernels)
    assert load.sm_occupancy <= load.sm_active


@given(st.lists(st.tuples(ACTIVITIES, RATIO), min_size=1, max_size=4))
def test_loads_side_by_side_never_exceed_the_whole(
    parts: list[tuple[KernelActivity, float]],
) -> None:
    """Workloads that share a GPU use at most all of it together."""
    total = DeviceLoad.total((DeviceLoad.of(activity), share) for activity, share in parts)
    assert all(0.0 <= value <= 1.0 for value in total.values())


@given(BOARDS, ACTIVITIES, st.floats(0.3, 1.0), st.floats(5.0, 70.0))
def test_power_never_passes_the_limit(
    board: Board, activity: KernelActivity, limit: float, ambient: float
) -> None:
    """The draw is between idle and the enforced limit on every board."""
    around = board_environment(
        board, power_limit_watts=limit * board.power_limit_watts, ambient_celsius=ambient
    )
    found = settle(around, DeviceLoad.of(activity), has_context=True)
    assert around.idle_watts <= found.power_watts <= around.power_limit_watts + 1e-6


@given(BOARDS, ACTIVITIES, RATIO, RATIO)
def test_more_residency_never_lowers_power(
    board: Board, activity: KernelActivity, one: float, other: float
) -> None:
    """Longer kernel residency never reduces a board's draw."""
    around = board_environment(board)
    less, more = sorted((one, other))
    draws = [
        settle(
            around, DeviceLoad.of(replace(activity, residency=residency)), has_context=True
        ).power_watts
        for residency in (less, more)
    ]
    assert draws[0] <= draws[1] + 1e-9


@given(BOARDS, ACTIVITIES)
def test_the_clock_falls_exactly_when_the_driver_says_why(
    board: Board, activity: KernelActivity
) -> None:
    """A busy board is below its highest clock if and only if the reasons include a cap."""
    around = board_environment(board)
    found = settle(around, DeviceLoad.of(activity), has_context=True)
    capped = found.clock_event_reasons & (ClockEvent.SW_POWER_CAP | ClockEvent.SW_THERMAL_SLOWDOWN)
    assert (found.sm_clock_hertz < around.sm_clock_maximum_hertz) == bool(capped)
    assert found.sm_clock_hertz > 0.0


@given(BOARDS, ACTIVITIES)
def test_a_hotter_board_draws_more(board: Board, activity: KernelActivity) -> None:
    """Temperature follows power: no board is cooler at work than idle."""
    around = board_environment(board)
    idle = settle(around, IDLE, has_context=False)
    busy = settle(around, DeviceLoad.of(activity), has_context=True)
    assert busy.temperature_celsius >= idle.temperature_celsius


def test_an_idle_h100_is_as_measured() -> None:
    """It has 70 W, 345 MHz, P0, the reason `gpu_idle` and a link that stays at generation 5."""
    found = settle(board_environment(H100), IDLE, has_context=False)
    assert found.power_watts == pytest.approx(69.85, abs=1.0)
    assert found.sm_clock_hertz == pytest.approx(345e6)
    assert (found.performance_state, found.clock_event_reasons) == (0, ClockEvent.GPU_IDLE)
    assert (found.pcie_generation, found.pcie_width) == (5, 16)


def test_a_training_h100_draws_as_measured() -> None:
    """Measured training draws 632 W; the model is within a tenth of that."""
    found = settle(board_environment(H100), DeviceLoad.of(TRAINING), has_context=True)
    assert found.power_watts == pytest.approx(632.0, rel=0.1)
    assert found.clock_event_reasons == 0


def test_a_saturated_h100_runs_into_its_limit() -> None:
    """Full tensor cores need more than 700 W: the clock falls by a tenth or more."""
    found = settle(board_environment(H100), DeviceLoad.of(SATURATING), has_context=True)
    assert found.power_watts == pytest.approx(700.0)
    assert found.clock_event_reasons == ClockEvent.SW_POWER_CAP
    assert found.sm_clock_hertz < 0.9 * 1980e6


@pytest.mark.parametrize("key", ["H100-SXM5-80GB", "A100-SXM4-80GB", "T4", "L4", "B200"])
def test_a_spinning_collective_is_busy_at_low_power(key: str) -> None:
    """Waiting ranks keep a kernel resident, and draw less than a quarter of the range."""
    around = board_environment(built_in().boards[key])
    load = DeviceLoad.of(SPINNING)
    found = settle(around, load, has_context=True)
    ratio = (found.power_watts - around.idle_watts) / (around.power_limit_watts - around.idle_watts)
    assert load.gpu_busy == 1.0
    assert ratio < 0.25


@pytest.mark.parametrize("key", ["T4", "L4", "L40S", "RTX4090"])
def test_small_boards_go_to_sleep(key: str) -> None:
    """Without a process they are in P8, with slow memory and a link of generation 1."""
    board = built_in().boards[key]
    around = board_environment(board)
    asleep = settle(around, IDLE, has_context=False)
    awake = settle(around, IDLE, has_context=True)
    assert (asleep.performance_state, asleep.pcie_generation) == (8, 1)
    assert asleep.memory_clock_hertz < awake.memory_clock_hertz
    assert (awake.performance_state, awake.pcie_generation) == (0, board.pcie_generation)
    assert asleep.pcie_width == board.pcie_width


def test_heat_lowers_the_clock_before_power_does() -> None:
    """In a hot aisle the reason is thermal, and the draw stays below the power limit."""
    around = board_environment(H100, ambient_celsius=60.0)
    found = settle(around, DeviceLoad.of(TRAINING), has_context=True)
    assert found.clock_event_reasons == ClockEvent.SW_THERMAL_SLOWDOWN
    assert found.power_watts < around.power_limit_watts
    assert found.temperature_celsius == pytest.approx(87.0, abs=0.5)


def test_a_lower_limit_is_kept_by_a_lower_clock() -> None:
    """A cap of 450 W lowers the clock, and the draw is 450 W."""
    free = settle(board_environment(H100), DeviceLoad.of(TRAINING), has_context=True)
    capped = settle(
        board_environment(H100, power_limit_watts=450.0), DeviceLoad.of(TRAINING), has_context=True
    )
    assert capped.power_watts == pytest.approx(450.0)
    assert capped.sm_clock_hertz < free.sm_clock_hertz


def test_a_slot_cannot_give_more_than_the_board_takes() -> None:
    """A slot of generation 6 leaves an H100 at 5; one of 8 lanes limits it to 8."""
    around = board_environment(H100, pcie_generation=6, pcie_width=8)
    assert (around.pcie_generation, around.pcie_width) == (5, 8)


@pytest.mark.parametrize(
    ("generation", "width", "gigabytes"),
    [(3, 16, 15.75), (4, 16, 31.5), (5, 16, 63.0), (1, 1, 0.25)],
)
def test_links_carry_what_the_specification_says(
    generation: int, width: int, gigabytes: float
) -> None:
    """Rates are for one direction of a link, after its line code."""
    assert link_bytes_per_second(generation, width) == pytest.approx(gigabytes * 1e9, rel=0.01)


def test_a_bridge_is_needed_between_cards() -> None:
    """SXM boards have active NVLinks; PCIe cards lack the bridge; an L4 has no NVLink."""
    boards = built_in().boards
    assert nvlink_is_up(H100)
    assert not nvlink_is_up(boards["A100-PCIE-80GB"])
    assert not nvlink_is_up(boards["L4"])
