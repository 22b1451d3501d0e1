"""Trees like procfs with processes and GPUs in them, for tests of owners."""

from pathlib import Path

from rightsizer.host.process_table import ProcessTable
from rightsizer.host.trusted_groups import TrustedGroupReader
from rightsizer.owners.collector import OwnerHost
from rightsizer.owners.collector_settings import OwnerCollectorSettings

__all__ = ["host_in", "of_root", "write_gpu", "write_process"]


def of_root(path: str) -> str:
    """Say that root alone may write whatever is asked about."""
    del path
    return ""


def host_in(
    procfs: Path, settings: OwnerCollectorSettings | None = None, sysfs: Path | None = None
) -> OwnerHost:
    """Node of a tree whose control groups are all of root; its clock stands still."""
    return OwnerHost(
        procfs,
        procfs if sysfs is None else sysfs,
        TrustedGroupReader(procfs, procfs / "sys", of_root),
        ProcessTable(procfs),
        settings or OwnerCollectorSettings(),
        lambda: 0.0,
    )


def write_process(  # noqa: PLR0913 - what a process is known by.
    root: Path,
    pid: int,
    *,
    cgroup: str = "0::/",
    session: int = 0,
    start: int = 0,
    parent: int = 1,
    name: str = "a) b (c",
    title: str = "",
    uid: int = 0,
) -> None:
    """A process in a tree like procfs; its usual name is as nasty as the kernel allows."""
    folder = root / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup").write_text(cgroup)
    (folder / "status").write_text(f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (folder / "cmdline").write_text(f"{title}\0")
    fields = ["S", str(parent), "1", str(session), *["0"] * 15, str(start), "0"]
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")


def write_gpu(root: Path, address: str, minor: int) -> None:
    """A GPU as NVIDIA's driver shows it in a tree like procfs."""
    folder = root / "driver/nvidia/gpus" / address
    folder.mkdir(parents=True)
    (folder / "information").write_text(
        "Model: \t\t NVIDIA H100 80GB HBM3\n"
        "IRQ:   \t\t 185\n"
        "GPU UUID: \t GPU-12345678-90ab-cdef-1234-567890abcdef\n"
        f"Bus Location: \t {address}\n"
        f"Device Minor: \t {minor}\n"
        "GPU Excluded:\t No\n"
    )
