"""Which core each CPU is a thread of, numbered as Slurm numbers them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rightsizer.telemetry.topology.files import parse_cpus, read_integer, read_names, read_text

__all__ = ["read_cores"]

_CPU: Final = re.compile(r"cpu([0-9]{1,5})")


def read_cores(sysfs: Path) -> Mapping[int, int]:
    """Slurm's core by the kernel's CPU; empty where the kernel does not tell all of them.

    Slurm counts cores, not threads, socket by socket (gres.conf(5), `Cores`), where the kernel
    mostly numbers the second threads of all cores after the first ones.
    """
    folder = sysfs / "devices/system/cpu"
    numbers = [int(match[1]) for name in read_names(folder) if (match := _CPU.fullmatch(name))]
    core_by_cpu: dict[int, tuple[int, int]] = {}
    for cpu in numbers:
        told = folder / f"cpu{cpu}" / "topology"
        package = read_integer(told / "physical_package_id")
        threads = parse_cpus(read_text(told / "thread_siblings_list"))
        if package is None or cpu not in threads:
            # A CPU that is off tells nothing, and shifts the number of every core behind it.
            return {}
        core_by_cpu[cpu] = (package, threads[0])
    order = {core: at for at, core in enumerate(sorted(set(core_by_cpu.values())))}
    return {cpu: order[core] for cpu, core in core_by_cpu.items()}
