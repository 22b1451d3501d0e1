# ruff: noqa: E501 - a table, one fault a line.
"""Faults of the process, its configuration and its local socket; ends and kills."""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from agent_process import run_rightsizer
from benchmarks.reliability import shim
from benchmarks.reliability.fault import BEGIN_SECONDS, Fault, Group
from benchmarks.reliability.node import GPUS, Node
from benchmarks.reliability.owner_faults import BESIDE_SILENT_KUBELET, kubelet_config
from benchmarks.reliability.server_faults import (
    BROKEN_MEMORY,
    beside_silent,
    seconds_until_spoken,
    speaking,
)

_ALL: Final = tuple(range(GPUS))
_RESTART_PAUSE_SECONDS: Final = 0.5
_ENDS_AFTER_SECONDS: Final = 4.0
"""From a fault to SIGTERM."""
_PATIENT: Final = {"timeout": "60s", "tries": 1}
"""Longer than an end may take."""


def process_faults() -> Iterator[Fault]:
    """Signals, configurations and the socket."""
    group = Group.PROCESS
    yield from (
        Fault(group, "it is stopped by SIGSTOP", _ALL, plant=_sending(signal.SIGSTOP), lift=_sending(signal.SIGCONT)),
        Fault(group, "two hundred SIGHUPs at once", plant=_sighups),
        Fault(group, "SIGPIPE, SIGCHLD and SIGWINCH a hundred times", plant=_harmless_signals),
        Fault(group, "a second agent is started in its folder", plant=_second_agent),
        Fault(group, "the web configuration becomes unreadable", config={"web": {"config_file": "web.yaml"}}, prepare=write_web(""), plant=write_web("users: [unclosed\n"), lift=write_web("")),
        Fault(group, "reload of a configuration that is no YAML", plant=_replace_config("web: [unclosed\n"), lift=_restore_config),
        Fault(group, "reload of a configuration with an unknown key", plant=_replace_config("webb: {}\n"), lift=_restore_config),
        Fault(group, "reload of a configuration of zero bytes", plant=_replace_config("\0" * 4096), lift=_restore_config),
        Fault(group, "reload of a configuration of 50 MB", plant=_replace_config("# comment\n" * 5_000_000), lift=_restore_config),
        Fault(group, "reload of a configuration that nests a thousand lists", plant=_replace_config("a: " + "[" * 1000), lift=_restore_config),
        Fault(group, "reload of a configuration that is a pipe", plant=_pipe_config, lift=_restore_config),
        Fault(group, "reload of a configuration that is a folder", plant=_folder_config, lift=_restore_folder_config),
        Fault(group, "reload of a configuration that is missing", plant=_no_config, lift=_restore_config),
        Fault(group, "reload of an empty configuration file", plant=_replace_config(""), lift=_restore_config),
        Fault(group, "its local socket is deleted", plant=lambda node: node.api_socket.unlink()),
        Fault(group, "its local socket is replaced by a file", plant=_file_for_socket, lift=lambda node: node.api_socket.unlink()),
        Fault(group, "its local socket is moved away", plant=_move_socket),
        Fault(group, "its local socket has no folder until it runs", config={"path": {"api_socket": "later/agent.sock"}}, plant=lambda node: (node.folder / "later").mkdir()),
        Fault(group, "its local socket may not be used", plant=lambda node: node.api_socket.chmod(0), lift=lambda node: node.api_socket.chmod(0o660)),
        Fault(group, "its files' owner is another user", plant=_give_away),
    )  # fmt: skip


def ending_faults() -> Iterator[Fault]:
    """Kills with a restart, then SIGTERM while something hangs."""
    group = Group.ENDING
    yield from (
        Fault(group, "it is killed with -9 and started again", plant=_restart(signal.SIGKILL)),
        Fault(group, "it is killed with -9 five times in a row", plant=_restart(signal.SIGKILL, 5)),
        Fault(group, "it is killed with -9 as it starts, five times", plant=_killed_starts),
        Fault(group, "it is killed with -9 in the middle of a write", plant=_kill_in_write),
        Fault(group, "it is ended by SIGTERM and started again", plant=_restart(signal.SIGTERM)),
        Fault(group, "it is ended by SIGINT and started again", plant=_restart(signal.SIGINT)),
        Fault(group, "it is aborted by the watchdog and started again", plant=_restart(signal.SIGABRT)),
        Fault(group, "it is ended by SIGSEGV and started again", plant=_restart(signal.SIGSEGV)),
        Fault(group, "SIGTERM as it starts, and it is started again", plant=_ended_start),
        Fault(group, "SIGTERM three times at once, and it is started again", plant=_three_sigterms),
    )  # fmt: skip
    yield from _hanging_ends()


