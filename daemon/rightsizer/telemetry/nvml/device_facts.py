"""Static facts of GPUs and MIG instances from driver, sysfs and catalogue; versions and modes."""

import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import pynvml
from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue, mig_profile_of, on_board
from rightsizer.host.files import read_integer
from rightsizer.host.pcie import kernel_address
from rightsizer.model.values import BY_ADDRESS, BY_INDEX, Device, MigInstance, Signal
from rightsizer.telemetry.nvml.library import NvmlFailure, NvmlLibrary, is_blank
from rightsizer.telemetry.nvml.nvlink_wiring import NvlinkWiring, NvlinkWiringReader
from rightsizer.telemetry.nvml.reading_builder import is_possible

N = TypeVar("N", int, float)
_Text = Callable[[Any], str | None]
_PROFILE: Final = re.compile(r"\bMIG (\S+)$")
_COMPUTE_INSTANCE: Final = re.compile(r"^\d+c\.")
_PROFILE_COUNT: Final = pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT
_size_of_profile: Final = attrgetter(
    "sliceCount", "memorySizeMB", "decoderCount", "jpegCount", "ofaCount"
)
_size_of_instance: Final = attrgetter(
    "gpuInstanceSliceCount",
    "memorySizeMB",
    "sharedDecoderCount",
    "sharedJpegCount",
    "sharedOfaCount",
)


def _words(*words: str, first: int = 0) -> _Text:
    """Names of NVML's constants, counted from `first`; they never change (nvml.h)."""
    named = dict(enumerate(words, first))
    return lambda answer: named.get(int(answer))


def _plain(answer: Any) -> str | None:
    """A text; boards without the fact report placeholders."""
    text = str(answer).strip()
    return None if text.strip("[]").upper() in _PLACEHOLDERS else text


def _current(answer: Any) -> str | None:
    """Current mode, of a pair of current and pending mode."""
    return _switch(answer[0])


def _number(answer: Any) -> str | None:
    """A number; the driver reports absence as -1."""
    return str(answer) if 0 <= answer < _BLANK else None


_BLANK: Final = 2**32 - 1
_PLACEHOLDERS: Final = frozenset({"", "0", "N/A", "UNKNOWN", "NOT SUPPORTED"})
_switch: Final = _words("disabled", "enabled")
_compute_mode: Final = _words("default", "exclusive_thread", "prohibited", "exclusive_process")
_virtualization_mode: Final = _words("none", "passthrough", "vgpu", "host_vgpu", "host_vsga")
_brand: Final = _words(
    "Quadro",
    "Tesla",
    "NVS",
    "GRID",
    "GeForce",
    "Titan",
    "NVIDIA Virtual Applications",
    "NVIDIA Virtual PC",
    "NVIDIA Virtual Compute Server",
    "NVIDIA RTX Virtual Workstation",
    "NVIDIA Cloud Gaming",
    "Quadro RTX",
    "NVIDIA RTX",
    "NVIDIA",
    "GeForce RTX",
    "Titan RTX",
    first=1,
)
_architecture: Final = _words(
    "Kepler",
    "Maxwell",
    "Pascal",
    "Volta",
    "Turing",
    "Ampere",
    "Ada",
    "Hopper",
    "Blackwell",
    first=2,
)
_CONSTANTS: Final[Mapping[str, tuple[str, _Text]]] = {
    "vbios_version": ("nvmlDeviceGetVbiosVersion", _plain),
    "serial": ("nvmlDeviceGetSerial", _plain),
    "inforom_version": ("nvmlDeviceGetInforomImageVersion", _plain),
    "brand": ("nvmlDeviceGetBrand", _brand),
    "compute_capability": ("nvmlDeviceGetCudaComputeCapability", "{0[0]}.{0[1]}".format),
    "cores": ("nvmlDeviceGetNumGpuCores", _number),
    "minor_number": ("nvmlDeviceGetMinorNumber", _number),
    "module_id": ("nvmlDeviceGetModuleId", _number),
    "numa_node_id": ("nvmlDeviceGetNumaNodeId", _number),
    "virtualization_mode": ("nvmlDeviceGetVirtualizationMode", _virtualization_mode),
    "ecc_mode": ("nvmlDeviceGetEccMode", _current),
    "mig_mode": ("nvmlDeviceGetMigMode", _current),
}
"""Calls and converters by fact; values change only with a reset or another opening of NVML."""
_MODES: Final[Mapping[str, tuple[str, _Text]]] = {
    "persistence_mode": ("nvmlDeviceGetPersistenceMode", _switch),
    "compute_mode": ("nvmlDeviceGetComputeMode", _compute_mode),
}

