"""NVLinks: state and counters of each link, traffic over all, and fabric registration."""

from collections.abc import Mapping, Sequence
from ctypes import Structure, byref, c_uint, c_uint8, c_uint32, sizeof
from typing import Any, Final

import pynvml
from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.values import Missing, Nvlink, Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector, NvmlRate
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import FieldKey, NvmlFailure
from rightsizer.telemetry.nvml.nvlink_wiring import link_is_up
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_ROW: Final = 6


class NvlinkFieldScheme(Struct, frozen=True):
    """One way to read a fact: the sum of some fields of each link."""

    keys: Mapping[int, tuple[FieldKey, ...]]
    """Fields by link number; links not listed cannot be read this way."""
    scale: float = 1.0

    def value(self, link: int, answers: Mapping[FieldKey, Any]) -> float | None:
        """Return the fact in base units, or `None` if missing."""
        total = 0.0
        for key in self.keys.get(link, ()):
            answer = answers[key]
            if isinstance(answer, NvmlFailure):
                return None
            total += answer
        return total * self.scale if link in self.keys else None

    def is_refused(self, link: int, answers: Mapping[FieldKey, Any]) -> bool:
        """Whether reading the link this way again is pointless."""
        link_answers = [answers[key] for key in self.keys.get(link, ())]
        return not link_answers or any(
            isinstance(answer, NvmlFailure) and answer.is_unsupported for answer in link_answers
        )


def _scoped(field: int, scale: float = 1.0) -> NvlinkFieldScheme:
    links = range(pynvml.NVML_NVLINK_MAX_LINKS)
    return NvlinkFieldScheme({link: ((field, link),) for link in links}, scale)


