"""The driver's own buffer of samples: what happened between two ticks."""

from typing import Any, Final

from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle
from rightsizer.telemetry.nvml.typed_value import value_of

__all__ = ["SampleBuffer"]

_CALL: Final = "nvmlDeviceGetSamples"
_PERCENT: Final = 100


class SampleBuffer:
    """One kind of sample of one device, each taken into account once.

    The driver takes about six samples a second and keeps some seconds of them (NVML API
    reference, nvmlDeviceGetSamples).
    """

    def __init__(self, handle: Handle, kind: int) -> None:
        """Samples of a kind, from the first call on."""
        self._handle = handle
        self._kind = kind
        self._seen: int | None = None
        self._refused = False

    def mean(self) -> float | None:
        """The mean percentage since the last call; `None` where there is no new sample.

        The first call gives nothing: the buffer reaches back to before anybody looked.
        """
        if self._refused:
            return None
        # The time of the last sample changes with each call, so the handle cannot remember this.
        answer = self._handle.library.ask(
            _CALL, self._handle.target.handle, self._kind, self._seen or 0
        )
        if isinstance(answer, Failure):
            self._refused = answer.is_unsupported
            return None
        is_first = self._seen is None
        kind, samples = answer
        fresh = [found for found in samples if found.timeStamp > (self._seen or 0)]
        if not fresh:
            return None
        self._seen = max(found.timeStamp for found in fresh)
        values = [value for found in fresh if (value := _percent(kind, found)) is not None]
        return None if is_first or not values else sum(values) / len(values)

    def close(self) -> None:
        """Nothing is held of the driver's."""


def _percent(kind: int, found: Any) -> float | None:
    value = value_of(kind, found.sampleValue)
    return value if value is not None and 0 <= value <= _PERCENT else None
