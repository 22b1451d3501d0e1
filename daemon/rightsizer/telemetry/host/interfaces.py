"""Network interfaces and what passes through them, each byte once."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.units import seconds as in_seconds
from rightsizer.telemetry.host.counter import Counter
from rightsizer.telemetry.host.text import links_to, names_in, read, words

__all__ = ["interface_counters", "is_outward", "node_interfaces_text", "physical_interfaces"]

_RECEIVED: Final = 0
_TRANSMITTED: Final = 8
_REPRESENTOR: Final = re.compile(r"(?:c\d+)?pf\d+.*")
"""Stands on the host for a function of the adapter that somebody else uses."""
_VIRTUAL: Final = re.compile(
    r"(?:lo|veth|br[-\d]|docker|cni|cali|lxc|tun|tap|wg|sit|gre|erspan|ip6|dummy|ifb|vxlan|geneve|flannel"
    r"|cilium|virbr|vnet|bond|team|nodelocaldns|kube)"
)
"""By their usual names, where sysfs does not show them: those of another namespace."""


def physical_interfaces(sysfs: str) -> frozenset[str]:
    """Interfaces with hardware behind them that no other such interface already counts."""
    top = f"{sysfs}/class/net"
    found = {name for name in names_in(top) if Path(top, name, "device").is_symlink()}
    return frozenset(name for name in found if not _is_counted_elsewhere(f"{top}/{name}", found))


def _is_counted_elsewhere(folder: str, physical: set[str]) -> bool:
    # A virtual machine's fast path, below an interface that has hardware of its own.
    master = Path(links_to(f"{folder}/master") or "").name
    if master in physical:
        return True
    return _REPRESENTOR.fullmatch(words(f"{folder}/phys_port_name")) is not None


def is_outward(name: str) -> bool:
    """Whether an interface of a container leads out of it, as far as its name tells."""
    return _VIRTUAL.match(name) is None


def interface_counters(
    text: str | None, is_counted: Callable[[str], bool], now: Nanoseconds
) -> Mapping[tuple[Signal, str], Counter]:
    """Bytes received and transmitted, interface by interface, of a `net/dev`."""
    time, counters = in_seconds(now), dict[tuple[Signal, str], Counter]()
    for line in (text or "").splitlines():
        # The interface's own name may hold colons.
        name, colon, rest = line.rpartition(":")
        name = name.strip()
        fields = rest.split()
        if not colon or len(fields) <= _TRANSMITTED or not is_counted(name):
            continue
        try:
            received, transmitted = int(fields[_RECEIVED]), int(fields[_TRANSMITTED])
        except ValueError:
            continue
        counters[Signal.NETWORK_RECEIVE_BYTES_PER_SECOND, name] = Counter(received, time)
        counters[Signal.NETWORK_TRANSMIT_BYTES_PER_SECOND, name] = Counter(transmitted, time)
    return counters


def node_interfaces_text(procfs: str) -> str | None:
    """The interfaces of the host's first process: our own may be a container's."""
    return read(f"{procfs}/1/net/dev") or read(f"{procfs}/net/dev")