def _numbered(*fields: str, scale: float = 1.0) -> NvlinkFieldScheme:
    """Older fields with a number for each of the first twelve links, in two rows."""
    rows = [
        [getattr(pynvml, f"NVML_FI_DEV_NVLINK_{field}_L{first}") for first in (0, _ROW)]
        for field in fields
    ]
    return NvlinkFieldScheme(
        {link: tuple(row[link // _ROW] + link % _ROW for row in rows) for link in range(2 * _ROW)},
        scale,
    )


_MEGABYTE: Final = 1e6
_KIBIBYTE: Final = 2.0**10
_RECEIVED: Final = pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX
_TRANSMITTED: Final = pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX

_STATE: Final = "state"
_ERRORS: Final = ("crc_errors", "replay_errors", "recovery_errors")
LINK_FACTS: Final[Mapping[str, tuple[NvlinkFieldScheme, ...]]] = {
    _STATE: (_scoped(pynvml.NVML_FI_DEV_NVLINK_GET_STATE),),
    "bytes_per_second": (
        _scoped(pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, _MEGABYTE),
        _numbered("SPEED_MBPS", scale=_MEGABYTE),
    ),
    "receive_bytes": (_scoped(_RECEIVED, _KIBIBYTE), _scoped(204)),
    "transmit_bytes": (_scoped(_TRANSMITTED, _KIBIBYTE), _scoped(202)),
    "crc_errors": (
        _scoped(pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC),
        _scoped(208),
        _numbered("CRC_FLIT_ERROR_COUNT", "CRC_DATA_ERROR_COUNT"),
    ),
    "replay_errors": (
        _scoped(pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY),
        _numbered("REPLAY_ERROR_COUNT"),
    ),
    "recovery_errors": (
        _scoped(pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY),
        _scoped(215),
        _numbered("RECOVERY_ERROR_COUNT"),
    ),
}
"""Ways to read the state and each fact of `Nvlink`, best first."""

_SIGNALS: Final = (Signal.NVLINK_LINKS, Signal.NVLINK_LINKS_UP, Signal.NVLINK_ERRORS)
_CALL: Final = "nvmlDeviceGetFieldValues"
_NO_LINK: Final = NvmlFailure(Missing.NOT_SUPPORTED, _CALL, "no NVLink leads anywhere")
_NO_ERRORS: Final = NvmlFailure(Missing.NOT_SUPPORTED, _CALL, "errors of NVLinks are not counted")
_NO_ADDRESS: Final = "ffffffff:"
_GENERATIONS: Final[Mapping[Any, int]] = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5, 8: 6}


class _Links:
    """Links of one device, and the field scheme that its driver supports for each fact."""

    def __init__(self, handle: DeviceHandle) -> None:
        self._handle = handle
        self._ways: dict[str, tuple[NvlinkFieldScheme, ...]] = {}
        self._retries = -1
        self._keys: list[FieldKey] = []
        self._errors: dict[int, float] = {}

    def read(self) -> tuple[Nvlink, ...] | NvmlFailure:
        numbers = self._handle.target.wiring.links
        if self._retries != self._handle.retries:
            self._retries = self._handle.retries
            self._ways = dict(LINK_FACTS)
            self._keys = []
        self._keys = self._keys or [
            key
            for ways in self._ways.values()
            for way in ways
            for number in numbers
            for key in way.keys.get(number, ())
        ]
        answers = self._handle.ask_fields(self._keys)
        up: dict[int, bool] = {}
        for number in numbers:
            state = self._state(number, answers)
            if isinstance(state, NvmlFailure):
                return state
            up[number] = link_is_up(state)
        running = [number for number in numbers if up[number]]
        answered = {fact: self._read_fact(fact, running, answers) for fact in self._ways}
        return tuple(
            self._link(number, answered) if up[number] else Nvlink(number, is_up=False)
            for number in numbers
        )

    @property
    def errors(self) -> float | None:
        """Errors over all links; a link that is down counts with its last value."""
        return sum(self._errors.values()) if self._errors else None

    def _state(self, number: int, answers: Mapping[FieldKey, Any]) -> Any:
        for way in self._ways[_STATE]:
            state = way.value(number, answers)
            if state is not None:
                return int(state)
        return self._handle.ask("nvmlDeviceGetNvLinkState", number)

    def _read_fact(
        self, fact: str, up: Sequence[int], answers: Mapping[FieldKey, Any]
    ) -> Mapping[int, float | None]:
        """Return a fact of each link that is up, and keep the scheme that gave it."""
        offered = []
        for way in self._ways[fact]:
            values = {number: way.value(number, answers) for number in up}
            if any(value is not None for value in values.values()):
                self._keep(fact, (way,))
                return values
            if not up or not all(way.is_refused(number, answers) for number in up):
                offered.append(way)
        self._keep(fact, tuple(offered))
        return {}

    def _keep(self, fact: str, ways: tuple[NvlinkFieldScheme, ...]) -> None:
        if len(ways) < len(self._ways[fact]):
            self._ways[fact] = ways
            self._keys = []

    def _link(self, number: int, answered: Mapping[str, Mapping[int, float | None]]) -> Nvlink:
        facts: dict[str, Any] = {
            name: answered[name].get(number) for name in answered if name != _STATE
        }
        counts = {name: int(facts[name]) for name in _ERRORS if facts[name] is not None}
        if counts:
            self._errors[number] = sum(counts.values())
        address, leads_to_switch = self._remote(number)
        version = self._handle.ask_once("nvmlDeviceGetNvLinkVersion", number)
        return Nvlink(
            number,
            is_up=True,
            generation=_GENERATIONS.get(version),
            remote_pci_bus_id=address,
            leads_to_switch=leads_to_switch,
            **{**facts, **counts, "bytes_per_second": facts["bytes_per_second"] or None},
        )

    def _remote(self, number: int) -> tuple[str | None, bool]:
        """Return the PCI address of the other end, and whether that is a switch."""
        kind = self._handle.ask_once("nvmlDeviceGetNvLinkRemoteDeviceType", number)
        if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            return None, True
        info = self._handle.ask_once("nvmlDeviceGetNvLinkRemotePciInfo", number)
        if isinstance(info, NvmlFailure):
            return None, False
        address = str(info.busId).lower()
        return (None, True) if address.startswith(_NO_ADDRESS) else (address, False)


def _read(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    links = handle.hold(_Links)
    readings = links.read() if handle.target.wiring.links else _NO_LINK
    if isinstance(readings, NvmlFailure):
        builder.fail_all(_SIGNALS, readings)
        return
    builder.nvlinks = readings
    builder.put(Signal.NVLINK_LINKS, len(readings))
    builder.put(Signal.NVLINK_LINKS_UP, sum(link.is_up for link in readings))
    builder.put(Signal.NVLINK_ERRORS, _NO_ERRORS if links.errors is None else links.errors)


_ALL_LINKS: Final = 0xFFFFFFFF
_RATES: Final = NvmlCollector.of(
    "nvlink_throughput",
    NvmlRate(Signal.NVLINK_RECEIVE_BYTES_PER_SECOND, (_RECEIVED, _ALL_LINKS), _KIBIBYTE),
    NvmlRate(Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND, (_TRANSMITTED, _ALL_LINKS), _KIBIBYTE),
    part_of="nvlink",
)


def _read_throughput(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    wiring = handle.target.wiring
    if wiring.count is not None and not wiring.links:
        builder.fail_all(_RATES.signals, _NO_LINK)
    else:
        _RATES.read(handle, builder)


NVLINK: Final = NvmlCollector("nvlink", _SIGNALS, _read, attributes=("nvlinks",), is_slow=True)
# Counters of the driver, for boards without GPM.
NVLINK_THROUGHPUT: Final = replace(_RATES, read=_read_throughput)

_FABRIC: Final = "nvmlDeviceGetGpuFabricInfoV"
_FORMER_FABRIC: Final = "nvmlDeviceGetGpuFabricInfo"
_UUID_BYTES: Final = 16
_REGISTRATION: Final = (
    ("clusterUuid", c_uint8 * _UUID_BYTES),
    ("status", c_uint),
    ("cliqueId", c_uint32),
    ("state", c_uint),
)


class _Info(Structure):
    """NVML's version 2 of the structure; in the oldest supported bindings it is too long."""

    _fields_ = (("version", c_uint), *_REGISTRATION, ("healthMask", c_uint32))


class _FormerInfo(Structure):
    """NVML's version 1."""

    _fields_ = _REGISTRATION


_NO_FABRIC: Final = NvmlFailure(Missing.NOT_SUPPORTED, _FABRIC, "the GPU is in no fabric")


class _Registration:
    """Structures that the driver fills in, allocated once for each device."""

    def __init__(self, handle: DeviceHandle) -> None:
        self._handle = handle
        info = _Info(version=2 << 24 | sizeof(_Info))
        former = _FormerInfo()
        self._forms = ((_FABRIC, info, byref(info)), (_FORMER_FABRIC, former, byref(former)))
        self._is_absent = False

    def state(self) -> int | NvmlFailure:
        for call, info, reference in () if self._is_absent else self._forms:
            answer = self._handle.ask(call, reference)
            if not isinstance(answer, NvmlFailure):
                if info.state == pynvml.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED:
                    self._is_absent = True
                    break
                return _judged(info.state, info.status)
            if not answer.is_unsupported:
                return answer
        return _NO_FABRIC


def _judged(state: int, status: int) -> int | NvmlFailure:
    """A failed registration is reported as completed too, with the failure in its status."""
    if state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED and status != pynvml.NVML_SUCCESS:
        detail = f"joining the fabric failed with code {status}"
        return NvmlFailure(Missing.FAILED, _FABRIC, detail)
    return state


FABRIC: Final = NvmlCollector(
    "fabric",
    (Signal.FABRIC_STATE,),
    lambda handle, builder: builder.put(Signal.FABRIC_STATE, handle.hold(_Registration).state()),
    is_slow=True,
    part_of="nvlink",
)
