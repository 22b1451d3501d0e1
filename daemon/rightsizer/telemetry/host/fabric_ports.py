"""InfiniBand and RoCE ports as sysfs shows them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rightsizer.domain.fabric_port import FabricPort
from rightsizer.telemetry.host.text import names_in, whole_number, words

__all__ = ["LocatedPort", "found_ports", "port_errors", "with_counters"]

_RATE: Final = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")
_BYTES_PER_GIGABIT: Final = 1e9 / 8
_WORD_BYTES: Final = 4
"""InfiniBand counts in words (IBTA, PortCounters: PortXmitData, PortRcvData)."""
_ADDRESS: Final = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)

_ACTIVE: Final = "ACTIVE"

_ERRORS: Final = (
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/link_downed",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "counters/port_rcv_errors",
    "counters/port_rcv_remote_physical_errors",
    "counters/port_rcv_constraint_errors",
    "counters/port_xmit_constraint_errors",
    "counters/port_xmit_discards",
    "counters/VL15_dropped",
    "hw_counters/out_of_sequence",
    "hw_counters/packet_seq_err",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/rnr_nak_retry_err",
    "hw_counters/rx_icrc_encapsulated",
    "hw_counters/roce_adp_retrans_to",
    "hw_counters/req_cqe_error",
    "hw_counters/resp_cqe_error",
)
"""What went wrong on the wire or had to be sent again."""


@dataclass(frozen=True, slots=True)
class LocatedPort:
    """A port, where its files are and which PCIe bridges are above its adapter."""

    port: FabricPort
    folder: str
    bridges: tuple[str, ...] = ()


def found_ports(sysfs: str) -> tuple[LocatedPort, ...]:
    """All ports with what seldom changes of them; their counters are yet to be read."""
    return tuple(_located(f"{sysfs}/class/infiniband"))


def with_counters(located: LocatedPort, errors: Mapping[str, float]) -> FabricPort:
    """The port with its counters as they are now; those that it does not have are absent."""
    folder = located.folder
    return replace(
        located.port,
        receive_bytes=_bytes(folder, "port_rcv_data", "rx_bytes"),
        transmit_bytes=_bytes(folder, "port_xmit_data", "tx_bytes"),
        transmit_wait=_number(f"{folder}/counters/port_xmit_wait"),
        errors=errors,
    )


def port_errors(folder: str) -> Mapping[str, float]:
    """The port's error counters by the kernel's names, those that the adapter has."""
    counts = {name.rpartition("/")[2]: whole_number(f"{folder}/{name}") for name in _ERRORS}
    return {name: float(count) for name, count in counts.items() if count is not None}


def _located(top: str) -> Iterator[LocatedPort]:
    for adapter in names_in(top):
        device = str(Path(top, adapter, "device").resolve())
        path = [part.lower() for part in device.split("/") if _ADDRESS.fullmatch(part)]
        node = whole_number(f"{device}/numa_node")
        for name in names_in(f"{top}/{adapter}/ports"):
            if not name.isdecimal():
                continue
            folder = f"{top}/{adapter}/ports/{name}"
            state = words(f"{folder}/state").rpartition(":")[2].strip()
            port = FabricPort(
                adapter=adapter,
                number=int(name),
                link_layer=words(f"{folder}/link_layer"),
                is_active=state == _ACTIVE,
                state=state,
                pci_bus_id=path[-1] if path else None,
                numa_node=node if node is not None and node >= 0 else None,
                rate_bytes_per_second=_rate(words(f"{folder}/rate")),
            )
            yield LocatedPort(port, folder, tuple(path[:-1]))


def _rate(text: str) -> float | None:
    """Of `400 Gb/sec (4X NDR)`."""
    found = _RATE.match(text)
    return float(found.group(1)) * _BYTES_PER_GIGABIT if found else None


def _bytes(folder: str, words_name: str, bytes_name: str) -> float | None:
    count = whole_number(f"{folder}/counters/{words_name}")
    if count is not None:
        return float(count * _WORD_BYTES)
    # Adapters that are neither InfiniBand nor like it, in a cloud for instance.
    return _number(f"{folder}/hw_counters/{bytes_name}")


def _number(path: str) -> float | None:
    count = whole_number(path)
    return None if count is None else float(count)
