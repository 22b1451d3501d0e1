# ruff: noqa: E501 - a table, one fault a line.
"""Processes that pretend to be another's, and a kubelet that does not answer as it should."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.reliability.fault import BEGIN_SECONDS, Fault, Group
from benchmarks.reliability.host_node import on_host
from benchmarks.reliability.listener import (
    GARBAGE,
    Talk,
    hang_up,
    listen,
    say_nothing,
    speak,
    talk_without_end,
)
from benchmarks.reliability.node import Node
from benchmarks.reliability.server_faults import meeting

_HELD_GPU: Final = 2
_SIMULATED_PID: Final = 4203
"""Which the simulated driver lists on that GPU."""
_ORDINARY_USER: Final = 1000
_CGROUPS: Final = Path("/sys/fs/cgroup")
_HIERARCHIES: Final = ("systemd", "pids", "devices", "memory", "unified")
"""Where a process is moved."""
_USER: Final = "user.slice/user-1000.slice/user@1000.service"
_TOPS: Final = ("user.slice", "slurm", "slurm_4242")
_CONTAINER: Final = "0123456789abcdef" * 4
_POD: Final = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod4242aaaa_1111_2222_3333_444455556666.slice"
_LOSS: Final = (
    f"{{kind: xid, code: 48, gpus: [{_HELD_GPU}], after: {BEGIN_SECONDS:g}s, every: 2s}}",
)
_SECONDS: Final = 16.0


def owner_faults() -> Iterator[Fault]:
    """Pretended owners, a true one, then the kubelet."""
    for name, path in (
        ("a user's process pretends to be a Slurm job of version 1", f"{_USER}/slurm/uid_0/job_4242/step_0"),
        ("a user's process pretends to be a Slurm job of version 2", f"{_USER}/system.slice/slurmstepd.scope/job_4242/step_0"),
        ("a user's process pretends to be a pod of containerd", f"{_USER}/{_POD}/cri-containerd-{_CONTAINER}.scope"),
        ("a user's process pretends to be a pod of cgroupfs", f"{_USER}/kubepods/burstable/pod4242aaaa-1111-2222-3333-444455556666/{_CONTAINER}"),
        ("a user's process pretends to be a container of Docker", f"{_USER}/system.slice/docker-{_CONTAINER}.scope"),
        ("a user's process pretends to be a container of Podman", f"{_USER}/machine.slice/libpod-{_CONTAINER}.scope"),
        ("a user's group in the root pretends to be a Slurm job", "slurm_4242/uid_0/job_4242/step_0"),
    ):  # fmt: skip
        yield _holder(name, path, frozenset())
    own = frozenset({"user@1000.service/production.service"})
    yield _holder("a user's unit has the name of a service (which it is, of that user)", f"{_USER}/app.slice/system.slice/production.service", own)  # fmt: skip
    yield _holder("the process of a true Slurm job (for comparison)", "slurm/uid_0/job_77/step_0", frozenset({"77"}), user=0)  # fmt: skip
    yield from _kubelet()


def _holder(name: str, path: str, may_act_for: frozenset[str], user: int = _ORDINARY_USER) -> Fault:
    """A process in a control group of its own, on a GPU that gets a hardware fault."""

    def prepare(node: Node) -> None:
        on_host(node)
        place = node.folder / "proc" / str(_SIMULATED_PID)
        place.unlink(missing_ok=True)
        holder = Holder.start(path, user)
        node.held.append(holder)
        place.symlink_to(f"/proc/{holder.process.pid}")

    return Fault(
        Group.OWNERS,
        name,
        scenario=_LOSS,
        prepare=prepare,
        is_at_start=True,
        lasts=True,
        seconds=_SECONDS,
        may_act_for=may_act_for,
    )


@dataclass(slots=True)
class Holder:
    """A real process in a real control group that its user owns, below slices of root."""

    process: "subprocess.Popen[bytes]"
    places: list[Path]
    """Its groups, one a hierarchy."""

    @classmethod
    def start(cls, path: str, user: int) -> "Holder":
        """Start it, and move it into the group in all hierarchies."""
        process = subprocess.Popen(
            ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "sleep", "120"],
            # The user may not read the shim.
            env={**os.environ, "LD_PRELOAD": ""},
        )
        holder = cls(process, [root / path for root in _roots()])
        for root, place in zip(_roots(), holder.places, strict=True):
            with suppress(OSError):
                _make(root, place, user)
                (place / "cgroup.procs").write_text(str(process.pid), "ascii")
        return holder

    def close(self) -> None:
        """End it, and remove its groups; the last row that uses the upper folders removes them."""
        self.process.kill()
        self.process.wait()
        time.sleep(0.1)
        for root, place in zip(_roots(), self.places, strict=True):
            with suppress(OSError):
                _remove(root, place)


def _roots() -> list[Path]:
    hierarchies = [_CGROUPS / name for name in _HIERARCHIES if (_CGROUPS / name).is_dir()]
    return hierarchies or [_CGROUPS]


def _make(root: Path, place: Path, user: int) -> None:
    """Make the folders that are missing, again where another row has removed one meanwhile."""
    while not place.is_dir():
        folder = next(upward for upward in _upwards(root, place) if upward.parent.is_dir())
        with suppress(FileExistsError, FileNotFoundError):
            folder.mkdir()
            # Slices stay root's, as systemd makes them.
            if folder.suffix != ".slice":
                os.chown(folder, user, user)


def _remove(root: Path, place: Path) -> None:
    """Remove the folders that are empty, without those of the machine.

    Raises:
        OSError: another row still uses one.
    """
    for folder in _upwards(root, place):
        if folder not in _OF_MACHINE:
            folder.rmdir()


def _upwards(root: Path, place: Path) -> Iterator[Path]:
    folder = place
    while folder != root:
        yield folder
        folder = folder.parent


_OF_MACHINE: Final = frozenset(
    folder for root in _roots() for part in _TOPS for folder in root.glob(f"{part}/**")
)
"""Groups that were there before the first row; the folders of all rows are below these."""


def kubelet_config(timeout: str) -> dict[str, Any]:
    """Configuration that asks a kubelet."""
    owners = {"kubelet_socket": "kubelet.sock", "interval": "5s", "timeout": timeout}
    return {"sources": {"owners": owners, "simulated": {}, "nvml": {}}}


def _kubelet() -> Iterator[Fault]:
    ways: dict[str, Callable[[Node], None] | None] = {
        "refuses connections": None,
        "takes them and says nothing": _talking(say_nothing),
        "closes them": _talking(hang_up),
        "answers what is no gRPC": _talking(speak(GARBAGE)),
        "answers HTTP/1.1 without an end": _talking(talk_without_end),
        "names 5,000 pods": _with_pods(5000),
        "answers 30 MB": _with_pods(100_000),
    }
    for way, begin in ways.items():
        yield Fault(
            Group.OWNERS,
            f"the kubelet {way}",
            config=kubelet_config(timeout="1s"),
            prepare=_beside_kubelet(begin),
            is_at_start=True,
            lasts=True,
            seconds=_SECONDS,
        )


def _beside_kubelet(begin: Callable[[Node], None] | None) -> Callable[[Node], None]:
    def prepare(node: Node) -> None:
        on_host(node)
        if begin is not None:
            begin(node)

    return prepare


def _talking(talk: Talk) -> Callable[[Node], None]:
    return lambda node: node.held.append(
        listen(talk, node.folder / "kubelet.sock", meeting(node)),
    )


BESIDE_SILENT_KUBELET: Final = _beside_kubelet(_talking(say_nothing))


def _with_pods(count: int) -> Callable[[Node], None]:
    def begin(node: Node) -> None:
        # gRPC takes a second to load, which most rows need not wait for.
        from kubelet_server import answer, kubelet, pod  # noqa: PLC0415

        pods = [pod("team", f"pod-{number}", [f"GPU-{number}"]) for number in range(count)]
        message = answer(*pods)
        stack = ExitStack()
        stack.enter_context(kubelet(node.folder / "kubelet.sock", lambda _: message))
        node.held.append(stack)

    return begin
