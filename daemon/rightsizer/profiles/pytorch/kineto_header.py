"""Header of a Kineto trace: devices, versions, ranks, start."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.profiles.json_events import whole_number

HEADER_KEYS: Final = (
    "schemaVersion",
    "deviceProperties",
    "computeProperties",
    "distributedInfo",
    "baseTimeNanoseconds",
    "cuda_runtime_version",
    "hip_runtime_version",
)
"""Top-level keys to keep. `metadata` may contain the program's whole environment."""
_EPOCH: Final = 10**9 * NANOSECONDS_PER_SECOND
"""September 2001: later times count from 1970, earlier ones from an arbitrary start."""
_LATEST: Final = 2**63
"""Year 2262: the limit of nanosecond clocks."""


class TraceHeader:
    """Validated top-level values."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        # The key differed until 2021.
        listed = (values.get(key) for key in ("deviceProperties", "computeProperties"))
        self.devices = dict(_listed_devices(next(filter(None, listed), None)))
        """Fields of `ProfiledDevice` for every GPU present, by number."""
        distributed = values.get("distributedInfo")
        ranks: Mapping[str, Any] = distributed if isinstance(distributed, dict) else {}
        self.rank = whole_number(ranks.get("rank"))
        self.world_size = whole_number(ranks.get("world_size"))

    def facts(self, key: str) -> Mapping[str, Any]:
        """Return known `ProfiledDevice` fields by device number.

        ROCm numbers devices of kernels differently from the list; if all listed devices are alike,
        their fields are known anyway.
        """
        index = whole_number(key)
        kinds = [*self.devices.values(), {}]
        alike = kinds[0] if all(kind == kinds[0] for kind in kinds[:-1]) else {}
        return {"index": index, **(alike if index is None else self.devices.get(index, alike))}

    def start(self, latest: Nanoseconds) -> Nanoseconds | None:
        """Return the wall time of its time 0, by the last start of an event; `None` if unknown."""
        base = whole_number(self._values.get("baseTimeNanoseconds"))
        if base is not None and 0 <= base < _LATEST:
            return base
        return 0 if latest > _EPOCH else None

    @property
    def version(self) -> str:
        """Versions of the format, and of the GPU runtime."""
        keys = ("schemaVersion", "cuda_runtime_version", "hip_runtime_version")
        schema, cuda, hip = (whole_number(self._values.get(key)) for key in keys)
        parts = (
            "" if schema is None else f"schema {schema}",
            "" if cuda is None else f"CUDA {cuda // 1000}.{cuda % 1000 // 10}",
            "" if hip is None else f"HIP {hip // 10_000_000}.{hip // 100_000 % 100}",
        )
        return ", ".join(filter(None, parts))


def _listed_devices(properties: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    for entry in properties if isinstance(properties, list) else ():
        index = whole_number(entry.get("id")) if isinstance(entry, dict) else None
        if index is None:
            continue
        multiprocessors = entry.get("numSms", entry.get("multiProcessorCount"))
        facts = {
            "name": str(entry.get("name", ""))[:200],
            "memory_bytes": whole_number(entry.get("totalGlobalMem")),
            "multiprocessors": whole_number(multiprocessors),
        }
        yield index, facts
