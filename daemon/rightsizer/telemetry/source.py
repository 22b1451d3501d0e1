"""Protocols of sources: snapshots, and secondary sources that enrich them."""

from typing import Protocol

from rightsizer.model.snapshot import Snapshot


class SnapshotSource(Protocol):
    """A driver, a recording or a simulation; whoever reads it cannot tell which."""

    @property
    def name(self) -> str:
        """What it is, for people: `nvml`, `simulated (eight-gpu-node)`, `log.csv`."""

    def read(self) -> Snapshot | None:
        """The next snapshot; `None` when there will be no more.

        A live source answers with the present and always within its deadline; a recorded one
        with the next tick of the recording.
        """

    def close(self) -> None:
        """Give back whatever is held: handles, threads, files."""


class SecondarySource(Protocol):
    """Adds what it knows to a snapshot."""

    def enrich(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what stands of its words; waits for nothing."""

    def close(self) -> None:
        """End its threads; what hangs is left behind."""