_LINKED_FORMS: Final = ("SXM", "NVL")
"""Form factors whose NVLinks are all connected; PCIe cards need a bridge."""
_SLOWDOWN: Final = pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
_SHUTDOWN: Final = pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN
_LOWEST_THRESHOLD = 50
_HIGHEST_THRESHOLD = 130
"""Plausible thresholds in degrees Celsius; newer boards answer with margins, or not at all."""


class DeviceFactsReader(Struct, frozen=True):
    """Reader of static facts from driver, sysfs and catalogue."""

    library: NvmlLibrary
    catalogue: Catalogue
    sysfs: Path
    nvlinks: NvlinkWiringReader
    uuids: dict[str, str] = {}
    """By PCI address, as last reported: a GPU keeps its identity if the driver stops answering."""
    duplicates: dict[str, str] = {}
    """Uuids of other GPUs, by the address of a GPU that goes by it as long as it reports one."""
    identified: set[int] = set()
    failures: list[NvmlFailure] = []
    """Failures that may pass, since it was last cleared."""
    incomplete: set[str] = set()
    """Uuids of GPUs some of whose static facts could not be read."""

    def uuid(self, handle: Any, pci_bus_id: str | None, index: int) -> str:
        """Return the GPU's uuid; if it never reported one of its own, its address or index."""
        uuid = self.ask("nvmlDeviceGetUUID", handle) or ""
        if not (uuid.isascii() and uuid.isprintable()):
            uuid = ""  # Garbage may be another one next time.
        address = kernel_address(pci_bus_id)
        placeholder = f"{BY_INDEX}{index}" if address is None else f"{BY_ADDRESS}{address}"
        if uuid:
            self.identified.add(index)
        if pci_bus_id is None:
            return uuid or placeholder
        other = self.duplicates.get(pci_bus_id)
        if other is not None and uuid in {"", other}:
            return placeholder
        if uuid:
            self.uuids[pci_bus_id] = uuid
        return self.uuids.get(pci_bus_id, placeholder)

    def ask(self, name: str, handle: Any, *arguments: Any) -> Any:
        """Return the driver's answer for a device, text without control characters, or `None`."""
        answer = self.library.ask(name, handle, *arguments)
        if isinstance(answer, str) and not answer.isprintable():
            return "".join(
                character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
                for character in answer
            )
        if not isinstance(answer, NvmlFailure):
            return answer
        if not answer.is_unsupported:
            self.failures.append(answer)
        return None

    def texts(self, calls: Mapping[str, tuple[str, _Text]], handle: Any) -> dict[str, str]:
        """Return facts as text by name; failures are left out."""
        answers = ((name, text, self.ask(call, handle)) for name, (call, text) in calls.items())
        return {
            name: fact
            for name, text, answer in answers
            if answer is not None and (fact := text(answer)) is not None
        }

    def memory_total_bytes(self, handle: Any) -> float | None:
        """Framebuffer size of a GPU or an instance."""
        memory = self.ask("nvmlDeviceGetMemoryInfo", handle)
        return _possible(Signal.MEMORY_TOTAL_BYTES, memory and float(memory.total))

    def numa_node(self, pci_bus_id: str | None) -> int | None:
        """NUMA node of a PCI device by the kernel, which writes -1 for unknown."""
        folder = self.sysfs / "bus/pci/devices" / (kernel_address(pci_bus_id) or "none")
        node = read_integer(folder / "numa_node")
        return node if node is not None and node >= 0 else None

    def board(self, device: Device) -> Board | None:
        """Return the board's catalogue entry, or `None`."""
        return None if device.board is None else self.catalogue.boards[device.board]

    def wiring(self, handle: Any, device: Device, *, is_alone: bool) -> NvlinkWiring:
        """Return the connected NVLinks of a GPU; a GPU alone on its node has no fixed ones."""
        board = self.board(device)
        return self.nvlinks.read(
            device.uuid,
            handle,
            is_fixed=board is not None
            and board.form_factor.startswith(_LINKED_FORMS)
            and not is_alone,
            board_bytes_per_second=None if board is None else board.nvlink_bytes_per_second,
        )

    def threshold_celsius(self, handle: Any, threshold: int) -> float | None:
        """Return the temperature of a hardware threshold, or `None` if implausible."""
        celsius = self.ask("nvmlDeviceGetTemperatureThreshold", handle, threshold)
        is_plausible = celsius is not None and _LOWEST_THRESHOLD <= celsius <= _HIGHEST_THRESHOLD
        return float(celsius) if is_plausible else None


