"""The fields of NVLinks: one link by its scope or by the field itself, or all together."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rightsizer.telemetry.simulated.counters import Counters
from rightsizer.telemetry.simulated.feature import Feature
from rightsizer.telemetry.simulated.library.field import BoardField, Kind, LinkField
from rightsizer.telemetry.simulated.library.look import Look
from rightsizer.telemetry.simulated.nvlinks import link_megabytes_per_second
from rightsizer.telemetry.simulated.outlook import LinkErrors

__all__ = ["LINK_FIELDS"]

_KIB: Final = 1024.0
_RAW_RATIO: Final = 1.13
"""With headers and checks, of the data alone."""
_PACKET_BYTES: Final = 256.0
_GOOD_ERROR_RATE: Final = 15 << 8 | 1
"""1e-15, as NVML packs it."""

Read = Callable[[Counters], float]


def _sent(counters: Counters) -> float:
    return counters.nvlink_transmit_bytes


def _received(counters: Counters) -> float:
    return counters.nvlink_receive_bytes


def _both(counters: Counters) -> float:
    return _sent(counters) + _received(counters)


def _traffic(
    read: Read,
    factor: float,
    feature: Feature = Feature.NVLINK,
    link: int | None = None,
) -> LinkField:
    """A counter of traffic; all links that are up carry the same."""
    return LinkField(
        Kind.UNSIGNED_LONG_LONG,
        lambda look, at: factor * read(look.link_counters(at)) / look.device.support.nvlink_links,
        feature,
        lambda look: factor * read(look.counters),
        link,
    )


def _errors(
    read: Callable[[LinkErrors], int],
    link: int | None = None,
    feature: Feature = Feature.NVLINK,
) -> LinkField:
    return LinkField(
        Kind.UNSIGNED_LONG_LONG,
        lambda look, at: read(look.health.link_errors.get(at, LinkErrors())),
        feature,
        lambda look: sum(read(errors) for errors in look.health.link_errors.values()),
        link,
    )


def _is_up(look: Look, link: int) -> int:
    return int(look.device.support.nvlink_up and link not in look.health.links_down)


def _speed(look: Look, link: int) -> int:
    return link_megabytes_per_second(look.device.unit.slot.board) * _is_up(look, link)


def _errors_of_all(read: Callable[[LinkErrors], int]) -> BoardField:
    total = _errors(read).total
    return BoardField(Kind.UNSIGNED_LONG_LONG, total or (lambda _: 0), Feature.NVLINK)


def _by_link(fields: Sequence[int], make: Callable[[int], LinkField]) -> dict[int, LinkField]:
    return {field: make(link) for link, field in enumerate(fields)}


_OLD: Final = Feature.NVLINK_OLD_COUNTERS
_NEW: Final = Feature.NVLINK_NEW_COUNTERS
_SPEED: Final = LinkField(Kind.UNSIGNED_INT, _speed)
_NO_ERRORS: Final = LinkField(Kind.UNSIGNED_LONG_LONG, lambda _, __: 0, _NEW)
LINK_FIELDS: Final[Mapping[int, BoardField | LinkField]] = {
    **_by_link((*range(32, 38), *range(96, 102)), lambda at: _errors(lambda found: found.crc, at)),
    38: _errors_of_all(lambda found: found.crc),
    **_by_link((*range(39, 45), *range(102, 108)), lambda at: _errors(lambda _: 0, at)),
    45: _errors_of_all(lambda _: 0),
    **_by_link(
        (*range(46, 52), *range(108, 114)), lambda at: _errors(lambda found: found.replay, at)
    ),
    52: _errors_of_all(lambda found: found.replay),
    **_by_link(
        (*range(53, 59), *range(114, 120)), lambda at: _errors(lambda found: found.recovery, at)
    ),
    59: _errors_of_all(lambda found: found.recovery),
    **_by_link((*range(60, 66), *range(120, 126)), lambda at: _traffic(_both, 1 / _KIB, _OLD, at)),
    66: BoardField(Kind.UNSIGNED_LONG_LONG, lambda look: _both(look.counters) / _KIB, _OLD),
    **_by_link(
        (*range(84, 90), *range(132, 138)),
        lambda at: LinkField(Kind.UNSIGNED_INT, _speed, link=at),
    ),
    90: LinkField(Kind.UNSIGNED_INT, _speed, link=0),
    138: _traffic(_sent, 1 / _KIB),
    139: _traffic(_received, 1 / _KIB),
    140: _traffic(_sent, _RAW_RATIO / _KIB),
    141: _traffic(_received, _RAW_RATIO / _KIB),
    147: BoardField(
        Kind.UNSIGNED_INT,
        lambda look: look.device.support.nvlink_links - len(look.health.links_down),
        Feature.FABRIC,
    ),
    **_by_link(range(148, 160), lambda at: _errors(lambda _: 0, at)),
    160: _errors_of_all(lambda _: 0),
    161: _errors(lambda found: found.replay),
    162: _errors(lambda found: found.recovery),
    163: _errors(lambda found: found.crc),
    164: _SPEED,
    165: LinkField(Kind.UNSIGNED_INT, _is_up, needs_link_up=False),
    166: LinkField(Kind.UNSIGNED_INT, lambda look, _: look.device.support.nvlink_version),
    201: _traffic(_sent, 1 / _PACKET_BYTES, _NEW),
    202: _traffic(_sent, 1.0, _NEW),
    203: _traffic(_received, 1 / _PACKET_BYTES, _NEW),
    204: _traffic(_received, 1.0, _NEW),
    **dict.fromkeys((*range(206, 213), 214, *range(235, 251)), _NO_ERRORS),
    208: _errors(lambda found: found.crc, feature=_NEW),
    213: _errors(lambda found: found.recovery, feature=_NEW),
    215: _errors(lambda found: found.recovery, feature=_NEW),
    219: _NO_ERRORS,
    220: LinkField(Kind.UNSIGNED_LONG_LONG, lambda _, __: _GOOD_ERROR_RATE, _NEW),
    221: _errors(lambda found: found.crc, feature=_NEW),
    222: LinkField(Kind.UNSIGNED_LONG_LONG, lambda _, __: _GOOD_ERROR_RATE, _NEW),
}
"""By NVML's numbers, which never change (nvml.h, NVML_FI_*)."""
