"""What is wrong with a GPU's memory: errors, rows and pages (NVIDIA: memory error management)."""

from collections.abc import Iterator

from rightsizer.advice.trouble import Board, Trouble, TroubleSettings
from rightsizer.advice.trouble_remedies import REBOOT, REPLACE, RESET
from rightsizer.domain.finding import Severity
from rightsizer.domain.signal import Signal

__all__ = ["memory_troubles"]


def memory_troubles(board: Board, settings: TroubleSettings) -> Iterator[Trouble]:
    """Errors that could not be corrected, and repairs that failed or wait."""
    get = board.standing.get
    if get(Signal.REMAPPED_ROWS_FAILED):
        yield Trouble(
            "remapping a memory row has failed",
            "spare rows have run out in a part of the memory; the next error there ends work",
            Severity.CRITICAL,
            REPLACE,
            evidence={"remapped_rows_failed": 1},
        )
    retired = _sum(get(Signal.RETIRED_PAGES_CORRECTABLE), get(Signal.RETIRED_PAGES_UNCORRECTABLE))
    if retired >= settings.retired_pages_maximum:
        yield Trouble(
            f"{retired:.0f} memory pages are retired",
            "so many mean that the memory wears out; no more than 64 can be retired",
            Severity.HIGH,
            REPLACE,
            evidence={"retired_pages": retired},
        )
    errors = get(Signal.ECC_UNCORRECTED_ERRORS) or 0.0
    if errors > 0:
        yield Trouble(
            f"{errors:.0f} uncorrected memory {'error' if errors == 1 else 'errors'}",
            "since the driver was loaded; the work that met them ended or went wrong",
            Severity.HIGH,
            RESET,
            evidence={"ecc_uncorrected_errors": errors},
        )
    yield from _waiting(board)


def _waiting(board: Board) -> Iterator[Trouble]:
    if board.standing.get(Signal.REMAPPED_ROWS_PENDING):
        yield Trouble(
            "memory rows wait to be remapped",
            "a reset replaces them by spare ones; until then the bad places are kept out of use, "
            "and what runs may go on",
            Severity.MEDIUM,
            RESET,
            evidence={"remapped_rows_pending": 1},
        )
    if board.standing.get(Signal.RETIRED_PAGES_PENDING):
        yield Trouble(
            "memory pages wait to be retired",
            "they stay in use until the driver is loaded anew",
            Severity.MEDIUM,
            REBOOT,
            evidence={"retired_pages_pending": 1},
        )


def _sum(*values: float | None) -> float:
    return sum(value for value in values if value is not None)
