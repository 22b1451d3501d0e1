"""The one interface of all that gives readings."""

from typing import Protocol

from rightsizer.domain.snapshot import Snapshot

__all__ = ["Source"]


class Source(Protocol):
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
