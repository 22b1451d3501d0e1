"""Physical model of a board: power, clocks, heat, memory and links from load; pure."""

from typing import Final

from msgspec import Struct

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.model.table import table_rows
from rightsizer.model.values import MIB, ClockEvent
from rightsizer.simulator.activity import DeviceLoad

_GRAIN: Final = 128 * MIB
_INSTANCE_RATIO: Final = 0.99
"""Memory of an instance, relative to its slices: 9984 of 10195 MiB for an eighth of an H100."""
_RESERVED_RATIO: Final = 0.0075
"""511 to 620 MiB on boards of 80 GB."""
HIGHEST_CELSIUS: Final = 87
"""The driver throttles here, so that the board gets no hotter."""
SLOWDOWN_CELSIUS: Final = 89
"""The hardware throttles here."""
SHUTDOWN_CELSIUS: Final = 92
_CONTEXT: Final = 0.05
_RESIDENT: Final = 0.06
_SM: Final = 0.12
_TENSOR: Final = 0.85
_FP32: Final = 0.55
_FP16: Final = 0.55
_FP64: Final = 0.60
_DRAM: Final = 0.45
_PCIE: Final = 0.02
_NVLINK: Final = 0.04
_ENGINES: Final = 0.15
# Dynamic power grows with frequency and voltage squared; voltage falls with frequency only down
# to a floor, hence less than the cube.
_CLOCK_EXPONENT: Final = 2.0
_LOWEST_CLOCK: Final = 0.15
_DEFAULT_CLOCK_HERTZ: Final = 1.5e9
_RISE_AT_LIMIT_CELSIUS: Final = 42.0
_MEMORY_RISE_CELSIUS: Final = 8.0
_LOWEST_LIMIT_RATIO: Final = 0.3
_LINKED_FORMS: Final = ("SXM", "NVL", "Superchip")
_BYTES_PER_SECOND: Final = {1: 20e9, 2: 25e9, 3: 25e9, 4: 25e9, 5: 50e9}
"""One direction of one link, by generation."""
_TOLD_MEGABYTES_PER_SECOND: Final = {1: 20_000, 2: 25_781, 3: 25_781, 4: 26_562, 5: 53_125}
_FIRST_WITH_SWITCHES: Final = 3


class BoardFamily(Struct, frozen=True):
    """Electrical properties of a kind of board."""

    idle_ratio: float
    """Draw without a process, relative to the power limit."""
    idle_clock_hertz: float
    memory_clock_hertz: float
    drive: float
    """Draw of full activity at the maximum clock, relative to the range above idle."""
    sleeps: bool
    """Whether an idle board without a context drops to P8, slow memory and PCIe generation 1."""
    idle_memory_controller_busy: float = 0.0
    """Boards that drive displays read their slow memory even when no kernel runs."""


_FAMILIES: Final = {
    row["board"]: BoardFamily(
        float(row["idle_ratio"]),
        float(row["idle_clock_mhz"]) * 1e6,
        float(row["memory_clock_mhz"]) * 1e6,
        float(row["drive"]),
        row["sleeps"] == "yes",
        float(row["idle_memory_controller_busy"] or 0),
    )
    for row in table_rows(__file__, "families.csv")
}
"""By prefix of the board's key, in this order, else by architecture. H100 and H200 idle draws and
clocks, and P0 when idle, are from public captures; the others are from memory of such captures,
unverified."""


def family_of(board: Board) -> BoardFamily:
    """Return the family of a board."""
    key = board.key
    if "GeForce" in "".join(board.names):
        return _FAMILIES["GeForce"]
    # An L40 is not an L4.
    named = (name for name in _FAMILIES if key.startswith(name) and not key.startswith("L40"))
    return _FAMILIES.get(next(named, board.architecture), _FAMILIES["other"])


def instance_memory_bytes(board: Board, profile: MigProfile | None) -> int:
    """Total memory that the driver reports for a board or an instance."""
    if profile is None:
        return int(board.memory_bytes)
    return int(board.memory_bytes * profile.memory_share * _INSTANCE_RATIO) // _GRAIN * _GRAIN


