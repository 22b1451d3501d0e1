"""A process of an ordinary user that pretends to be somebody else's, in real control groups.

The user does it all: root only hands over a group and a process in it, as systemd does for
`user@UID.service`.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = [
    "JOB",
    "POD",
    "PRETENDED",
    "USER",
    "delegated_group",
    "hierarchies",
    "made_group",
    "pretended_owner",
    "process_in",
]

USER: Final = 2**20 + os.getpid()
"""Uid without an account, another one for each process of tests."""
_CONTAINER: Final = "ab12" * 16
_POD: Final = "0f1c2d3e-aaaa-bbbb-cccc-0123456789ab"
JOB: Final = "slurm/uid_0/job_4242/step_0"
POD: Final = f"kubepods/burstable/pod{_POD}/{_CONTAINER}"
PRETENDED: Final = (
    JOB,
    "system.slice/slurmstepd.scope/job_4242/step_0/user/task_0",
    POD,
    (
        f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{_POD.replace('-', '_')}"
        f".slice/cri-containerd-{_CONTAINER}.scope"
    ),
    f"kubelet/kubepods/pod{_POD}/{_CONTAINER}",
    f"system.slice/docker-{_CONTAINER}.scope",
    f"docker/{_CONTAINER}",
    f"machine.slice/libpod-{_CONTAINER}.scope/container",
    f"docker/{_CONTAINER}/kubepods/pod{_POD}/{_CONTAINER}",
    "system.slice/vllm.service",
)
"""Groups of owners of every kind, in the spelling of each driver and version."""
_ATTEMPTS: Final = 50
_PRETEND: Final = """\
import os, sys
begun, uid, place, *program = sys.argv[1:]

def enter(folder):
    with open(folder + "/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))

enter(begun)
os.setgroups([])
os.setgid(int(uid))
os.setuid(int(uid))
os.makedirs(place, exist_ok=True)
enter(place)
print("moved", flush=True)
os.execv(program[0], program)
"""


def hierarchies() -> dict[str, Path]:
    """Mount points of hierarchies in which systemd hands groups to users, by name in procfs."""
    found: dict[str, Path] = {}
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup2":
            found[""] = Path(place)
        elif kind == "cgroup" and "name=systemd" in options:
            found["name=systemd"] = Path(place)
    return found


@contextmanager
def made_group(root: Path, path: str) -> Iterator[Path]:
    """A control group of root with its parents, removed again; `OSError` if not allowed."""
    made: list[Path] = []
    try:
        yield _made(root, path, made)
    finally:
        for folder in reversed(made):
            _remove(folder)


def _made(root: Path, path: str, made: list[Path]) -> Path:
    """Make a group; another test may just have removed one above it."""
    for _ in range(_ATTEMPTS):
        try:
            folder = root
            for part in Path(path).parts:
                folder /= part
                if not folder.exists():
                    folder.mkdir()
                    made.append(folder)
        except (FileExistsError, FileNotFoundError):
            continue
        return folder
    raise OSError(f"{root / path} cannot be made")


def _remove(folder: Path) -> None:
    """Remove a group with those in it; the kernel takes a moment to notice that it is empty."""
    for inside, _, _ in os.walk(folder, topdown=False):
        for _ in range(_ATTEMPTS):
            try:
                Path(inside).rmdir()
            except OSError:
                time.sleep(0.02)
            else:
                break


@contextmanager
def delegated_group(root: Path, uid: int = USER, path: str = "") -> Iterator[Path]:
    """A group that root hands to a user; by default that of the user's own systemd."""
    place = path or f"user.slice/user-{uid}.slice/user@{uid}.service"
    with made_group(root, place) as folder:
        for name in (".", "cgroup.procs", "tasks", "cgroup.subtree_control"):
            if (folder / name).exists():
                os.chown(folder / name, uid, uid)
        yield folder


@contextmanager
def pretended_owner(
    path: str,
    *,
    root: Path | None = None,
    uid: int = USER,
    delegated: str = "",
    program: Sequence[str] = ("sleep", "600"),
) -> Iterator[int]:
    """Pid of a user's process that has moved itself into a group of somebody else's name.

    Args:
        path: Below the group that the user was handed, such as `JOB`.
        root: Mount point of a hierarchy; by default the first of `hierarchies`.
        uid: The user.
        delegated: Group that root hands to the user, by default that of the user's own systemd.
        program: What the process runs.
    """
    root = root or next(iter(hierarchies().values()))
    with delegated_group(root, uid, delegated) as folder:
        process = subprocess.Popen(
            [
                *(sys.executable, "-IS", "-c", _PRETEND),
                *(str(folder), str(uid), str(folder / path)),
                *(shutil.which(program[0]) or program[0], *program[1:]),
            ],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        with process:
            try:
                assert process.stdout is not None
                if process.stdout.readline() != b"moved\n":
                    raise OSError(f"user {uid} cannot make {folder / path}")
                yield process.pid
            finally:
                process.kill()
                process.wait()
                _remove(folder)


@contextmanager
def process_in(folder: Path) -> Iterator[int]:
    """A process that runs in a control group."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        try:
            (folder / "cgroup.procs").write_text(str(process.pid))
            yield process.pid
        finally:
            process.kill()
