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
    """A series, which lives long: what does not change of its line is written once.

    There are thousands on a large node, so that nothing is kept twice.
    """

    __slots__ = ("_label_names", "_label_values", "_last", "_start_length", "name")

    def __init__(
        self, name: str, label_names: tuple[str, ...], label_values: tuple[str, ...]
    ) -> None:
        """A series of a sample's name, and of its labels' names and values in the same order."""
        self.name = name
        self._label_names, self._label_values = label_names, label_values
        labels = self.labels
        pairs = ",".join(f'{label}="{_escaped(labels[label])}"' for label in sorted(labels))
        start = f"{name}{{{pairs}}} " if pairs else f"{name} "
        self._start_length = len(start)
        self._last: tuple[float | None, str] = (None, start)

    @property
    def labels(self) -> dict[str, str]:
        """The values of its labels by their names."""
        return dict(zip(self._label_names, map(str, self._label_values), strict=True))

    def line(self, value: float) -> str:
        """The line of a sample; that of the last value is kept, for few values change."""
        last = self._last  # One read, since renderings of two threads share the series.
        if last[0] == value:
            return last[1]
        line = f"{last[1][: self._start_length]}{number_text(value)}\n"
        self._last = (value, line)
        return line


@lru_cache(maxsize=_SERIES_KEPT)
def series_of(name: str, labels: tuple[str, ...], values: tuple[str, ...]) -> Series:
    """The one series of this name with these labels."""
    return Series(name, labels, values)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
