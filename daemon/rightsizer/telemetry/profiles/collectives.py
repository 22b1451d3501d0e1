"""Collectives by kind and message size, with their bandwidth."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rightsizer.model.profile import CollectiveUse
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.telemetry.profiles.json_events import whole_number
from rightsizer.telemetry.profiles.names import collective_kind

_ELEMENT_BYTES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("double", "long", "int64", "uint64", "complexfloat"), 8),
    **dict.fromkeys(("float", "int", "int32", "uint32"), 4),
    **dict.fromkeys(("half", "bfloat16", "short"), 2),
    **dict.fromkeys(("char", "byte", "bool", "float8_e4m3fn", "float8_e5m2"), 1),
}
_SIZE_CLASS_BITS: Final = 2
"""Sizes within a factor of four form one class."""
_KINDS_MAXIMUM: Final = 200


class _SizeClass(NamedTuple):
    kind: str
    group_size: int
    bits: int


class CollectiveTable:
    """Collectives of one device, as PyTorch describes those of NCCL and RCCL."""

    def __init__(self) -> None:
        self._rows: dict[_SizeClass, list[float]] = {}

    def add(self, arguments: Mapping[str, Any], duration: Nanoseconds) -> None:
        """Add one call; ignored without its size or group."""
        kind = collective_kind(str(arguments.get("Collective name", "")))
        group = whole_number(arguments.get("Group size"))
        element = _ELEMENT_BYTES.get(str(arguments.get("dtype", "")).lower())
        counts = (whole_number(arguments.get(f"{way} msg nelems")) for way in ("In", "Out"))
        size = max((each or 0 for each in counts), default=0) * (element or 0)
        if not kind or not group or group < 2 or size <= 0 or duration <= 0:  # noqa: PLR2004 - a pair.
            return
        key = _SizeClass(kind, group, size.bit_length() // _SIZE_CLASS_BITS)
        if key in self._rows or len(self._rows) < _KINDS_MAXIMUM:
            row = self._rows.setdefault(key, [0, 0, 0, 0])
            row[0] += 1
            row[1] += size
            row[2] += duration
            row[3] = max(row[3], _on_the_bus(kind, size, group) / duration)

    def uses(self) -> tuple[CollectiveUse, ...]:
        """Collectives by total time, longest first."""
        ranked = sorted(self._rows.items(), key=lambda row: (-row[1][2], row[0]))
        return tuple(
            CollectiveUse(
                key.kind,
                key.group_size,
                int(count),
                size / count,
                seconds(int(duration)),
                _on_the_bus(key.kind, size, key.group_size) / duration * NANOSECONDS_PER_SECOND,
                best * NANOSECONDS_PER_SECOND,
            )
            for key, (count, size, duration, best) in ranked
        )


def _on_the_bus(kind: str, size: float, group: int) -> float:
    """Return what each rank sends, by the factors of NCCL's own tests."""
    if kind == "all_reduce":
        return 2.0 * size * (group - 1) / group
    if kind in {"all_gather", "reduce_scatter", "all_to_all"}:
        return size * (group - 1) / group
    return size
