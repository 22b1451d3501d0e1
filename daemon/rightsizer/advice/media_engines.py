"""Work that is on none of the resources that a size goes by."""

from typing import Final

from rightsizer.domain.finding import Case
from rightsizer.domain.signal import Signal

__all__ = ["works_on_media"]

_ENGINES: Final = (Signal.ENCODER, Signal.DECODER, Signal.JPEG, Signal.OFA)
_LEAST_RATIO: Final = 0.05
"""Below it is noise of the driver's."""


def works_on_media(case: Case) -> bool:
    """Whether the engines for video and pictures were busy just now on any of the GPUs.

    A smaller board, or a slice, may have none of them, whatever room its SMs have.
    """
    if case.node is None:
        return False
    readings = [case.node.readings.get(device.uuid) for device in case.devices]
    return any(
        (reading.get(engine) or 0.0) >= _LEAST_RATIO
        for reading in readings
        if reading is not None
        for engine in _ENGINES
    )