def reserved_memory_bytes(board: Board, profile: MigProfile | None) -> int:
    """Memory that the driver reserves."""
    return int(instance_memory_bytes(board, profile) * _RESERVED_RATIO) // MIB * MIB


class BoardEnvironment(Struct, frozen=True):
    """Environment of a board: slot, cooling, operator's limit."""

    board: Board
    family: BoardFamily
    power_limit_watts: float
    """Enforced limit; at most the board's own."""
    idle_watts: float
    sm_clock_maximum_hertz: float
    ambient_celsius: float
    pcie_generation: int
    pcie_width: int
    idle_pcie_generation: int | None = None
    """Generation of an idle link, on a board whose kind normally keeps it."""
    clock_ceiling_ratio: float = 1.0
    """Relative to the maximum SM clock; below 1 if throttled."""
    ceiling_reasons: int = 0
    """Clock event reasons of the ceiling."""
    nvlinks_up_ratio: float = 1.0
    """Relative to the links that are up without faults."""


class ElectricalState(Struct, frozen=True):
    """State of the whole board, shared by its instances."""

    power_watts: float
    sm_clock_hertz: float
    memory_clock_hertz: float
    clock_event_reasons: int
    performance_state: int
    temperature_celsius: float
    memory_temperature_celsius: float
    pcie_generation: int
    pcie_width: int


class BoardState(Struct, frozen=True):
    """All readable values of a board or an instance at one time."""

    load: DeviceLoad
    electrical: ElectricalState
    memory_controller_busy: float
    memory_total_bytes: int
    memory_reserved_bytes: int
    memory_used_bytes: int
    """Without reserved memory."""
    pcie_receive_bytes_per_second: float
    pcie_transmit_bytes_per_second: float
    nvlink_receive_bytes_per_second: float
    nvlink_transmit_bytes_per_second: float

    @property
    def power_watts(self) -> float:
        """Draw of the whole board."""
        return self.electrical.power_watts


def board_environment(
    board: Board,
    *,
    power_limit_watts: float | None = None,
    ambient_celsius: float = 28.0,
    pcie_generation: int | None = None,
    pcie_width: int | None = None,
) -> BoardEnvironment:
    """Create the environment of a board; defaults are the board's own values."""
    family = family_of(board)
    return BoardEnvironment(
        board=board,
        family=family,
        power_limit_watts=min(
            power_limit_watts or board.power_limit_watts, board.power_limit_watts
        ),
        idle_watts=family.idle_ratio * board.power_limit_watts,
        sm_clock_maximum_hertz=board.sm_clock_maximum_hertz or _DEFAULT_CLOCK_HERTZ,
        ambient_celsius=ambient_celsius,
        pcie_generation=min(pcie_generation or board.pcie_generation, board.pcie_generation),
        pcie_width=min(pcie_width or board.pcie_width, board.pcie_width),
    )


def nvlink_is_up(board: Board) -> bool:
    """Whether the links are connected; PCIe cards need a bridge, and none has one."""
    return bool(board.nvlink_bytes_per_second) and board.form_factor.startswith(_LINKED_FORMS)


def lowest_limit_watts(board: Board) -> float:
    """Return the lowest power limit that the board accepts, in whole watts."""
    return float(round(_LOWEST_LIMIT_RATIO * board.power_limit_watts))


