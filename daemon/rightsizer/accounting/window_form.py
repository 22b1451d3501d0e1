"""A window as bytes, for the rings in memory and the history on disk; lossless and versioned."""

import json
from collections.abc import Mapping
from typing import Any, Final

from rightsizer.domain.histogram import Histogram
from rightsizer.domain.state import Cause, Condition, Resource, State, Tier
from rightsizer.domain.window import Window

__all__ = ["decode", "encode"]

_VERSION: Final = 1
_ALWAYS: Final = frozenset({"v", "start", "end"})
"""A recording may begin at 0; the rest is left out where there is nothing to tell."""


def encode(window: Window) -> bytes:
    """The window in a few hundred bytes of JSON."""
    form = {
        "v": _VERSION,
        "start": window.start,
        "end": window.end,
        "states": window.states,
        "conditions": window.conditions,
        "tiers": window.tiers,
        "saturated": window.saturated,
        "pressed": window.pressed,
        "waste_seconds": window.waste_seconds,
        "waste_joules": window.waste_joules,
        "used_seconds": window.used_seconds,
        "used_joules": window.used_joules,
        "energy_joules": window.energy_joules,
        "demands": {resource: _pairs(found) for resource, found in window.demands.items()},
        "compute_at_least": _pairs(window.compute_at_least),
    }
    kept = {key: value for key, value in form.items() if value or key in _ALWAYS}
    return json.dumps(kept, separators=(",", ":")).encode()


def decode(uuid: str, data: bytes) -> Window:
    """The window that `encode` wrote.

    Raises:
        ValueError: the bytes are not such a window, or of a newer form.
    """
    form: dict[str, Any] = json.loads(data)
    try:
        if form.get("v") != _VERSION:
            raise ValueError(f"window of form {form.get('v')}, this program reads {_VERSION}")
        return Window(
            uuid=uuid,
            start=form["start"],
            end=form["end"],
            states=_keyed(State, form.get("states", {})),
            conditions=_keyed(Condition, form.get("conditions", {})),
            tiers=_keyed(Tier, form.get("tiers", {})),
            saturated=_keyed(Resource, form.get("saturated", {})),
            pressed=_keyed(Resource, form.get("pressed", {})),
            waste_seconds=_keyed(Cause, form.get("waste_seconds", {})),
            waste_joules=_keyed(Cause, form.get("waste_joules", {})),
            used_seconds=form.get("used_seconds", 0.0),
            used_joules=form.get("used_joules", 0.0),
            energy_joules=form.get("energy_joules", 0.0),
            demands={
                Resource(name): _histogram(pairs) for name, pairs in form.get("demands", {}).items()
            },
            compute_at_least=_histogram(form.get("compute_at_least", ())),
        )
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"not a window: {error!r}") from None


def _pairs(histogram: Histogram) -> list[tuple[int, float]]:
    return [
        (index, int(weight) if weight == int(weight) else weight)
        for index, weight in sorted(histogram.items())
    ]


def _histogram(pairs: Any) -> Histogram:
    return Histogram({index: float(weight) for index, weight in pairs})


def _keyed(enumeration: type[Any], form: Mapping[str, Any]) -> dict[Any, Any]:
    return {enumeration(name): value for name, value in form.items()}
