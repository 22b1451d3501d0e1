"""Which GPU stands behind `/dev/nvidia<N>`: its minor number, by the driver's own word."""

import re
from pathlib import Path
from typing import Final

from rightsizer.telemetry.owners.device_key import pci_key

__all__ = ["Minors"]

_MINOR: Final = re.compile(r"^Device Minor:\s*(\d+)\s*$", re.MULTILINE)


class Minors:
    """Reads `<procfs>/driver/nvidia/gpus/<PCI address>/information`."""

    def __init__(self, procfs: Path) -> None:
        """Reads nothing yet."""
        self._folder = procfs / "driver" / "nvidia" / "gpus"

    def addresses(self) -> dict[int, str]:
        """PCI addresses by minor number, empty where the driver is not loaded."""
        found: dict[int, str] = {}
        try:
            gpus = sorted(self._folder.iterdir())
        except OSError:
            return {}
        for gpu in gpus:
            try:
                text = (gpu / "information").read_text(errors="replace")
            except OSError:
                continue  # It has left the bus meanwhile.
            minor = _MINOR.search(text)
            if minor is not None:
                found[int(minor[1])] = pci_key(gpu.name)
        return found
