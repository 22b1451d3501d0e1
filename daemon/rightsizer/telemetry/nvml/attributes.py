"""What else is known of a GPU, as text: versions, numbers and modes that an operator sets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import pynvml

__all__ = ["ask_constants", "ask_modes"]

Ask = Callable[..., Any]
"""A function of the bindings by name, with its arguments after the device; `None` for no answer."""


@dataclass(frozen=True, slots=True)
class _Attribute:
    """A question, and how its answer reads."""

    name: str
    call: str
    text: Callable[[Any], str | None]


def _words(words: Mapping[int, str]) -> Callable[[Any], str | None]:
    return lambda answer: words.get(int(answer))


def _plain(answer: Any) -> str | None:
    return str(answer).strip() or None


def _current(answer: Any) -> str | None:
    """Of a mode now and after the next reset: the one now."""
    return _SWITCH.get(int(answer[0]))


def _number(answer: Any) -> str | None:
    """A number, where the driver has no way to say that there is none but -1."""
    return str(answer) if 0 <= answer < _BLANK else None


_BLANK: Final = 2**32 - 1
_SWITCH: Final = MappingProxyType({0: "disabled", 1: "enabled"})
_COMPUTE_MODES: Final = MappingProxyType(
    {
        pynvml.NVML_COMPUTEMODE_DEFAULT: "default",
        pynvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD: "exclusive_thread",
        pynvml.NVML_COMPUTEMODE_PROHIBITED: "prohibited",
        pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive_process",
    }
)
_VIRTUALIZATION_MODES: Final = MappingProxyType(
    {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}
)
_BRANDS: Final = MappingProxyType(
    {
        pynvml.NVML_BRAND_QUADRO: "Quadro",
        pynvml.NVML_BRAND_TESLA: "Tesla",
        pynvml.NVML_BRAND_NVS: "NVS",
        pynvml.NVML_BRAND_GRID: "GRID",
        pynvml.NVML_BRAND_GEFORCE: "GeForce",
        pynvml.NVML_BRAND_TITAN: "Titan",
        pynvml.NVML_BRAND_NVIDIA_VAPPS: "NVIDIA Virtual Applications",
        pynvml.NVML_BRAND_NVIDIA_VPC: "NVIDIA Virtual PC",
        pynvml.NVML_BRAND_NVIDIA_VCS: "NVIDIA Virtual Compute Server",
        pynvml.NVML_BRAND_NVIDIA_VWS: "NVIDIA RTX Virtual Workstation",
        pynvml.NVML_BRAND_NVIDIA_CLOUD_GAMING: "NVIDIA Cloud Gaming",
        pynvml.NVML_BRAND_QUADRO_RTX: "Quadro RTX",
        pynvml.NVML_BRAND_NVIDIA_RTX: "NVIDIA RTX",
        pynvml.NVML_BRAND_NVIDIA: "NVIDIA",
        pynvml.NVML_BRAND_GEFORCE_RTX: "GeForce RTX",
        pynvml.NVML_BRAND_TITAN_RTX: "Titan RTX",
    }
)

_CONSTANTS: Final = (
    _Attribute("vbios_version", "nvmlDeviceGetVbiosVersion", _plain),
    _Attribute("serial", "nvmlDeviceGetSerial", _plain),
    _Attribute("inforom_version", "nvmlDeviceGetInforomImageVersion", _plain),
    _Attribute("brand", "nvmlDeviceGetBrand", _words(_BRANDS)),
    _Attribute(
        "compute_capability",
        "nvmlDeviceGetCudaComputeCapability",
        lambda answer: f"{answer[0]}.{answer[1]}",
    ),
    _Attribute("cores", "nvmlDeviceGetNumGpuCores", _number),
    _Attribute("minor_number", "nvmlDeviceGetMinorNumber", _number),
    _Attribute("module_id", "nvmlDeviceGetModuleId", _number),
    _Attribute("numa_node_id", "nvmlDeviceGetNumaNodeId", _number),
    _Attribute(
        "virtualization_mode", "nvmlDeviceGetVirtualizationMode", _words(_VIRTUALIZATION_MODES)
    ),
    _Attribute("ecc_mode", "nvmlDeviceGetEccMode", _current),
    _Attribute("mig_mode", "nvmlDeviceGetMigMode", _current),
)
"""Nothing of this changes without a reset or another opening of NVML."""
_MODES: Final = (
    _Attribute("persistence_mode", "nvmlDeviceGetPersistenceMode", _words(_SWITCH)),
    _Attribute("compute_mode", "nvmlDeviceGetComputeMode", _words(_COMPUTE_MODES)),
)


def ask_constants(ask: Ask, handle: Any) -> dict[str, str]:
    """What stays as it is; a question without an answer is left out."""
    return _answers(_CONSTANTS, ask, handle)


def ask_modes(ask: Ask, handle: Any) -> dict[str, str]:
    """What an operator may change at any time."""
    return _answers(_MODES, ask, handle)


def _answers(attributes: tuple[_Attribute, ...], ask: Ask, handle: Any) -> dict[str, str]:
    answers = ((attribute, ask(attribute.call, handle)) for attribute in attributes)
    return {
        attribute.name: text
        for attribute, answer in answers
        if answer is not None and (text := attribute.text(answer)) is not None
    }
