"""Trees like procfs with processes and GPUs in them, for tests of owners."""

from pathlib import Path

__all__ = ["write_gpu", "write_process"]


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
) -> None:
    """A process in a tree like procfs; its usual name is as nasty as the kernel allows."""
    folder = root / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup").write_text(cgroup)
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
