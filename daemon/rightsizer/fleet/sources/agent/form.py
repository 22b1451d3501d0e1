"""A figure in a store, in each of the forms that it may be kept in, and how it is asked for."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.prometheus.selector import selector

__all__ = ["FIGURE", "Figure", "Form", "Labels", "grouped"]

Labels = Mapping[str, str | tuple[str, ...]]
"""By name, a value or several that a selector asks for."""

FIGURE: Final = "figure"
"""The label that tells the figures of one query apart."""
_SIDE: Final = "side"

_NANOSECONDS_PER_MILLISECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Form:
    """A name, and the function that makes a stretch's value of its samples."""

    name: str
    function: str
    over: str = ""
    """What it is divided by, by the same function."""
    beside: str = ""
    """Another metric of the device, the larger of the two counts."""

    @property
    def names(self) -> frozenset[str]:
        """All that the store must have for it."""
        return frozenset({self.name, self.over, self.beside} - {""})

    def promql(self, labels: Labels, span: Nanoseconds) -> str:
        """The value over a span that ends at the query's time."""
        value = self._call(self.name, labels, span)
        if self.beside:
            # Functions take the name away, without which the two would be the same series.
            both = (value, self._call(self.beside, labels, span))
            return " or ".join(
                f'label_replace({each}, "{_SIDE}", "{place}", "", "")'
                for place, each in enumerate(both)
            )
        return f"{value} / ({self._call(self.over, labels, span)} > 0)" if self.over else value

    def _call(self, name: str, labels: Labels, span: Nanoseconds) -> str:
        milliseconds = span // _NANOSECONDS_PER_MILLISECOND
        if ":" in name:
            # A recorded sample stands for all of its five minutes, and older stores count one at
            # the very beginning of a range too.
            milliseconds -= 1
        return f"{self.function}({selector(name, labels)}[{milliseconds}ms])"


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing to know of a device, the form that costs the store least first."""

    name: str
    forms: tuple[Form, ...]
    labels: tuple[str, ...] = ()
    """What tells its series apart beside the device."""
    rounding: float = 0.001
    """Digits beyond it only make the answer long."""
    only: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Labels whose value is fixed: no other series are read."""

    def form(self, names: AbstractSet[str]) -> Form | None:
        """The first form that a store with these names has."""
        return next((form for form in self.forms if form.names <= names), None)

    def promql(self, names: AbstractSet[str], labels: Labels, span: Nanoseconds) -> str | None:
        """The query for it, each device once however often it is scraped; `None` without a form."""
        form = self.form(names)
        if form is None:
            return None
        by = ", ".join(("uuid", *self.labels))
        value = f"max by ({by}) ({form.promql({**labels, **self.only}, span)})"
        return f"round({value}, {self.rounding:.10g})"


def grouped(
    figures: Iterable[Figure], names: AbstractSet[str], labels: Labels, span: Nanoseconds
) -> str | None:
    """One query for several figures, told apart by the label `figure`; `None` without any."""
    parts = [
        f'label_replace({query}, "{FIGURE}", "{figure.name}", "", "")'
        for figure in figures
        if (query := figure.promql(names, labels, span)) is not None
    ]
    return " or ".join(parts) or None
