# ruff: noqa: E501 - a table, one fault a line.
"""Faults of a running agent's environment: start and end of each."""

import gzip
import os
import resource
import shutil
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from agent_process import run_rightsizer
from benchmarks.reliability.node import GPUS, Node

BEGIN_SECONDS: Final = 8.0
"""From an agent's start to a fault."""
LENGTH_SECONDS: Final = 8.0
"""From a fault to its end."""
_ALL: Final = tuple(range(GPUS))
_NEXT: Final = "http://127.0.0.1:NEXT"
_IMPATIENT: Final = {"timeout": "2s", "tries": 1}
_GARBAGE: Final = b"\x00\xff\x13\x37" * 4096


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that lasts for `LENGTH_SECONDS`."""

    area: str
    name: str
    gpus: tuple[int, ...] = ()
    """GPUs that cannot be read meanwhile."""
    scenario: tuple[str, ...] = ()
    """Lines of the simulated node's faults."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """More of the agent's configuration; NEXT stands for the port of a server of the fault."""
    prepare: Callable[[Node], None] | None = None
    """Before the agent starts."""
    plant: Callable[[Node], None] | None = None
    mend: Callable[[Node], None] | None = None
    seconds: float = LENGTH_SECONDS
    is_at_start: bool = False
    """Whether the fault is there when the agent starts."""
    lasts: bool = False
    """Whether it stays to the end: there is nothing to recover from but its effect on others."""


def _driver() -> list[Fault]:
    found = []
    for name, keys in (
        ("all calls on a GPU hang", "kind: hang"),
        ("one function hangs on a GPU", "kind: hang, function: nvmlDeviceGetPowerUsage"),
        ("the process list of a GPU hangs", "kind: hang, function: nvmlDeviceGetComputeRunningProcesses_v3"),
        ("a GPU falls off the bus", "kind: loss"),
        ("a GPU is not listed", "kind: absence"),
        ("calls on a GPU answer unknown error", "kind: answer, code: unknown"),
        ("calls on a GPU time out", "kind: answer, code: timeout"),
        ("calls on a GPU are of a mismatched version", "kind: answer, code: lib_rm_version_mismatch"),
        ("calls on a GPU lack permission", "kind: answer, code: no_permission"),
        ("calls on a GPU are not supported", "kind: answer, code: not_supported"),
        ("the utilization of a GPU is unknown", "kind: answer, code: unknown, function: nvmlDeviceGetUtilizationRates"),
        ("the memory of a GPU is unknown", "kind: answer, code: unknown, function: nvmlDeviceGetMemoryInfo_v2"),
        ("the power of a GPU is unknown", "kind: answer, code: unknown, function: nvmlDeviceGetPowerUsage"),
    ):  # fmt: skip
        unread = (3,) if "hang" in keys or "function" not in keys else ()
        for when, after in (("", BEGIN_SECONDS), (", as the agent starts", 0.0)):
            row = f"{{{keys}, gpus: [3], after: {after:g}s, for: {LENGTH_SECONDS:g}s}}"
            found.append(Fault("driver", name + when, unread, (row,), is_at_start=not after))
    return found


def _whole_driver() -> list[Fault]:
    during = f"after: {BEGIN_SECONDS:g}s, for: {LENGTH_SECONDS:g}s"
    start = f"after: 0s, for: {LENGTH_SECONDS:g}s"

    def on(gpus: Sequence[int], keys: str, when: str = during) -> tuple[str, ...]:
        return (f"{{{keys}, gpus: {list(gpus)}, {when}}}",)

    flap = f"after: {BEGIN_SECONDS:g}s, every: 3s, for: 1500ms"
    return [
        Fault("driver", "three of four GPUs hang", (1, 2, 3), on((1, 2, 3), "kind: hang")),
        Fault("driver", "three of four GPUs hang, as the agent starts", (1, 2, 3), on((1, 2, 3), "kind: hang", start), is_at_start=True),
        Fault("driver", "every GPU hangs", _ALL, on(_ALL, "kind: hang")),
        Fault("driver", "every GPU falls off the bus", _ALL, on(_ALL, "kind: loss")),
        Fault("driver", "a GPU comes and goes every 3 s", (3,), on((3,), "kind: loss", flap), lasts=True),
        Fault("driver", "the driver is unloaded", _ALL, (f"{{kind: unload, {during}}}",)),
        Fault("driver", "the driver is not loaded, as the agent starts", _ALL, (f"{{kind: unload, {start}}}",), is_at_start=True),
        Fault("driver", "the driver and its library differ in version", _ALL, (f"{{kind: unload, code: lib_rm_version_mismatch, {during}}}",)),
        Fault("driver", "a GPU is cut into MIG instances", (3,), on((3,), "kind: mig, profiles: [3g.40gb, 2g.20gb]")),
        Fault("driver", "the profiling counters of all GPUs read 0", (), on(_ALL, "kind: dead_counters")),
        Fault("driver", "an Xid on each GPU every second", (), on(_ALL, "kind: xid, code: 31", f"after: {BEGIN_SECONDS:g}s, every: 1s"), lasts=True),
        Fault("driver", "an uncorrected memory error", (), on((3,), "kind: ecc, uncorrected: 1, rows_uncorrectable: 1, pending: true"), lasts=True),
    ]  # fmt: skip


def _delete(node: Node) -> None:
    for file in node.folder.glob("history.db*"):
        file.unlink()


def _overwrite(node: Node) -> None:
    (node.folder / "other.db").write_bytes(_GARBAGE)
    (node.folder / "other.db").replace(node.history)


def _damage(node: Node) -> None:
    with node.history.open("r+b") as file:
        file.seek(4096)
        file.write(_GARBAGE)


def _truncate(node: Node) -> None:
    os.truncate(node.history, 100)


def _garbage_file(node: Node) -> None:
    node.history.write_bytes(_GARBAGE)


def _limit(kind: int, amount: Callable[[Node], int]) -> Callable[[Node], None]:
    def plant(node: Node) -> None:
        hard = resource.prlimit(node.pid, kind)[1]
        resource.prlimit(node.pid, kind, (amount(node), hard))

    return plant


def _unlimit(kind: int) -> Callable[[Node], None]:
    def mend(node: Node) -> None:
        hard = resource.prlimit(node.pid, kind)[1]
        resource.prlimit(node.pid, kind, (hard, hard))

    return mend


def _largest(node: Node) -> int:
    return max(file.stat().st_size for file in node.folder.glob("history.db*"))


def _open_files(node: Node) -> int:
    return len(list(Path(f"/proc/{node.pid}/fd").iterdir()))


def _cut_log(node: Node) -> None:
    log = node.history.with_name("history.db-wal")
    os.truncate(log, log.stat().st_size // 2)


def _lock(node: Node) -> None:
    database = sqlite3.connect(node.history, isolation_level=None, check_same_thread=False)
    database.execute("BEGIN IMMEDIATE")
    node.held.append(database)


def _second_agent(node: Node) -> None:
    config = str(node.folder / "rightsizer.yaml")
    other = run_rightsizer("agent", "--config.file", config, "--web.listen-address", "127.0.0.1:0")
    assert other.returncode == 1, other.stderr


def _address_space(node: Node) -> int:
    pages = int(Path(f"/proc/{node.pid}/statm").read_text("ascii").split()[0])
    return pages * resource.getpagesize()


def _address_space_without_stacks(node: Node) -> int:
    return _address_space(node) + 6 * 2**20


def _web_config(text: str) -> Callable[[Node], None]:
    def plant(node: Node) -> None:
        (node.folder / "web.new").write_text(text, "utf-8")
        (node.folder / "web.new").replace(node.folder / "web.yaml")

    return plant


def _move_folder(node: Node) -> None:
    folder = node.folder / "away"
    folder.mkdir()
    for file in node.folder.glob("history.db*"):
        shutil.move(file, folder)


def _full_at_start(node: Node) -> None:
    # Less than an empty history takes, and more than the log.
    node.prefix = ("prlimit", f"--fsize={2**14}:")


def _disk() -> list[Fault]:
    size = resource.RLIMIT_FSIZE
    files = resource.RLIMIT_NOFILE
    return [
        Fault("disk", "the disk is full", plant=_limit(size, _largest), mend=_unlimit(size)),
        Fault("disk", "the disk is full, as the agent starts", prepare=_full_at_start, plant=lambda _: None, mend=_unlimit(size), is_at_start=True),
        Fault("disk", "no more files can be opened", plant=_limit(files, _open_files), mend=_unlimit(files)),
        Fault("disk", "the history is deleted", plant=_delete),
        Fault("disk", "the history is moved away", plant=_move_folder),
        Fault("disk", "the history is replaced by another file", plant=_overwrite),
        Fault("disk", "pages of the history are overwritten in place", plant=_damage),
        Fault("disk", "the history is cut off", plant=_truncate),
        Fault("disk", "the write-ahead log of the history is cut off", plant=_cut_log),
        Fault("disk", "another program locks the history", plant=_lock, mend=Node.release),
        Fault("disk", "the history is no database, as the agent starts", prepare=_garbage_file, is_at_start=True),
    ]  # fmt: skip


def _replace_config(text: str) -> Callable[[Node], None]:
    def plant(node: Node) -> None:
        file = node.folder / "rightsizer.yaml"
        file.with_suffix(".kept").write_text(file.read_text("utf-8"), "utf-8")
        file.write_text(text, "utf-8")
        node.send(signal.SIGHUP)

    return plant


def _pipe_config(node: Node) -> None:
    file = node.folder / "rightsizer.yaml"
    file.rename(file.with_suffix(".kept"))
    os.mkfifo(file)
    node.send(signal.SIGHUP)


def _restore_config(node: Node) -> None:
    (node.folder / "rightsizer.kept").replace(node.folder / "rightsizer.yaml")
    node.send(signal.SIGHUP)


def _restart(number: signal.Signals) -> Callable[[Node], None]:
    def plant(node: Node) -> None:
        node.end(number)
        node.start()

    return plant


def _sighups(node: Node) -> None:
    for _ in range(200):
        node.send(signal.SIGHUP)


def _process() -> list[Fault]:
    return [
        Fault("process", "it is killed with -9 and started again", plant=_restart(signal.SIGKILL)),
        Fault("process", "it is ended by SIGTERM and started again", plant=_restart(signal.SIGTERM)),
        Fault("process", "it is stopped by SIGSTOP", _ALL, plant=lambda node: node.send(signal.SIGSTOP), mend=lambda node: node.send(signal.SIGCONT)),
        Fault("process", "no more memory can be had", plant=_limit(resource.RLIMIT_AS, _address_space), mend=_unlimit(resource.RLIMIT_AS)),
        Fault("process", "no more threads can be started", plant=_limit(resource.RLIMIT_AS, _address_space_without_stacks), mend=_unlimit(resource.RLIMIT_AS)),
        Fault("process", "a second agent is started in its folder", plant=_second_agent),
        Fault("process", "the web configuration becomes unreadable", config={"web": {"config_file": "web.yaml"}}, prepare=_web_config(""), plant=_web_config("users: [unclosed\n"), mend=_web_config("")),
        Fault("process", "reload of a configuration that is no YAML", plant=_replace_config("web: [unclosed\n"), mend=_restore_config),
        Fault("process", "reload of a configuration with an unknown key", plant=_replace_config("webb: {}\n"), mend=_restore_config),
        Fault("process", "reload of a configuration that is a pipe", plant=_pipe_config, mend=_restore_config),
        Fault("process", "reload of an empty configuration file", plant=_replace_config(""), mend=_restore_config),
        Fault("process", "two hundred SIGHUPs at once", plant=_sighups),
    ]  # fmt: skip


def _send(data: bytes, connections: int = 1) -> Callable[[Node], None]:
    def plant(node: Node) -> None:
        for _ in range(connections):
            with suppress(OSError):
                node.connect().sendall(data)

    return plant


def _drip(node: Node) -> None:
    made = [node.connect() for _ in range(20)]

    def drip() -> None:
        with suppress(OSError):
            for _ in range(40):
                for each in made:
                    each.sendall(b"G")
                time.sleep(0.2)

    threading.Thread(target=drip, daemon=True).start()


def _flood(node: Node) -> None:
    def ask() -> None:
        end = time.monotonic() + LENGTH_SECONDS
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", node.port), 5) as made:
                made.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                while made.recv(65536):
                    pass

    for _ in range(4):
        threading.Thread(target=ask, daemon=True).start()


def _never_read(node: Node) -> None:
    for _ in range(20):
        made = node.connect()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        with suppress(OSError):
            made.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 50)


def _web() -> list[Fault]:
    get = b"GET /metrics HTTP/1.1\r\nHost: a\r\n"
    return [
        Fault("page", "200 connections that say nothing", plant=_send(b"", 200), mend=Node.release),
        Fault("page", "20 requests that come a byte at a time", plant=_drip, mend=Node.release),
        Fault("page", "bytes that are no HTTP", plant=_send(_GARBAGE, 20), mend=Node.release),
        Fault("page", "a TLS handshake on a plain port", plant=_send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + _GARBAGE, 20), mend=Node.release),
        Fault("page", "headers of a megabyte", plant=_send(get + b"A: " + b"a" * 2**20, 5), mend=Node.release),
        Fault("page", "a body that is announced and never sent", plant=_send(b"POST /api/v1/plan HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n", 20), mend=Node.release),
        Fault("page", "a request with two lengths", plant=_send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 20), mend=Node.release),
        Fault("page", "answers that are not read", plant=_never_read, mend=Node.release),
        Fault("page", "a thousand scrapes at once", plant=_send(get + b"\r\n", 1000), mend=Node.release),
        Fault("page", "four readers who scrape without a pause", plant=_flood),
    ]  # fmt: skip


def _listener(talk: Callable[[socket.socket], None], port: int) -> socket.socket:
    """A server on loopback that answers in its own way."""
    server = socket.create_server(("127.0.0.1", port))

    def serve() -> None:
        with suppress(OSError):
            while True:
                made, _ = server.accept()
                threading.Thread(target=answer, args=(made,), daemon=True).start()

    def answer(made: socket.socket) -> None:
        with suppress(OSError), made:
            made.settimeout(20)
            made.recv(65536)
            talk(made)

    threading.Thread(target=serve, daemon=True).start()
    return server


def _silent(made: socket.socket) -> None:
    made.recv(65536)


def _status(code: int, body: bytes = b"", more: bytes = b"") -> Callable[[socket.socket], None]:
    head = f"HTTP/1.1 {code} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    return lambda made: made.sendall(head.encode() + more + b"\r\n" + body)


def _endless(made: socket.socket) -> None:
    made.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        made.sendall(b"10000\r\n" + b"a" * 65536 + b"\r\n")


def _dripping(start: bytes) -> Callable[[socket.socket], None]:
    def drip(made: socket.socket) -> None:
        made.sendall(b"HTTP/1.1 200 OK\r\n" + start)
        for _ in range(400):
            made.sendall(b"#")
            time.sleep(0.2)

    return drip


@cache
def _large_page() -> bytes:
    return b"".join(_PAGE % (each, each) for each in range(1_000_000))


def _answer_large(made: socket.socket) -> None:
    _status(200, _large_page())(made)


_PAGE: Final = b'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-%d",gpu="%d"} 5\n'
_PAGES: Final[Mapping[str, Callable[[socket.socket], None]]] = {
    "answers 50 MB": _answer_large,
    "answers a byte at a time": _dripping(b"Content-Length: 100000\r\n\r\n"),
    "redirects to another address": _status(301, b"", b"Location: http://127.0.0.2:9/metrics\r\n"),
    "answers what was compressed unasked": _status(200, gzip.compress(_PAGE % (0, 0)), b"Content-Encoding: gzip\r\n"),
}  # fmt: skip
"""Further ways of a page; each is read every second."""


def _neighbors() -> list[Fault]:
    """Servers that the agent speaks to, each from its start to its end."""
    found = []
    soon = {"interval": "10s", "jitter": "0s"}
    broken = (
        "{kind: ecc, gpus: [3], after: 0s, uncorrected: 1, rows_uncorrectable: 1, pending: true}",
    )
    settings: dict[str, dict[str, Any]] = {
        "Grafana": {"recommender": soon, "grafana": {"url": _NEXT, "http": _IMPATIENT}},
        "a webhook": {"recommender": soon, "webhooks": [{"url": _NEXT, "http": _IMPATIENT}]},
        "dcgm-exporter": {"sources": {"dcgm": {"url": f"{_NEXT}/metrics", "interval": "1s", "timeout": "900ms"}}},
    }  # fmt: skip
    ways: dict[str, Callable[[socket.socket], None] | None] = {
        "refuses connections": None,
        "takes them and says nothing": _silent,
        "closes them": lambda made: made.close(),
        "answers 500": _status(500),
        "answers what cannot be read": _status(200, _GARBAGE),
        "answers without an end": _endless,
        "sends its head a byte at a time": _dripping(b"X: "),
        "asks for a pause of a week": _status(429, b"", b"Retry-After: 604800\r\n"),
    }
    for server, config in settings.items():
        for way, talk in {**ways, **(_PAGES if "dcgm" in server else {})}.items():
            found.append(
                Fault("network", f"{server} {way}", scenario=broken, config=config, prepare=_beside(talk), is_at_start=True, lasts=True, seconds=25.0 if "dcgm" in server else 75.0)
            )  # fmt: skip
    return found


def _beside(talk: Callable[[socket.socket], None] | None) -> Callable[[Node], None]:
    def prepare(node: Node) -> None:
        server = _listener(talk or _silent, 0)
        port = server.getsockname()[1]
        if talk is None:
            server.close()
        else:
            node.held.append(server)
        file = node.folder / "rightsizer.yaml"
        file.write_text(file.read_text("utf-8").replace("NEXT", str(port)), "utf-8")

    return prepare


FAULTS: Final[Sequence[Fault]] = (
    *_driver(),
    *_whole_driver(),
    *_disk(),
    *_process(),
    *_web(),
    *_neighbors(),
)
