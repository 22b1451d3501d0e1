"""Launch of a leased process: environment variables, near CPUs, near memory."""

import ctypes
import os
import platform
from collections.abc import Callable, Collection, Mapping
from math import ceil
from pathlib import Path
from typing import Any, Final

from rightsizer.broker.environment_tag import environment_tags
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import MIB

_PIPES: Final = "CUDA_MPS_PIPE_DIRECTORY"
_USUAL_PIPES: Final = "/tmp/nvidia-mps"  # noqa: S108 - where NVIDIA's daemon has it.
_MEMORY_LIMIT: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
_THREADS: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
_DAEMON: Final = "nvidia-cuda-mps"
"""As the kernel has its name, cut off after 15 characters."""
_SET_MEMPOLICY: Final = {"x86_64": 238, "aarch64": 237}
_PREFERRED: Final = 1
_LARGEST_NODE: Final = 1023


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Environment and placement of a process."""

    variables: Mapping[str, str]
    """In addition to inherited ones, or in their place."""
    cpus: frozenset[int] = frozenset()
    """Empty for no change."""
    memory_node: int | None = None
    """Preferred for memory."""


def launch_of(
    lease: Any, environ: Mapping[str, str], allowed: Collection[int], *, has_mps: bool, socket: str
) -> LaunchPlan:
    """The launch of a lease, as the agent answers it.

    A share gets MPS's limits where MPS runs. Of the threads it gets twice its part of the memory,
    as NVIDIA's guide to MPS advises (100 % over half of the clients), so that others can use idle
    ones. Inherited variables of MPS take precedence.
    """
    uuids, asides = lease["uuids"], lease["memory_bytes"]
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
        variables[_MEMORY_LIMIT] = ",".join(
            f"{at}={max(1, int(aside // MIB))}M" for at, aside in enumerate(asides)
        )
        if _THREADS not in environ:
            totals = lease["memory_total_bytes"]
            parts = [aside / all_of for aside, all_of in zip(asides, totals, strict=True) if all_of]
            if parts and len(parts) == len(asides):
                variables[_THREADS] = str(min(100, ceil(200 * max(parts))))
    near = frozenset(lease["cpus"]) & frozenset(allowed)
    nodes = lease["numa_nodes"]
    return LaunchPlan(variables, near, nodes[0] if len(nodes) == 1 else None)


def has_mps(environ: Mapping[str, str], procfs: Path) -> bool:
    """Whether NVIDIA's multi-process service runs, by the pid file of its daemon."""
    pid_file = Path(environ.get(_PIPES, _USUAL_PIPES)) / "nvidia-cuda-mps-control.pid"
    try:
        pid = int(pid_file.read_text(encoding="ascii"))
        return (procfs / str(pid) / "comm").read_text(errors="replace").startswith(_DAEMON)
    except (OSError, ValueError):
        return False


def bind(launch: LaunchPlan, tell: Callable[[str], None]) -> None:
    """Bind this process and its descendants to CPUs and memory near to its GPUs.

    `tell` gets a line where that fails.
    """
    if launch.cpus:
        try:
            os.sched_setaffinity(0, launch.cpus)
        except OSError as error:
            tell(f"not bound to the CPUs near to its GPUs: {error.strerror}")
    if launch.memory_node is not None:
        _prefer(launch.memory_node)


def _prefer(node: int) -> None:
    """Prefer memory of a node; a failure, as in a container, is ignored."""
    number = _SET_MEMPOLICY.get(platform.machine())
    if number is None or not 0 <= node <= _LARGEST_NODE:
        return
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask = (ctypes.c_ulong * (node // bits + 1))()
    mask[node // bits] = 1 << node % bits
    # The kernel reads one bit less than the given count.
    ctypes.CDLL(None).syscall(number, _PREFERRED, mask, len(mask) * bits + 1)
