"""Which NVLinks of a GPU are connected: on a card without a bridge all links are down."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pynvml
from msgspec import Struct

from rightsizer.telemetry.nvml.library import NvmlFailure, NvmlLibrary, is_blank

_STATE: Final = pynvml.NVML_FI_DEV_NVLINK_GET_STATE
_SPEED: Final = pynvml.NVML_FI_DEV_NVLINK_GET_SPEED
_ACTIVE = 1
_ASLEEP = 2
_BYTES_PER_MEGABYTE: Final = 1e6
_MOST_LINKS: Final = 36
"""Maximum of any board; the oldest supported bindings know half as many."""


class NvlinkWiring(Struct, frozen=True):
    """NVLinks of a GPU at the last enumeration."""

    count: int | None
    """Links of the board; `None` if the driver does not report it."""
    links: tuple[int, ...] = ()
    """Numbers of connected links, up or down."""
    up: tuple[int, ...] = ()
    bytes_per_second: float | None = None
    """One direction over all links that are up; `None` if no speed is known."""


UNKNOWN_WIRING: Final = NvlinkWiring(None)


def link_is_up(state: int) -> bool:
    """Whether a link in NVML's state carries data; an idle link may be asleep."""
    return state in {_ACTIVE, _ASLEEP}


class NvlinkWiringReader:
    """Reads links of GPUs; links that were ever up count as connected."""

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library
        self._counts: dict[str, int] = {}
        self._seen: dict[str, frozenset[int]] = {}
        self._last: dict[str, NvlinkWiring] = {}

    def read(
        self, uuid: str, handle: Any, *, is_fixed: bool, board_bytes_per_second: float | None
    ) -> NvlinkWiring:
        """Return the current wiring.

        `is_fixed`: all links of such a board are connected by construction. The driver's speed
        includes framing, which carries no data, so the board's own rate is the upper bound.
        """
        count = self._count(uuid, handle)
        if not count:
            return UNKNOWN_WIRING if count is None else NvlinkWiring(0)
        states, speeds = self._states(handle, count)
        if not states:
            return self._last.get(uuid, UNKNOWN_WIRING)
        up = frozenset(link for link, state in states.items() if link_is_up(state))
        seen = self._seen[uuid] = self._seen.get(uuid, frozenset()) | up
        link_maximum = board_bytes_per_second / count if board_bytes_per_second else None
        wiring = self._last[uuid] = NvlinkWiring(
            count,
            tuple(range(count)) if is_fixed else tuple(sorted(seen)),
            tuple(sorted(up)),
            _total(up, speeds, link_maximum),
        )
        return wiring

    def _count(self, uuid: str, handle: Any) -> int | None:
        """Return the number of links of the board; asked again until the driver answers."""
        if uuid not in self._counts:
            key = pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT
            answers = self._library.ask_fields(handle, (key,))
            count = answers if isinstance(answers, NvmlFailure) else answers[key]
            if isinstance(count, NvmlFailure):
                count = self._probe(handle) if count.is_unsupported else None
            if count is None or count < 0:
                return None
            self._counts[uuid] = min(int(count), _MOST_LINKS)
        return self._counts[uuid]

    def _probe(self, handle: Any) -> int | None:
        """Count the links that have a state: older drivers refuse links that the board lacks."""
        for link in range(_MOST_LINKS):
            state = self._library.ask("nvmlDeviceGetNvLinkState", handle, link)
            if isinstance(state, NvmlFailure):
                # No state at all: no links, or a driver that does not report them.
                return link or None
        return _MOST_LINKS

    def _states(self, handle: Any, count: int) -> tuple[Mapping[int, int], Mapping[int, float]]:
        links = range(count)
        keys = [(field, link) for link in links for field in (_STATE, _SPEED)]
        answers = self._library.ask_fields(handle, keys)
        answered = {} if isinstance(answers, NvmlFailure) else answers
        states: dict[int, int] = {}
        speeds: dict[int, float] = {}
        for link in links:
            state = answered.get((_STATE, link))
            if not isinstance(state, int):
                state = self._library.ask("nvmlDeviceGetNvLinkState", handle, link)
            if isinstance(state, int) and not is_blank(state):
                states[link] = state
            speed = answered.get((_SPEED, link))
            if isinstance(speed, int) and speed > 0:
                speeds[link] = speed * _BYTES_PER_MEGABYTE
        return states, speeds


def _total(
    links: Iterable[int], speeds: Mapping[int, float], most_of_link: float | None
) -> float | None:
    total = 0.0
    for link in links:
        known_speeds = [speed for speed in (speeds.get(link), most_of_link) if speed]
        if not known_speeds:
            return None
        total += min(known_speeds)
    return total or None
