"""Who else tells of the GPUs: an exporter that runs beside us, an engine that serves on them."""

from typing import Protocol

from rightsizer.domain.snapshot import Snapshot

__all__ = ["Neighbor"]


class Neighbor(Protocol):
    """Adds what it knows to a snapshot."""

    def supplement(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what stands of its words; waits for nothing."""

    def close(self) -> None:
        """End its threads; what hangs is left behind."""
