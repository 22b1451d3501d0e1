"""Row of a GPU on the page and in a terminal: what it wastes, who holds it, what is advised."""

from msgspec import Struct

from rightsizer.model.finding import UNADVISED, Rank
from rightsizer.model.served_load import ServedLoad, ServedNeed


class GpuRow(Struct, frozen=True, kw_only=True):
    """GPU or MIG instance."""

    uuid: str
    title: str
    state: str
    """`unknown` if its last reading is outdated."""
    down: str
    """Why it does not respond; empty if it does."""
    holders: tuple[str, ...]
    served: tuple[ServedLoad, ...] = ()
    """Models of the engines on it."""
    needs: tuple[ServedNeed, ...] = ()
    """What they would need."""
    wasted_ratio: float | None
    """Share of the known past that was idle, stalled or held up; `None` if unknown."""
    wasted_gpu_hours: float
    rank: Rank = UNADVISED
    """Of its first open recommendation, in the order of `advise`."""
    is_cause: bool = False
    """Whether that one says that this GPU is to blame."""

    @property
    def order(self) -> tuple[bool, Rank, bool, float]:
        """Sort key: those that do not respond, then what saves most, then what wastes most."""
        return not self.down, self.rank, not self.is_cause, -self.wasted_gpu_hours