def describe_known(facts: DeviceFactsReader, handle: Any, known_device: Device) -> Device:
    """Return the static facts of a GPU; read them again if some could not be read before."""
    if known_device.uuid not in facts.incomplete:
        return known_device
    device = describe_gpu(
        facts, handle, known_device.index, known_device.uuid, known_device.pci_bus_id
    )
    return known_device if known_device.name and known_device.uuid in facts.incomplete else device


def describe_gpu(
    facts: DeviceFactsReader, handle: Any, index: int, uuid: str, pci_bus_id: str | None
) -> Device:
    """Read the static facts of a physical GPU."""
    facts.failures.clear()
    name = facts.ask("nvmlDeviceGetName", handle) or ""
    architecture = facts.ask("nvmlDeviceGetArchitecture", handle)
    power_limit = facts.ask("nvmlDeviceGetPowerManagementDefaultLimit", handle)
    lowest, highest = facts.ask("nvmlDeviceGetPowerManagementLimitConstraints", handle) or (0, 0)
    sm_clock = facts.ask("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_SM)
    generation = facts.ask("nvmlDeviceGetMaxPcieLinkGeneration", handle)
    width = facts.ask("nvmlDeviceGetMaxPcieLinkWidth", handle)
    device = Device(
        uuid=uuid,
        index=index,
        name=name,
        architecture=None if architecture is None else _architecture(architecture),
        pci_bus_id=pci_bus_id,
        numa_node=facts.numa_node(pci_bus_id),
        memory_total_bytes=facts.memory_total_bytes(handle),
        power_limit_watts=_watts(power_limit),
        power_limit_minimum_watts=_watts(lowest),
        power_limit_maximum_watts=_watts(highest),
        temperature_slowdown_celsius=facts.threshold_celsius(handle, _SLOWDOWN),
        temperature_shutdown_celsius=facts.threshold_celsius(handle, _SHUTDOWN),
        sm_clock_maximum_hertz=_possible(Signal.SM_CLOCK_MAXIMUM_HERTZ, (sm_clock or 0) * 1e6),
        pcie_generation_maximum=_possible(Signal.PCIE_LINK_GENERATION, generation),
        pcie_width_maximum=_possible(Signal.PCIE_LINK_WIDTH, width),
        facts=facts.texts(_CONSTANTS, handle),
    )
    (facts.incomplete.add if facts.failures else facts.incomplete.discard)(uuid)
    board = facts.catalogue.find(name)
    return device if board is None else on_board(device, board)


def with_modes(
    facts: DeviceFactsReader, handle: Any, device: Device, wiring: NvlinkWiring
) -> Device:
    """Update what may change while NVML is open: modes, and the rate of the NVLinks that are up."""
    carried = wiring.bytes_per_second
    board = facts.board(device)
    leads_nowhere = wiring.count is not None and not wiring.links
    if carried is None and board is not None and not leads_nowhere:
        # Not reported by the driver.
        carried = board.nvlink_bytes_per_second or None
    texts = {**device.facts, **facts.texts(_MODES, handle)}
    return replace(device, facts=texts, nvlink_bytes_per_second=carried)


def _watts(milliwatts: int | None) -> float | None:
    return _possible(Signal.POWER_LIMIT_WATTS, (milliwatts or 0) / 1e3)


def _possible(signal: Signal, value: N | None) -> N | None:
    """Return a fact if it is in its signal's possible range."""
    return None if not value or is_blank(value) or not is_possible(signal, value) else value


class MigParent(Struct, frozen=True):
    """A GPU divided into instances."""

    device: Device
    handle: Any
    slices: int
    """Maximum number of the smallest instances."""


def describe_instance(
    facts: DeviceFactsReader, handle: Any, parent: MigParent, place: int
) -> Device:
    """Read a MIG instance; facts of the whole board (power, PCIe, NVLink) stay unknown."""
    name = str(facts.ask("nvmlDeviceGetName", handle) or "")
    whole = parent.device
    return Device(
        uuid=facts.ask("nvmlDeviceGetUUID", handle) or f"{whole.uuid}/{place}",
        index=whole.index,
        name=name or whole.name,
        board=whole.board,
        architecture=whole.architecture,
        pci_bus_id=whole.pci_bus_id,
        numa_node=whole.numa_node,
        mig=_part(facts, handle, parent, name, place),
        memory_total_bytes=facts.memory_total_bytes(handle),
        sm_clock_maximum_hertz=whole.sm_clock_maximum_hertz,
        achievable_compute_ratio=whole.achievable_compute_ratio,
        achievable_bandwidth_ratio=whole.achievable_bandwidth_ratio,
    )


def _part(
    facts: DeviceFactsReader, handle: Any, parent: MigParent, name: str, place: int
) -> MigInstance:
    instance_id = facts.ask("nvmlDeviceGetGpuInstanceId", handle)
    attributes = facts.ask("nvmlDeviceGetAttributes_v2", handle)
    match = _PROFILE.search(name)
    profile = match.group(1) if match else _profile(facts, parent, instance_id, attributes)
    board = facts.board(parent.device)
    mig_profile = (
        None if board is None else mig_profile_of(board, _COMPUTE_INSTANCE.sub("", profile))
    )
    slices = attributes.computeInstanceSliceCount if attributes is not None else 0
    compute_share = min(1.0, max(slices, 1) / max(parent.slices, 1))
    mine = facts.memory_total_bytes(handle)
    whole = parent.device.memory_total_bytes
    memory_share = min(1.0, mine / whole) if mine and whole else compute_share
    # `1c.3g.40gb` has a third of the compute of its GPU instance `3g.40gb`.
    has_all_compute = not _COMPUTE_INSTANCE.match(profile)
    return MigInstance(
        parent_uuid=parent.device.uuid,
        profile=profile,
        gpu_instance_id=place if instance_id is None else instance_id,
        compute_instance_id=facts.ask("nvmlDeviceGetComputeInstanceId", handle) or 0,
        compute_share=mig_profile.compute_share
        if mig_profile and has_all_compute
        else compute_share,
        memory_share=mig_profile.memory_share if mig_profile else memory_share,
    )


def _profile(
    facts: DeviceFactsReader, parent: MigParent, gpu_instance_id: int | None, attributes: Any
) -> str:
    """Return the profile's name from its GPU's list, if the device's name lacks it.

    Reading an instance's profile takes privileges; without them it is identified by its size.
    """
    profiles = [
        profile
        for number in range(_PROFILE_COUNT)
        if (profile := facts.ask("nvmlDeviceGetGpuInstanceProfileInfo", parent.handle, number))
    ]
    # Without its number another instance might be described.
    by_id = ("nvmlDeviceGetGpuInstanceById", parent.handle, gpu_instance_id)
    instance = None if gpu_instance_id is None else facts.ask(*by_id)
    info = None if instance is None else facts.ask("nvmlGpuInstanceGetInfo", instance)
    if info is not None:
        fitting = [profile for profile in profiles if profile.id == info.profileId]
    else:
        size = None if attributes is None else _size_of_instance(attributes)
        fitting = [profile for profile in profiles if _size_of_profile(profile) == size]
    match = _PROFILE.search(str(fitting[0].name)) if fitting else None
    if match is None:
        return ""
    is_part = (
        attributes is not None
        and attributes.computeInstanceSliceCount < attributes.gpuInstanceSliceCount
    )
    prefix = f"{attributes.computeInstanceSliceCount}c." if is_part else ""
    return prefix + match.group(1)
