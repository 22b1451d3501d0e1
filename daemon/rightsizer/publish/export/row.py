"""What a row of the export is made of."""

from dataclasses import dataclass

from rightsizer.domain.device import Device
from rightsizer.domain.window import Window

__all__ = ["ExportRow"]


@dataclass(frozen=True, slots=True)
class ExportRow:
    """One device over one span of time."""

    window: Window
    device: Device | None
    """`None` where the history has forgotten what it was."""
    holders: tuple[str, ...] = ()
    """The workloads that held it at any time of the span, by their keys."""
