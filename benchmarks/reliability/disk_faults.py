# ruff: noqa: E501 - a table, one fault a line.
"""Faults of the disk and of the history's files."""

import os
import resource
import shutil
import sqlite3
from collections.abc import Iterator
from typing import Final

from benchmarks.reliability.fault import Fault, Group
from benchmarks.reliability.limit_faults import limit, unlimit
from benchmarks.reliability.node import Node

GARBAGE: Final = b"\x00\xff\x13\x37" * 4096


def disk_faults() -> Iterator[Fault]:
    """Of the file system first, then of the files."""
    group = Group.DISK
    size = resource.RLIMIT_FSIZE
    yield from (
        Fault(group, "the disk is full", plant=limit(size, _largest), lift=unlimit(size)),
        Fault(group, "the disk is full, as the agent starts", prepare=_full_at_start, plant=_nothing, lift=unlimit(size), is_at_start=True),
        Fault(group, "the history is deleted", plant=delete_history),
        Fault(group, "the history is moved away", plant=_move_folder),
        Fault(group, "the history is replaced by another file", plant=_overwrite),
        Fault(group, "the history is replaced by a folder", plant=_folder_instead),
        Fault(group, "the history may not be read or written any more", plant=_forbid),
        Fault(group, "pages of the history are overwritten in place", plant=_damage),
        Fault(group, "the history is cut off", plant=_truncate),
        Fault(group, "the write-ahead log of the history is cut off", plant=_cut_log),
        Fault(group, "the write-ahead log of the history is deleted", plant=_delete_log),
        Fault(group, "another program locks the history", plant=_lock, lift=Node.release),
        Fault(group, "another program reads the history without an end", plant=_read_without_end, lift=Node.release),
        Fault(group, "another program vacuums the history", plant=_vacuum),
        Fault(group, "the history is no database, as the agent starts", prepare=_garbage_file, is_at_start=True),
        Fault(group, "the history is an empty file, as the agent starts", prepare=_empty_file, is_at_start=True),
        Fault(group, "pages of the history are damaged while the agent is down", plant=_damage_while_down),
        Fault(group, "the history is cut off while the agent is down", plant=_truncate_while_down),
    )  # fmt: skip


def _nothing(_: Node) -> None:
    """The fault has been there from the start."""


def delete_history(node: Node) -> None:
    """Delete its files."""
    for file in node.folder.glob("history.db*"):
        file.unlink()


def _overwrite(node: Node) -> None:
    (node.folder / "other.db").write_bytes(GARBAGE)
    (node.folder / "other.db").replace(node.history)


def _folder_instead(node: Node) -> None:
    delete_history(node)
    node.history.mkdir()


def _forbid(node: Node) -> None:
    for file in node.folder.glob("history.db*"):
        file.chmod(0)


def _damage(node: Node) -> None:
    with node.history.open("r+b") as file:
        file.seek(4096)
        file.write(GARBAGE)


def _truncate(node: Node) -> None:
    os.truncate(node.history, 100)


def _cut_log(node: Node) -> None:
    log = node.history.with_name("history.db-wal")
    os.truncate(log, log.stat().st_size // 2)


def _delete_log(node: Node) -> None:
    node.history.with_name("history.db-wal").unlink()


def _lock(node: Node) -> None:
    database = _connection(node)
    database.execute("BEGIN IMMEDIATE")
    node.held.append(database)


def _read_without_end(node: Node) -> None:
    database = _connection(node)
    database.execute("BEGIN")
    database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    node.held.append(database)


def _vacuum(node: Node) -> None:
    database = _connection(node)
    for _ in range(10):
        database.execute("VACUUM")
    database.close()


def _connection(node: Node) -> sqlite3.Connection:
    return sqlite3.connect(
        node.history, timeout=10.0, isolation_level=None, check_same_thread=False
    )


def _garbage_file(node: Node) -> None:
    node.history.write_bytes(GARBAGE)


def _empty_file(node: Node) -> None:
    node.history.touch()


def _damage_while_down(node: Node) -> None:
    node.end()
    _damage(node)
    node.start()


def _truncate_while_down(node: Node) -> None:
    node.end()
    os.truncate(node.history, node.history.stat().st_size // 2)
    node.start()


def _move_folder(node: Node) -> None:
    folder = node.folder / "away"
    folder.mkdir()
    for file in node.folder.glob("history.db*"):
        shutil.move(file, folder)


def _full_at_start(node: Node) -> None:
    # Less than an empty history takes, and more than the log.
    node.prefix = ("prlimit", f"--fsize={2**14}:")


def _largest(node: Node) -> int:
    return max(file.stat().st_size for file in node.folder.glob("history.db*"))
