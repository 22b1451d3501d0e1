"""How kinds of boards differ where the catalogue does not say: idle draw, clocks, sleep."""

from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.board import Board

__all__ = ["Family", "family_of"]


@dataclass(frozen=True, slots=True)
class Family:
    """The electrical character of a kind of board."""

    idle_ratio: float
    """Draw with no process, of the power limit."""
    idle_clock_hertz: float
    memory_clock_hertz: float
    drive: float
    """Draw that full activity would take at the highest clock, of the range above idle."""
    sleeps: bool
    """Whether an idle board without a context drops to P8, slow memory and PCIe generation 1."""
    idle_memory_controller_busy: float = 0.0
    """Boards that drive displays read their slow memory even when no kernel runs."""


_MHZ: Final = 1e6

# Keys that start with the text, in this order. H100 and H200 idle draws and clocks, and P0 when
# idle, are from public captures; the others are recalled from such captures, not verified.
_BY_KEY: Final = (
    ("H100-SXM", Family(0.0998, 345 * _MHZ, 2619 * _MHZ, 1.0, sleeps=False)),
    ("H100", Family(0.14, 345 * _MHZ, 1593 * _MHZ, 1.35, sleeps=False)),
    ("H200-SXM", Family(0.111, 345 * _MHZ, 3201 * _MHZ, 1.0, sleeps=False)),
    ("H200", Family(0.13, 345 * _MHZ, 3201 * _MHZ, 1.15, sleeps=False)),
    ("A100-SXM", Family(0.15, 210 * _MHZ, 1593 * _MHZ, 1.0, sleeps=False)),
    ("A100", Family(0.17, 210 * _MHZ, 1512 * _MHZ, 1.25, sleeps=False)),
    ("A30", Family(0.17, 210 * _MHZ, 1215 * _MHZ, 1.2, sleeps=False)),
    ("T4", Family(0.14, 300 * _MHZ, 5001 * _MHZ, 1.9, sleeps=True)),
    ("L4", Family(0.17, 210 * _MHZ, 6251 * _MHZ, 1.7, sleeps=True)),
    ("RTX", Family(0.07, 210 * _MHZ, 10251 * _MHZ, 1.1, sleeps=True)),
)
_GEFORCE: Final = Family(0.06, 210 * _MHZ, 10501 * _MHZ, 1.1, True, 0.2)
_BY_ARCHITECTURE: Final = {
    "Pascal": Family(0.11, 405 * _MHZ, 715 * _MHZ, 1.0, sleeps=False),
    "Volta": Family(0.14, 135 * _MHZ, 877 * _MHZ, 1.0, sleeps=False),
    "Turing": Family(0.08, 300 * _MHZ, 7001 * _MHZ, 1.1, sleeps=True),
    "Ampere": Family(0.10, 210 * _MHZ, 6251 * _MHZ, 1.2, sleeps=True),
    "Ada": Family(0.10, 210 * _MHZ, 9001 * _MHZ, 1.1, sleeps=True),
    "Hopper": Family(0.12, 345 * _MHZ, 2619 * _MHZ, 1.0, sleeps=False),
    "Blackwell": Family(0.14, 120 * _MHZ, 3996 * _MHZ, 1.0, sleeps=False),
}
_OTHER: Final = Family(0.10, 210 * _MHZ, 5000 * _MHZ, 1.0, sleeps=False)


def family_of(board: Board) -> Family:
    """The family that a board belongs to."""
    if "GeForce" in "".join(board.names):
        return _GEFORCE
    for start, family in _BY_KEY:
        if board.key.startswith(start) and not board.key.startswith("L40"):
            return family
    return _BY_ARCHITECTURE.get(board.architecture, _OTHER)
