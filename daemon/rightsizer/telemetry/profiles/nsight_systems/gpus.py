"""GPUs of an export: which one a process means by a CUDA device number."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

from rightsizer.telemetry.profiles.nsight_systems.database import ExportDatabase
from rightsizer.telemetry.profiles.recorder import Recorder

_KNOWN_PREFIXES = ("GPU-", "MIG-")


def process_of(number: Any) -> int:
    """The process of a serialized process or thread number; 0 where there is none."""
    return (number >> 24) & 0xFFFFFF if type(number) is int else 0


@dataclass(frozen=True, slots=True)
class _Facts:
    name: str = ""
    uuid: str = ""
    memory_bytes: int | None = None
    multiprocessors: int | None = None


class Gpus:
    """The devices of an export, made known to the recorder as they come up."""

    def __init__(self, database: ExportDatabase, recorder: Recorder) -> None:
        self._recorder = recorder
        self._facts = _gpu_facts(database)
        self._mapped = _mapped(database, self._facts)
        self._keys: dict[tuple[int, int], str] = {}
        self.is_ambiguous = False
        """Whether processes have the same device number and nothing tells whose is which."""

    def key(self, process: int, device: int) -> str:
        """The key of a process's device."""
        known = self._keys.get((process, device))
        if known is None:
            known = self._keys[process, device] = self._made(process, device)
        return known

    def of_process(self, process: int) -> tuple[str, ...]:
        """The devices that a process has used so far."""
        return tuple(sorted({key for (owner, _), key in self._keys.items() if owner == process}))

    def _made(self, process: int, device: int) -> str:
        gpu = self._mapped.get((process, device), self._mapped.get((0, device)))
        if gpu is None and device == 0 and len(self._facts) == 1:
            gpu = next(iter(self._facts))
        if gpu is not None:
            key, facts, index = str(gpu), self._facts.get(gpu, _Facts()), gpu
        else:
            key, facts, index = str(device), self._facts.get(device, _Facts()), device
            if self._mapped or key in self._keys.values():
                # Each process may count its own devices from 0, so they are kept apart.
                self.is_ambiguous = True
                key, facts = f"{device} of process {process}", _Facts()
        self._recorder.device(
            key,
            index=index,
            name=facts.name,
            uuid=facts.uuid,
            memory_bytes=facts.memory_bytes,
            multiprocessors=facts.multiprocessors,
        )
        return key


def _gpu_facts(database: ExportDatabase) -> dict[int, _Facts]:
    facts: dict[int, _Facts] = {}
    rows = chain(
        database.rows("TARGET_INFO_GPU", ("id",), ("name", "uuid", "totalMemory", "smCount")),
        # Until 2021, as CUDA numbers them.
        database.rows(
            "TARGET_INFO_CUDA_GPU",
            ("deviceId",),
            ("name", "uuid", "globalMemorySize", "numMultiprocessors"),
        ),
    )
    for number, name, uuid, memory, multiprocessors in rows:
        facts.setdefault(
            number, _Facts(_text(name), _uuid(uuid), _count(memory), _count(multiprocessors))
        )
    return facts


def _mapped(database: ExportDatabase, facts: dict[int, _Facts]) -> dict[tuple[int, int], int]:
    """Processes and their device numbers to GPUs; fills in what the GPUs' own table lacks."""
    mapped: dict[tuple[int, int], int] = {}
    rows = database.rows(
        "TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId"), ("pid", "uuid", "numMultiprocessors")
    )
    for gpu, device, process, uuid, multiprocessors in rows:
        mapped[process if type(process) is int else 0, device] = gpu
        known = facts.get(gpu, _Facts())
        facts[gpu] = _Facts(
            known.name,
            known.uuid or _uuid(uuid),
            known.memory_bytes,
            known.multiprocessors or _count(multiprocessors),
        )
    return mapped


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _uuid(value: Any) -> str:
    """As the driver writes it; the export leaves the prefix away."""
    text = _text(value)
    return text if not text or text.startswith(_KNOWN_PREFIXES) else f"GPU-{text}"
