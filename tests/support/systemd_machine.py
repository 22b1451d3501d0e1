"""A small machine with a real systemd as its first process, in namespaces of its own.

Its root is a minimal Debian, made once by mmdebstrap and kept beside the checkout; what a test
changes is in a layer over it that goes with the test. The machine underneath stays as it is.
"""

import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from msgspec import Struct

__all__ = ["Machine", "booted", "held", "layered", "pristine_root"]

CACHE: Final = Path(__file__).resolve().parents[2] / ".cache" / "roots"
PACKAGES: Final = ("systemd", "systemd-sysv", "dbus", "procps", "python3")
SUITE: Final = "bookworm"
TOOLS: Final = ("mmdebstrap", "systemd-nspawn", "nsenter", "mount", "dpkg")
BOOT_SECONDS: Final = 30.0
_NETWORK: Final = 0x40000000
"""CLONE_NEWNET of setns(2)."""
_HOLD: Final = """
import ctypes, os, sys
thread, trace = int(sys.argv[1]), ctypes.CDLL(None).ptrace
for request in 0x4206, 0x4207:  # PTRACE_SEIZE, PTRACE_INTERRUPT
    trace(ctypes.c_long(request), ctypes.c_long(thread), ctypes.c_void_p(), ctypes.c_void_p())
os.waitpid(thread, 0x40000000)  # It has stopped: __WALL.
print("held", flush=True)
os.waitpid(thread, 0x40000000)  # It is dead: nobody hears of that before we do.
"""


class Machine(Struct, frozen=True):
    """A machine that has booted."""

    root: Path
    leader: int
    """Its first process, as seen from outside."""

    @staticmethod
    def inside(root: Path, *command: str) -> str:
        """Output of a command in a root that has not booted."""
        done = subprocess.run(
            ["chroot", str(root), *command],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def run(self, *command: str, check: bool = True) -> str:
        """Output of a command inside."""
        done = subprocess.run(
            ["nsenter", "-t", str(self.leader), "-a", *command],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def show(self, name: str, unit: str = "rightsizer.service") -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", "-P", name, unit).strip()

    def get(self, path: str, port: int = 19400) -> str:
        """An answer of the agent's, empty where there is none."""
        with ThreadPoolExecutor(1) as inside:
            return inside.submit(self._get, f"http://127.0.0.1:{port}{path}").result()

    def _get(self, url: str) -> str:
        """The same on a thread that ends, since it stays in the machine's network."""
        with Path(f"/proc/{self.leader}/ns/net").open() as network:
            assert ctypes.CDLL(None).setns(network.fileno(), _NETWORK) == 0
        try:
            with urlopen(url, timeout=3) as answer:
                return str(answer.read().decode())
        except HTTPError as refusal:
            refusal.close()
        except OSError:
            pass  # Nothing listens yet, or it was killed just now.
        return ""

    def journal(self, unit: str = "rightsizer.service") -> str:
        """Journal entries of a unit and the manager."""
        return self.run("journalctl", "-u", unit, "-o", "cat", "--no-pager")

    def until(self, ask: Callable[[], object], seconds: float = 30.0) -> None:
        """Wait for a condition, or fail with the journal."""
        deadline = time.monotonic() + seconds
        while not ask():
            assert time.monotonic() < deadline, self.journal()
            time.sleep(0.2)

    def outer_pid(self, unit: str = "rightsizer.service") -> int:
        """The main process of a unit, as seen from outside."""
        inner = self.show("MainPID", unit)
        space = Path(f"/proc/{self.leader}/ns/pid").readlink()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                text = (process / "status").read_text()
                if (process / "ns" / "pid").readlink() != space:
                    continue
            except OSError:
                continue  # It ended just now.
            if f"\nNSpid:\t{process.name}\t{inner}\n" in text:
                return int(process.name)
        raise AssertionError(f"{unit} has no process {inner}")


def pristine_root(
    name: str = SUITE,
    packages: Sequence[str] = PACKAGES,
    options: Sequence[str] = (),
    suite: str = SUITE,
) -> Path:
    """A minimal Debian; the test is skipped, with the reason, where none can be made."""
    if os.geteuid():
        pytest.skip("booting a machine takes root")
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        pytest.skip(f"{', '.join(missing)} not found; install mmdebstrap and systemd-container")
    CACHE.mkdir(parents=True, exist_ok=True)
    root = CACHE / name
    with (CACHE / f"{name}.lock").open("w") as lock:
        # Two files of tests need it, and a second one would be in the first one's way.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.is_dir():
            _make_root(root, packages, options, suite)
    return root


def _make_root(root: Path, packages: Sequence[str], options: Sequence[str], suite: str) -> None:
    fresh = root.with_name(f"{root.name}-{os.getpid()}")
    include = f"--include={','.join(packages)}"
    # To sync each file takes longer than to unpack it.
    quick = "--dpkgopt=force-unsafe-io"
    command = ["mmdebstrap", "--quiet", "--variant=minbase", quick, include, *options]
    made = subprocess.run(
        [*command, suite, str(fresh)], capture_output=True, text=True, timeout=1500, check=False
    )
    if made.returncode:
        shutil.rmtree(fresh, ignore_errors=True)
        pytest.skip(f"mmdebstrap makes no root here: {made.stderr.strip()[-300:]}")
    fresh.rename(root)


@contextmanager
def layered(lower: Path, folder: Path) -> Iterator[Path]:
    """A root that shows what is below, and keeps changes to itself."""
    folder.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", "size=1g", "tmpfs", str(folder))
    try:
        upper, work, root = (folder / name for name in ("upper", "work", "root"))
        for path in (upper, work, root):
            path.mkdir()
        layers = f"lowerdir={lower},upperdir={upper},workdir={work}"
        _mount("-t", "overlay", "-o", layers, "overlay", str(root))
        try:
            yield root
        finally:
            subprocess.run(["umount", "--lazy", str(root)], check=True)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def booted(root: Path) -> Iterator[Machine]:
    """The machine of a root, up as far as its basic target."""
    log = root.parent / "console.log"
    command = ["systemd-nspawn", "--quiet", "--directory", str(root), "--register=no"]
    options = ["--keep-unit", "--boot", "--console=pipe", "--private-network"]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *command, *options],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
    try:
        yield Machine(root, _leader(process, log))
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def held(thread: int) -> Iterator[None]:
    """One thread of another process, stopped for good, while its others go on."""
    holder = subprocess.Popen([sys.executable, "-c", _HOLD, str(thread)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n", f"thread {thread} cannot be traced"
        yield
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def _leader(process: "subprocess.Popen[bytes]", log: Path) -> int:
    """The first process inside, once it takes commands."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + BOOT_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.skip(f"systemd-nspawn does not run here: {log.read_text()[-300:]}")
        for child in children.read_text().split():
            asked = ["nsenter", "-t", child, "-a", "systemctl", "is-system-running"]
            said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
            if said.strip() in {"running", "degraded"}:
                return int(child)
        time.sleep(0.1)
    raise AssertionError(f"it did not boot:\n{log.read_text()[-3000:]}")


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no overlay can be mounted here: {done.stderr.strip()}")