def settle(around: BoardEnvironment, load: DeviceLoad, *, has_context: bool) -> ElectricalState:
    """Return power, clocks and temperature for the load of a whole board.

    `has_context`: a process holds the board, which keeps clocks up.
    """
    busy = load.gpu_busy > 0.0 or load.engines > 0.0
    awake = busy or has_context
    top = around.sm_clock_maximum_hertz
    clock = 1.0 if awake else around.family.idle_clock_hertz / top
    power = around.idle_watts
    reasons = 0 if load.gpu_busy > 0.0 else ClockEvent.GPU_IDLE
    if awake:
        clock, power, capped = _cap(around, load)
        reasons |= capped
    asleep = around.family.sleeps and not awake
    lowest = None if awake else 1 if asleep else around.idle_pcie_generation
    temperature = around.ambient_celsius + _rise_per_watt(around) * power
    return ElectricalState(
        power_watts=power,
        sm_clock_hertz=clock * top,
        memory_clock_hertz=405e6 if asleep else around.family.memory_clock_hertz,
        clock_event_reasons=reasons,
        performance_state=8 if asleep else 0,
        temperature_celsius=temperature,
        memory_temperature_celsius=temperature + _MEMORY_RISE_CELSIUS * (0.3 + load.dram_active),
        pcie_generation=min(around.pcie_generation, lowest or around.pcie_generation),
        pcie_width=around.pcie_width,
    )


def demand_ratio(load: DeviceLoad) -> float:
    """Return the draw at the maximum clock, relative to the range between idle and limit."""
    return (
        _RESIDENT * load.gpu_busy
        + _SM * load.sm_active
        + _TENSOR * load.tensor_active
        + _FP32 * load.fp32_active
        + _FP16 * load.fp16_active
        + _FP64 * load.fp64_active
        + _DRAM * load.dram_active
        + _PCIE * (load.pcie_receive + load.pcie_transmit)
        + _NVLINK * (load.nvlink_receive + load.nvlink_transmit)
        + _ENGINES * load.engines
    )


def _cap(around: BoardEnvironment, load: DeviceLoad) -> tuple[float, float, int]:
    """Return clock ratio, draw and reasons of a board that is awake."""
    span = around.board.power_limit_watts - around.idle_watts
    fixed = around.idle_watts + _CONTEXT * span
    dynamic = demand_ratio(load) * around.family.drive * span
    cool = (HIGHEST_CELSIUS - around.ambient_celsius) / _rise_per_watt(around)
    allowed = min(around.power_limit_watts, cool)
    ceiling = around.clock_ceiling_ratio
    draw = fixed + dynamic * ceiling**_CLOCK_EXPONENT
    if draw <= allowed:
        return ceiling, draw, around.ceiling_reasons if ceiling < 1.0 else 0
    reason = (
        ClockEvent.SW_THERMAL_SLOWDOWN
        if cool < around.power_limit_watts
        else ClockEvent.SW_POWER_CAP
    )
    room = max(0.0, allowed - fixed) / dynamic if dynamic > 0.0 else 0.0
    clock = max(_LOWEST_CLOCK, room ** (1.0 / _CLOCK_EXPONENT))
    return min(clock, ceiling), max(around.idle_watts, allowed), reason


def _rise_per_watt(around: BoardEnvironment) -> float:
    return _RISE_AT_LIMIT_CELSIUS / around.board.power_limit_watts


def link_count(board: Board) -> int:
    """Return the number of links, connected or not."""
    link_bytes_per_second = _BYTES_PER_SECOND.get(board.nvlink_generation or 0, 25e9)
    return round(board.nvlink_bytes_per_second / link_bytes_per_second)


def link_megabytes_per_second(board: Board) -> int:
    """Return the speed of a link as reported by the driver, framing included."""
    return _TOLD_MEGABYTES_PER_SECOND.get(board.nvlink_generation or 0, 25_000)


def has_switches(board: Board) -> bool:
    """Whether the links connect to switches, which join all GPUs of a node."""
    return nvlink_is_up(board) and (board.nvlink_generation or 0) >= _FIRST_WITH_SWITCHES


def peer_of_link(board: Board, gpu: int, link: int, gpus: int) -> int | None:
    """Return the GPU directly connected to a link, or `None` for a switch or no peer.

    Before NVSwitch a GPU's links were split among its neighbors. Neighbors are found by XOR with
    the index, which makes every link the same from both ends.
    """
    if not nvlink_is_up(board) or has_switches(board):
        return None
    span = 1 << (gpus - 1).bit_length()
    neighbors = min(link_count(board), span - 1)
    if not neighbors:
        return None
    peer = gpu ^ (1 + link % neighbors)
    return peer if peer < gpus else None
