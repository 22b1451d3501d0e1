"""One physical model of a board: a load in, a coherent set of readings out; pure.

Power is idle draw, a context's upkeep, and terms for what works, which grow with the clock. Where
the demand passes what the limit or the heat allows, the clock falls until it fits, and the driver
says why.
"""

from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.domain.clock_event import ClockEvent
from rightsizer.telemetry.simulated.activity import Load
from rightsizer.telemetry.simulated.families import Family, family_of

__all__ = [
    "HIGHEST_CELSIUS",
    "SHUTDOWN_CELSIUS",
    "SLOWDOWN_CELSIUS",
    "BoardState",
    "Electrical",
    "Surroundings",
    "demand_ratio",
    "lowest_limit_watts",
    "nvlink_is_up",
    "settle",
    "surroundings_of",
]

HIGHEST_CELSIUS: Final = 87
"""From here on the driver lowers the clocks, so that it gets no hotter."""
SLOWDOWN_CELSIUS: Final = 89
"""From here on the hardware does."""
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
# Dynamic power grows with frequency and the square of voltage, which falls with frequency only
# down to a floor: less than the cube.
_CLOCK_EXPONENT: Final = 2.0
_LOWEST_CLOCK: Final = 0.15
_DEFAULT_CLOCK_HERTZ: Final = 1.5e9
_RISE_AT_LIMIT_CELSIUS: Final = 42.0
_MEMORY_RISE_CELSIUS: Final = 8.0
_LOWEST_LIMIT_RATIO: Final = 0.3
_LINKED_FORMS: Final = ("SXM", "NVL", "Superchip")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a board's slot, cooling and operator give it."""

    board: Board
    family: Family
    power_limit_watts: float
    """Enforced; at most the board's own."""
    idle_watts: float
    sm_clock_maximum_hertz: float
    ambient_celsius: float
    pcie_generation: int
    pcie_width: int
    idle_pcie_generation: int | None = None
    """Where an idle board trains its link down, though its kind does not."""
    clock_ceiling_ratio: float = 1.0
    """Of the highest SM clock; below 1 where something holds it down."""
    ceiling_reasons: int = 0
    """What the driver says of that ceiling."""
    nvlinks_up_ratio: float = 1.0
    """Of the links that the board has up in good health."""


@dataclass(frozen=True, slots=True)
class Electrical:
    """The board as a whole: what instances share."""

    power_watts: float
    sm_clock_hertz: float
    memory_clock_hertz: float
    clock_event_reasons: int
    performance_state: int
    temperature_celsius: float
    memory_temperature_celsius: float
    pcie_generation: int
    pcie_width: int


@dataclass(frozen=True, slots=True)
class BoardState:
    """Everything that can be read of a board, or of one instance of it, at one moment."""

    load: Load
    electrical: Electrical
    memory_controller_busy: float
    memory_total_bytes: int
    memory_reserved_bytes: int
    memory_used_bytes: int
    """Without what the driver reserves."""
    pcie_receive_bytes_per_second: float
    pcie_transmit_bytes_per_second: float
    nvlink_receive_bytes_per_second: float
    nvlink_transmit_bytes_per_second: float

    @property
    def power_watts(self) -> float:
        """The draw of the whole board."""
        return self.electrical.power_watts


def surroundings_of(
    board: Board,
    *,
    power_limit_watts: float | None = None,
    ambient_celsius: float = 28.0,
    pcie_generation: int | None = None,
    pcie_width: int | None = None,
) -> Surroundings:
    """A board in its slot; what is not said is the board's own."""
    family = family_of(board)
    return Surroundings(
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
    """Whether the board's links lead somewhere; a PCIe card's need a bridge, which none has."""
    return bool(board.nvlink_bytes_per_second) and board.form_factor.startswith(_LINKED_FORMS)


def lowest_limit_watts(board: Board) -> float:
    """The lowest power limit that the board accepts, in whole watts."""
    return float(round(_LOWEST_LIMIT_RATIO * board.power_limit_watts))


def settle(around: Surroundings, load: Load, *, has_context: bool) -> Electrical:
    """The power, clocks and temperature that a load leads to.

    Args:
        around: The board in its slot.
        load: The load of the whole board.
        has_context: Whether a process holds the board, which keeps its clocks up.
    """
    busy = load.gpu_busy > 0.0 or load.engines > 0.0
    awake = busy or has_context
    top = around.sm_clock_maximum_hertz
    clock = 1.0 if awake else around.family.idle_clock_hertz / top
    power, reasons = around.idle_watts, 0 if load.gpu_busy > 0.0 else ClockEvent.GPU_IDLE
    if awake:
        clock, power, capped = _cap(around, load)
        reasons |= capped
    asleep = around.family.sleeps and not awake
    rests = not awake and around.idle_pcie_generation is not None
    temperature = around.ambient_celsius + _rise_per_watt(around) * power
    return Electrical(
        power_watts=power,
        sm_clock_hertz=clock * top,
        memory_clock_hertz=405e6 if asleep else around.family.memory_clock_hertz,
        clock_event_reasons=reasons,
        performance_state=8 if asleep else 0,
        temperature_celsius=temperature,
        memory_temperature_celsius=temperature + _MEMORY_RISE_CELSIUS * (0.3 + load.dram_active),
        pcie_generation=_generation(around, asleep=asleep, rests=rests),
        pcie_width=around.pcie_width,
    )


def _generation(around: Surroundings, *, asleep: bool, rests: bool) -> int:
    if asleep:
        return 1
    lowest = around.idle_pcie_generation if rests else None
    return min(around.pcie_generation, lowest or around.pcie_generation)


def demand_ratio(load: Load) -> float:
    """What a load would draw at the highest clock, of the range between idle and limit."""
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


def _cap(around: Surroundings, load: Load) -> tuple[float, float, int]:
    """The clock ratio, the draw and the reason for both, of a board that is awake."""
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


def _rise_per_watt(around: Surroundings) -> float:
    return _RISE_AT_LIMIT_CELSIUS / around.board.power_limit_watts
