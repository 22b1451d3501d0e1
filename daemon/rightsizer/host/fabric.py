"""InfiniBand and RoCE ports in sysfs, and throughput of those nearest to a GPU."""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.host.cache import RefreshingCache
from rightsizer.host.files import link_name, read_integer, read_line, read_names
from rightsizer.host.numa_locality import read_distances
from rightsizer.host.pcie import kernel_address
from rightsizer.host.rates import CounterMeter, MonotonicCounter
from rightsizer.host.settings import HostSettings
from rightsizer.model.values import FabricPort, Nanoseconds, Placement, Signal, nanoseconds, seconds

_RATE: Final = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")
_BYTES_PER_GIGABIT: Final = 1e9 / 8
_WORD_BYTES: Final = 4
"""InfiniBand counts words (IBTA, PortCounters: PortXmitData, PortRcvData)."""

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
"""Errors on the wire and retransmissions."""
_DIRECTIONS: Final = (
    (Signal.INFINIBAND_RECEIVE_BYTES_PER_SECOND, Signal.INFINIBAND_RECEIVE),
    (Signal.INFINIBAND_TRANSMIT_BYTES_PER_SECOND, Signal.INFINIBAND_TRANSMIT),
)
_FabricPoll: TypeAlias = tuple[Nanoseconds, tuple[FabricPort, ...]]
"""All ports at one time."""


class LocatedPort(Struct, frozen=True):
    """Port without its counters, its directory, and the PCIe bridges above its adapter."""

    port: FabricPort
    folder: str
    bridges: tuple[str, ...] = ()
    wire: str = ""
    """Physical port, whose rate it shares with the virtual functions of its adapter."""


def _located(top: str) -> Iterator[LocatedPort]:
    for adapter in sorted(read_names(top)):
        device = str(Path(top, adapter, "device").resolve())
        path = [part.lower() for part in device.split("/") if kernel_address(part)]
        node = read_integer(f"{device}/numa_node")
        physical = link_name(f"{device}/physfn") or "".join(path[-1:]) or adapter
        for name in sorted(read_names(f"{top}/{adapter}/ports")):
            if not name.isdecimal():
                continue
            folder = f"{top}/{adapter}/ports/{name}"
            state = read_line(f"{folder}/state").rpartition(":")[2].strip()
            # For example `400 Gb/sec (4X NDR)`.
            rate = _RATE.match(read_line(f"{folder}/rate"))
            port = FabricPort(
                adapter=adapter,
                number=int(name),
                link_layer=read_line(f"{folder}/link_layer"),
                is_active=state == "ACTIVE",
                state=state,
                pci_bus_id=path[-1] if path else None,
                numa_node=node if node is not None and node >= 0 else None,
                rate_bytes_per_second=float(rate[1]) * _BYTES_PER_GIGABIT if rate else None,
            )
            yield LocatedPort(port, folder, tuple(path[:-1]), f"{physical}/{name}")


def _bytes(folder: str, words_name: str, bytes_name: str) -> float | None:
    count = read_integer(f"{folder}/counters/{words_name}")
    if count is not None:
        return float(count * _WORD_BYTES)
    # Adapters other than InfiniBand, e.g. of a cloud provider.
    return _number(f"{folder}/hw_counters/{bytes_name}")


def _number(path: str) -> float | None:
    count = read_integer(path)
    return None if count is None else float(count)


def _errors(folder: str) -> Mapping[str, float]:
    """Error counters of a port by the kernel's names, as far as the adapter has them."""
    counts = {name.rpartition("/")[2]: _number(f"{folder}/{name}") for name in _ERRORS}
    return {name: count for name, count in counts.items() if count is not None}


