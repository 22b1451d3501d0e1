"""PCIe link: generation, width, throughput and replays."""

from typing import Any, Final

from rightsizer.simulator.library.calls import Functions, one_of, put
from rightsizer.simulator.library.driver import SimulatedHandle, value

_KIB: Final = 1024.0
_MEGATRANSFERS: Final = {1: 2500, 2: 5000, 3: 8000, 4: 16000, 5: 32000, 6: 64000}


def _throughput(device: SimulatedHandle, direction: Any, kib_per_second: Any) -> None:
    state = device.state
    rates = state.pcie_transmit_bytes_per_second, state.pcie_receive_bytes_per_second
    put(kib_per_second, int(rates[one_of(direction, range(len(rates)))] / _KIB))


_generation_maximum = value(lambda device: device.unit.slot.board.pcie_generation)
PCIE: Final[Functions] = {
    "nvmlDeviceGetCurrPcieLinkGeneration": value(
        lambda device: device.state.electrical.pcie_generation
    ),
    "nvmlDeviceGetCurrPcieLinkWidth": value(lambda device: device.state.electrical.pcie_width),
    "nvmlDeviceGetMaxPcieLinkGeneration": _generation_maximum,
    "nvmlDeviceGetGpuMaxPcieLinkGeneration": _generation_maximum,
    "nvmlDeviceGetMaxPcieLinkWidth": value(lambda device: device.unit.slot.board.pcie_width),
    "nvmlDeviceGetPcieThroughput": _throughput,
    "nvmlDeviceGetPcieReplayCounter": value(lambda device: device.health.pcie_replays),
    "nvmlDeviceGetPcieSpeed": value(
        lambda device: _MEGATRANSFERS[device.state.electrical.pcie_generation]
    ),
    # NVML's codes of speeds are the numbers of the generations.
    "nvmlDeviceGetPcieLinkMaxSpeed": _generation_maximum,
}
