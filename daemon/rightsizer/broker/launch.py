"""Environment of a leased process: identifying tag, GPUs, local CPUs and memory."""

import ctypes
import math
import os
import platform
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from rightsizer.broker.lease import GpuRequest, Lease, LeaseOwner
from rightsizer.host.process_table import ProcessTable
from rightsizer.model.units import MIB, Nanoseconds

LEASE: Final = "RIGHTSIZER_LEASE"
_SEATS: Final = "RIGHTSIZER_LEASE_GPUS"
_SHARED: Final = "RIGHTSIZER_LEASE_SHARED"
_ENDS: Final = "RIGHTSIZER_LEASE_ENDS"
_SOCKET: Final = "RIGHTSIZER_LEASE_SOCKET"
MARKS: Final = (LEASE, _SEATS, _SHARED, _ENDS, _SOCKET)
_PIPES: Final = "CUDA_MPS_PIPE_DIRECTORY"
_USUAL_PIPES: Final = "/tmp/nvidia-mps"  # noqa: S108 - default of NVIDIA's daemon.
_MEMORY_LIMIT: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
_THREADS: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
_DAEMON: Final = "nvidia-cuda-mps"
"""Process name in the kernel, truncated to 15 characters."""
_SET_MEMPOLICY: Final = {"x86_64": 238, "aarch64": 237}
_PREFERRED: Final = 1
_LARGEST_NODE: Final = 1023


class LaunchPlan(Struct, frozen=True):
    """Environment and placement of a process."""

    variables: Mapping[str, str]
    """Added to the inherited environment, with precedence."""
    cpus: frozenset[int] = frozenset()
    """Empty for no change."""
    memory_node: int | None = None


def environment_tags(  # noqa: PLR0913 - all that makes up a lease.
    lease_id: str,
    uuids: Sequence[str],
    memory_bytes: Sequence[float],
    *,
    is_shared: bool,
    ends: Nanoseconds | None,
    socket: str,
) -> dict[str, str]:
    """Environment variables of a lease.

    `memory_bytes` are reserved on each slot; `ends` is CLOCK_BOOTTIME, `None` without a limit; the
    agent's socket distinguishes several agents on a machine.
    """
    slots = zip(uuids, memory_bytes, strict=True)
    return {
        LEASE: lease_id,
        _SEATS: ",".join(f"{uuid}={int(aside)}" for uuid, aside in slots),
        _SHARED: str(int(is_shared)),
        _ENDS: "" if ends is None else str(ends),
        _SOCKET: socket,
    }


def found_leases(
    table: ProcessTable, name_of: Callable[[int], str], socket: str
) -> Iterator[Lease]:
    """Recover an agent's leases from the readable environments of running processes.

    The process becomes the client; the time of the grant is unknown.
    """
    for pid in table.pids():
        marks = table.environment(pid, MARKS)
        if not marks.get(LEASE) or marks.get(_SOCKET) != socket:
            continue
        row = table.row(pid)
        uid = table.user(pid)
        if row is None or uid is None or not row.is_alive:
            continue
        lease = _found(marks, LeaseOwner(uid, name_of(uid), pid, row.started_ticks))
        if lease is not None:
            yield lease


def _found(marks: Mapping[str, str], client: LeaseOwner) -> Lease | None:
    pairs = [seat.partition("=") for seat in marks.get(_SEATS, "").split(",")]
    try:
        asides = tuple(float(aside) for _, _, aside in pairs)
        ends = int(marks[_ENDS]) if marks.get(_ENDS) else None
    except ValueError:
        return None
    if not all(math.isfinite(aside) and aside >= 0 for aside in asides):
        return None
    is_shared = marks.get(_SHARED) == "1"
    return Lease(
        id=marks[LEASE],
        client=client,
        request=GpuRequest(len(pairs), max(asides), is_shared),
        uuids=tuple(uuid for uuid, _, _ in pairs),
        memory_bytes=asides,
        is_shared=is_shared,
        asked=0,
        granted=0,
        ends=ends,
    )


def launch_of(
    lease: Any, environ: Mapping[str, str], allowed: Collection[int], *, has_mps: bool, socket: str
) -> LaunchPlan:
    """Build the launch plan of a lease, as returned by the agent.

    A shared lease gets MPS limits if MPS runs. Its share of threads is twice that of memory, as
    NVIDIA's MPS guide recommends (100 % over half of the clients), so that idle ones can be used by
    others. Inherited MPS variables take precedence.
    """
    uuids = lease["uuids"]
    asides = lease["memory_bytes"]
    variables = {
        "CUDA_VISIBLE_DEVICES": ",".join(uuids),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        **environment_tags(
            lease["id"],
            uuids,
            asides,
            is_shared=lease["is_shared"],
            ends=lease["ends_boottime_ns"],
            socket=socket,
        ),
    }
    if lease["is_shared"] and has_mps:
        variables[_PIPES] = environ.get(_PIPES, _USUAL_PIPES)
        limits = (f"{at}={max(1, int(aside // MIB))}M" for at, aside in enumerate(asides))
        variables[_MEMORY_LIMIT] = ",".join(limits)
        if _THREADS not in environ:
            totals = lease["memory_total_bytes"]
            parts = [aside / all_of for aside, all_of in zip(asides, totals, strict=True) if all_of]
            if parts and len(parts) == len(asides):
                variables[_THREADS] = str(min(100, math.ceil(200 * max(parts))))
    near = frozenset(lease["cpus"]) & frozenset(allowed)
    nodes = lease["numa_nodes"]
    return LaunchPlan(variables, near, nodes[0] if len(nodes) == 1 else None)


def has_mps(environ: Mapping[str, str], procfs: Path) -> bool:
    """Whether NVIDIA's multi-process service runs, by its daemon's pid file."""
    pid_file = Path(environ.get(_PIPES, _USUAL_PIPES)) / "nvidia-cuda-mps-control.pid"
    try:
        pid = int(pid_file.read_text(encoding="ascii"))
        return (procfs / str(pid) / "comm").read_text(errors="replace").startswith(_DAEMON)
    except (OSError, ValueError):
        return False


def bind(launch: LaunchPlan, tell: Callable[[str], None]) -> None:
    """Bind this process and its descendants to CPUs and memory local to its GPUs.

    `tell` receives a message on failure.
    """
    if launch.cpus:
        try:
            os.sched_setaffinity(0, launch.cpus)
        except OSError as error:
            tell(f"not bound to the CPUs near to its GPUs: {error.strerror}")
    if launch.memory_node is not None:
        _prefer(launch.memory_node)


def _prefer(node: int) -> None:
    """Prefer memory of a NUMA node; ignore failures, e.g. in a container."""
    number = _SET_MEMPOLICY.get(platform.machine())
    if number is None or not 0 <= node <= _LARGEST_NODE:
        return
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask = (ctypes.c_ulong * (node // bits + 1))()
    mask[node // bits] = 1 << node % bits
    # The kernel reads one bit less than the given count.
    ctypes.CDLL(None).syscall(number, _PREFERRED, mask, len(mask) * bits + 1)
