"""Which GPUs a PyTorch trace speaks of."""

from collections.abc import Iterator, Mapping
from typing import Any

from rightsizer.profiles.event_time import whole_number

__all__ = ["DeviceFacts", "listed_devices"]


class DeviceFacts:
    """The list of GPUs that were visible, and what it says of one that was used."""

    __slots__ = ("_by_id",)

    def __init__(self, properties: Any) -> None:
        self._by_id = dict(listed_devices(properties))

    def of(self, key: str) -> Mapping[str, Any]:
        """The fields of `ProfiledDevice` that are known of a device by its number.

        ROCm numbers the devices of kernels otherwise than those of the list; where all in the list
        are alike, what they are is known all the same.
        """
        index = whole_number(key)
        own = self._by_id.get(index) if index is not None else None
        if own is None:
            kinds = list(self._by_id.values())
            own = kinds[0] if kinds and all(each == kinds[0] for each in kinds) else {}
        return {"index": index, **own}


def listed_devices(properties: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and facts of each entry that is understood."""
    for entry in properties if isinstance(properties, list) else ():
        index = whole_number(entry.get("id")) if isinstance(entry, dict) else None
        if index is None:
            continue
        name = entry.get("name")
        multiprocessors = entry.get("numSms", entry.get("multiProcessorCount"))
        yield (
            index,
            {
                "name": name[:200] if isinstance(name, str) else "",
                "memory_bytes": whole_number(entry.get("totalGlobalMem")),
                "multiprocessors": whole_number(multiprocessors),
            },
        )
