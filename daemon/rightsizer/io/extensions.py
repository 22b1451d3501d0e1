"""Extensions: rules, owners and collectors that other installed packages name as entry points.

One that cannot be loaded or used is left out and named; it is never fatal.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeVar

from msgspec import Struct

_Kind = TypeVar("_Kind")
_FAULTS: Final[dict[EntryPoint, str]] = {}
"""Those that were left out since the start, with why."""


class Extension(Struct, frozen=True):
    """An entry point of another package."""

    kind: str
    """Rule, owner or collector."""
    name: str
    package: str
    fault: str = ""
    """Why it was left out."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of {self.package}"


@cache
def _points(group: str) -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=f"rightsizer.{group}"), key=lambda point: point.name))


def extension_names(group: str) -> tuple[str, ...]:
    """Names of a group's entry points, in order; none is loaded."""
    return tuple(dict.fromkeys(point.name for point in _points(group)))


def extended(
    group: str,
    ours: Sequence[_Kind],
    checked: Callable[[str, object], _Kind],
    name_of: Callable[[_Kind], str],
) -> tuple[_Kind, ...]:
    """Return ours, then those of other packages by name of entry point.

    `checked` returns the member of an entry point's name and value, or raises for what cannot be
    used.
    """
    members = {name_of(our): our for our in ours}
    for point in _points(group):
        try:
            member = checked(point.name, point.load())
            name = name_of(member)
            if name in members:
                raise ValueError(f"there is '{name}' already; rename it")  # noqa: TRY301
        except (Exception, SystemExit) as error:  # noqa: BLE001 - of code that is not ours.
            _FAULTS[point] = f"{type(error).__name__}: {error}"
        else:
            members[name] = member
    return tuple(members.values())


def extensions() -> tuple[Extension, ...]:
    """All entry points of other packages, those left out so far with their fault."""
    return tuple(
        Extension(
            group.removesuffix("s"),
            point.name,
            "" if point.dist is None else point.dist.name,
            _FAULTS.get(point, ""),
        )
        for group in ("rules", "owners", "collectors")
        for point in _points(group)
    )
