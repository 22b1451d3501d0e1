"""The GPUs of the tiny driver library, as values that a test may change."""

from dataclasses import dataclass, field

import pynvml

__all__ = ["FakeGpu", "FakeInstance"]


@dataclass
class FakeInstance:
    """A MIG instance of a fake GPU."""

    uuid: str
    profile: str = "1g.10gb"
    gpu_instance_id: int = 7
    slices: int = 1
    memory_total: int = 10 << 30
    processes: dict[int, int] = field(default_factory=dict)


@dataclass
class FakeGpu:
    """Answers of the fake driver for one GPU; `None` where a call is not supported."""

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    bus_id: str = "00000000:17:00.0"
    architecture: int = pynvml.NVML_DEVICE_ARCH_HOPPER
    busy_percent: int = 42
    memory_total: int = 80 << 30
    memory_used: int = 8 << 30
    power_milliwatts: int = 350_000
    temperature: int = 55
    processes: dict[int, int | None] = field(default_factory=dict)
    instances: list[FakeInstance] | None = None
    gpm: dict[int, float] | None = field(default_factory=lambda: {1: 90.0, 2: 80.0, 5: 60.0})
    fields: dict[int | tuple[int, int], int] = field(default_factory=dict)
    """Numbered fields beside the memory's temperature, by id or by id and scope."""
    is_persistent: bool = True
    is_lost: bool = False
