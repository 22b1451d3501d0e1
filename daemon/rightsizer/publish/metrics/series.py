"""One series: its name, its labels, and the text that both exposition formats have for it."""

from functools import lru_cache
from typing import Final

from prometheus_client.utils import floatToGoString

__all__ = ["Series", "number_text", "series_of"]

_SERIES_KEPT: Final = 32768
"""Twice those of the largest node that is planned for; the oldest give way."""


def number_text(value: float) -> str:
    """A number as Go writes it, and with it Prometheus."""
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


class Series:
    """A series, which lives long: what does not change of its line is written once."""

    __slots__ = ("_last", "_start", "labels", "name")

    def __init__(self, name: str, labels: dict[str, str]) -> None:
        """A series of a sample's name and its labels, which nobody changes any more."""
        self.name, self.labels = name, labels
        pairs = ",".join(f'{label}="{_escaped(labels[label])}"' for label in sorted(labels))
        self._start = f"{name}{{{pairs}}} " if pairs else f"{name} "
        self._last: tuple[float | None, str] = (None, "")

    def line(self, value: float) -> str:
        """The line of a sample; that of the last value is kept, for few values change."""
        last = self._last  # One read, since renderings of two threads share the series.
        if last[0] == value:
            return last[1]
        line = f"{self._start}{number_text(value)}\n"
        self._last = (value, line)
        return line


@lru_cache(maxsize=_SERIES_KEPT)
def series_of(name: str, labels: tuple[str, ...], values: tuple[str, ...]) -> Series:
    """The one series of this name with these labels."""
    return Series(name, {label: str(value) for label, value in zip(labels, values, strict=True)})


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