def _hanging_ends() -> Iterator[Fault]:
    group = Group.ENDING
    seconds = _ENDS_AFTER_SECONDS
    hang = f"after: {BEGIN_SECONDS:g}s"

    def hanging(what: str, keys: str, gpus: tuple[int, ...]) -> Fault:
        row = f"{{{keys}, gpus: {list(gpus)}, {hang}}}"
        return Fault(group, f"SIGTERM while {what}", gpus, (row,), lasts=True, seconds=seconds)

    def struck(what: str, rule: str) -> Fault:
        return Fault(group, f"SIGTERM while {what}", prepare=shim.load, plant=shim.strike(rule), lasts=True, seconds=seconds)  # fmt: skip

    yield hanging("all calls on a GPU hang", "kind: hang", (3,))
    yield hanging("every GPU hangs", "kind: hang", _ALL)
    yield hanging(
        "the process list of a GPU hangs",
        "kind: hang, function: nvmlDeviceGetComputeRunningProcesses_v3",
        (3,),
    )
    yield struck("fsync takes 30 s", "fsync */history.db* 1 0 delay 30000")
    yield struck("writes to the history take 30 s", "write */history.db* 1 0 delay 30000")
    yield struck("reads of the history take 30 s", "read */history.db* 1 0 delay 30000")
    yield struck("writes to the log take 30 s", "write */log-* 1 0 delay 30000")
    yield Fault(group, "SIGTERM while another program locks the history", plant=_lock, lasts=True, seconds=seconds)  # fmt: skip
    yield Fault(group, "SIGTERM while 200 clients are silent", plant=_silent_clients, lasts=True, seconds=seconds)  # fmt: skip
    yield Fault(group, "SIGTERM while answers are not read", plant=_unread_answers, lasts=True, seconds=seconds)  # fmt: skip
    for server, config in speaking(_PATIENT).items():
        yield Fault(
            group,
            f"SIGTERM while {server} says nothing",
            scenario=BROKEN_MEMORY,
            config=config,
            prepare=beside_silent,
            is_at_start=True,
            lasts=True,
            seconds=seconds_until_spoken(server),
        )
    yield Fault(
        group,
        "SIGTERM while the kubelet says nothing",
        config=kubelet_config(timeout="60s"),
        prepare=BESIDE_SILENT_KUBELET,
        is_at_start=True,
        lasts=True,
        seconds=14.0,
    )
    yield Fault(
        group,
        "SIGTERM while an action does not end",
        scenario=(
            "{kind: ecc, gpus: [2], after: 0s, uncorrected: 1, rows_uncorrectable: 1, pending: true}",
        ),
        prepare=_endless_action,
        is_at_start=True,
        lasts=True,
        seconds=14.0,
    )


def write_web(text: str) -> Callable[[Node], None]:
    """Replace the web configuration."""

    def plant(node: Node) -> None:
        (node.folder / "web.new").write_text(text, "utf-8")
        (node.folder / "web.new").replace(node.folder / "web.yaml")

    return plant


def _sending(number: signal.Signals) -> Callable[[Node], None]:
    return lambda node: node.send(number)


def _sighups(node: Node) -> None:
    for _ in range(200):
        node.send(signal.SIGHUP)


def _harmless_signals(node: Node) -> None:
    for _ in range(100):
        for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGWINCH):
            node.send(number)


def _second_agent(node: Node) -> None:
    other = run_rightsizer(
        "agent", "--config.file", str(node.config), "--web.listen-address", "127.0.0.1:0"
    )
    assert other.returncode == 1, other.stderr


def _replace_config(text: str) -> Callable[[Node], None]:
    def plant(node: Node) -> None:
        node.config.rename(node.config.with_suffix(".kept"))
        node.config.write_text(text, "utf-8")
        node.send(signal.SIGHUP)

    return plant


def _pipe_config(node: Node) -> None:
    node.config.rename(node.config.with_suffix(".kept"))
    os.mkfifo(node.config)
    node.send(signal.SIGHUP)


def _folder_config(node: Node) -> None:
    node.config.rename(node.config.with_suffix(".kept"))
    node.config.mkdir()
    node.send(signal.SIGHUP)


def _restore_folder_config(node: Node) -> None:
    node.config.rmdir()
    _restore_config(node)


def _no_config(node: Node) -> None:
    node.config.rename(node.config.with_suffix(".kept"))
    node.send(signal.SIGHUP)


def _restore_config(node: Node) -> None:
    node.config.with_suffix(".kept").replace(node.config)
    node.send(signal.SIGHUP)


def _move_socket(node: Node) -> None:
    node.api_socket.rename(node.folder / "moved.sock")


def _file_for_socket(node: Node) -> None:
    node.api_socket.unlink()
    node.api_socket.touch()


def _give_away(node: Node) -> None:
    for file in node.folder.iterdir():
        os.chown(file, 1000, 1000)


def _restart(number: signal.Signals, times: int = 1) -> Callable[[Node], None]:
    def plant(node: Node) -> None:
        for _ in range(times):
            node.end(number)
            node.start()

    return plant


def _killed_starts(node: Node) -> None:
    node.end(signal.SIGKILL)
    for tenths in range(5):
        node.launch()
        time.sleep(tenths / 10)
        node.end(signal.SIGKILL)
    node.start()


def _kill_in_write(node: Node) -> None:
    log = node.history.with_name("history.db-wal")
    before = log.stat().st_mtime_ns
    deadline = time.monotonic() + 5.0
    while log.stat().st_mtime_ns == before and time.monotonic() < deadline:
        time.sleep(0)
    node.end(signal.SIGKILL)
    node.start()


def _ended_start(node: Node) -> None:
    node.end()
    for _ in range(3):
        node.launch()
        time.sleep(_RESTART_PAUSE_SECONDS)
        node.end()
    node.start()


def _three_sigterms(node: Node) -> None:
    for _ in range(2):
        node.send(signal.SIGTERM)
    node.end()
    node.start()


def _lock(node: Node) -> None:
    database = sqlite3.connect(node.history, isolation_level=None, check_same_thread=False)
    database.execute("BEGIN IMMEDIATE")
    node.held.append(database)


def _silent_clients(node: Node) -> None:
    for _ in range(200):
        with suppress(OSError):
            node.connect()


def _unread_answers(node: Node) -> None:
    request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 50

    def ask() -> None:
        with suppress(OSError):
            node.connect().sendall(request)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(20)]
    for thread in threads:
        thread.start()


def _endless_action(node: Node) -> None:
    text = node.config.read_text("utf-8")
    node.config.write_text(text.replace('echo "$1" >>"$2"', "sleep 600"), "utf-8")
