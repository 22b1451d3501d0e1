"""Settings after a reload: which change at once, and which wait for a restart."""

from typing import Any, TypeVar

from msgspec.structs import replace

from rightsizer.config.shape import (
    Group,
    shape_of,
)
from rightsizer.model.errors import ConfigurationError

_Settings = TypeVar("_Settings")


def live_update(in_force: _Settings, wanted: _Settings) -> tuple[_Settings, tuple[str, ...]]:
    """Settings after a reload, and the changed keys that keep their value until a restart.

    Raises:
        ConfigurationError: new values conflict with values that cannot change.
    """
    return _merged(shape_of(type(in_force)), in_force, wanted, "")


def _merged(group: Group, in_force: Any, wanted: Any, path: str) -> tuple[Any, tuple[str, ...]]:
    changes: dict[str, Any] = {}
    waiting: list[str] = []
    for entry in group.entries:
        old = getattr(in_force, entry.name)
        new = getattr(wanted, entry.name)
        if old == new:
            continue
        key = f"{path}{entry.key}"
        if isinstance(entry.shape, Group):
            changes[entry.name], below = _merged(entry.shape, old, new, f"{key}.")
            waiting.extend(below)
        elif entry.is_live:
            changes[entry.name] = new
        else:
            waiting.append(key)
    try:
        return replace(in_force, **changes), tuple(waiting)
    except ValueError as error:
        keys = ", ".join(waiting) or path.rstrip(".")
        raise ConfigurationError(
            f"{path.rstrip('.')}: {error}; that is with {keys} as it is until a restart"
        ) from None