class FabricPortReader:
    """Reads each port once per pass, and slowly changing data less often.

    State and errors require a query to the adapter's firmware, which is slower than byte counters.
    """

    def __init__(self, sysfs: str, settings: HostSettings) -> None:
        self._sysfs = sysfs
        self._distances = read_distances(Path(sysfs))
        shortest = nanoseconds(settings.shortest_seconds)
        recheck = nanoseconds(settings.recheck_interval_seconds)
        forget_after = nanoseconds(settings.forget_after_seconds)
        self._located = RefreshingCache[None, tuple[LocatedPort, ...]](recheck, forget_after)
        self._errors = RefreshingCache[str, Mapping[str, float]](recheck, forget_after)
        self._ports = RefreshingCache[None, _FabricPoll](shortest, forget_after)
        self._meter = CounterMeter[tuple[Signal, str]](shortest)

    def ports(self, now: Nanoseconds) -> tuple[FabricPort, ...]:
        """All ports with their counters."""
        return self._pass(now)[1]

    def near(self, place: Placement, now: Nanoseconds) -> Mapping[Signal, float]:
        """Total throughput of the active ports nearest to a GPU."""
        time, last = self._pass(now)
        if not last:
            return {}
        ports = {port.name: port for port in last if port.is_active}
        rates = self._meter.update(time, lambda: _counters(last, time))
        located = [port for port in self._all(now) if port.port.name in ports]
        chosen = nearest(located, place, self._distances)
        signals: dict[Signal, float] = {}
        for throughput, ratio in _DIRECTIONS:
            measured = [port for port in chosen if (throughput, port.port.name) in rates]
            if not measured:
                continue
            signals[throughput] = sum(rates[throughput, port.port.name] for port in measured)
            limits = {port.wire: port.port.rate_bytes_per_second for port in measured}
            known_limits = [limit for limit in limits.values() if limit]
            if len(known_limits) == len(limits):
                signals[ratio] = min(1.0, signals[throughput] / sum(known_limits))
        return signals

    def _all(self, now: Nanoseconds) -> tuple[LocatedPort, ...]:
        top = f"{self._sysfs}/class/infiniband"
        return self._located.get(None, now, lambda: tuple(_located(top)))

    def _pass(self, now: Nanoseconds) -> _FabricPoll:
        return self._ports.get(
            None, now, lambda: (now, tuple(self._read(port, now) for port in self._all(now)))
        )

    def _read(self, located: LocatedPort, now: Nanoseconds) -> FabricPort:
        """Port with its present counters; unsupported ones are missing."""
        folder = located.folder
        return replace(
            located.port,
            receive_bytes=_bytes(folder, "port_rcv_data", "rx_bytes"),
            transmit_bytes=_bytes(folder, "port_xmit_data", "tx_bytes"),
            transmit_wait=_number(f"{folder}/counters/port_xmit_wait"),
            errors=self._errors.get(folder, now, lambda: _errors(folder)),
        )


def nearest(
    ports: Collection[LocatedPort], place: Placement, distances: Mapping[tuple[int, int], int]
) -> list[LocatedPort]:
    """Ports with the most PCIe bridges in common with a GPU, else those of the nearest NUMA node.

    If neither distinguishes them, all ports are equally near. A socket may be several nodes, some
    of them without a port (NPS4 of AMD, sub-NUMA clusters of Intel).
    """
    above = {kernel_address(bridge.pci_bus_id) for bridge in place.bridges}

    def rank(located: LocatedPort) -> tuple[int, float]:
        here = place.numa_node
        there = located.port.numa_node
        distance = math.inf
        if here is not None and there is not None:
            distance = 0 if here == there else distances.get((here, there), math.inf)
        return len(above.intersection(map(kernel_address, located.bridges))), -distance

    best = max(map(rank, ports), default=None)
    return [located for located in ports if rank(located) == best]


def _counters(
    ports: Collection[FabricPort], now: Nanoseconds
) -> dict[tuple[Signal, str], MonotonicCounter]:
    return {
        (signal, port.name): MonotonicCounter(count, seconds(now))
        for port in ports
        for (signal, _), count in zip(
            _DIRECTIONS, (port.receive_bytes, port.transmit_bytes), strict=True
        )
        if count is not None
    }
