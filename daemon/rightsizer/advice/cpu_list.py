"""CPU numbers in the notation that the kernel, numactl, taskset and systemd share."""

from collections.abc import Iterable

__all__ = ["cpu_list"]


def cpu_list(cpus: Iterable[int]) -> str:
    """Numbers as ranges: `0-27,56-83`."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
