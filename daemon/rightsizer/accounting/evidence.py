"""What the signals of one stretch say, as far as states are told by it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.accounting.signals import highest, memory_work
from rightsizer.domain.signal import PIPES, Signal

__all__ = ["Evidence"]

_ENGINES: Final = (Signal.ENCODER, Signal.DECODER, Signal.JPEG, Signal.OFA)
_PCIE: Final = (Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT)
_NVLINK: Final = (Signal.NVLINK_RECEIVE, Signal.NVLINK_TRANSMIT)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The witnesses, each `None` where nobody heard it; where there are several, the loudest."""

    busy: float | None
    power: float | None
    sm: float | None
    pipes: float | None
    dram: float | None
    engines: float | None
    """The media engines, which work while the SMs rest."""
    pcie: float | None
    nvlink: float | None
    memory_controller: float | None
    """At the highest memory clock; its own share is of the current one."""
    cpu: float | None
    cpu_pressure: float | None
    io_pressure: float | None

    @classmethod
    def of(cls, signals: Mapping[Signal, float]) -> "Evidence":
        """The evidence in these signals."""
        get = signals.get
        return cls(
            busy=get(Signal.GPU_BUSY),
            power=get(Signal.POWER),
            sm=get(Signal.SM_ACTIVE),
            pipes=highest(signals, *PIPES),
            dram=get(Signal.DRAM_ACTIVE),
            engines=highest(signals, *_ENGINES),
            pcie=highest(signals, *_PCIE),
            nvlink=highest(signals, *_NVLINK),
            memory_controller=memory_work(signals),
            cpu=get(Signal.CPU),
            cpu_pressure=get(Signal.CPU_PRESSURE),
            io_pressure=get(Signal.IO_PRESSURE),
        )

    @property
    def has_counters(self) -> bool:
        """Whether anybody counts what pipes or memory do."""
        return self.pipes is not None or self.dram is not None

    @property
    def sees_compute(self) -> bool:
        """Whether a kernel would show; a single pipe at rest says nothing of the others."""
        return self.busy is not None or self.sm is not None
