# ruff: noqa: E501 - a table, one fault a line.
"""Limits of tasks, memory, processor time and open files: control groups, and rlimits."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.process import memory_mebibytes
from benchmarks.reliability.control_group import ControlGroup
from benchmarks.reliability.fault import Fault, Group
from benchmarks.reliability.node import Node

_MEBIBYTE: Final = 2**20


def limit_faults() -> Iterator[Fault]:
    """By control groups first."""
    group = Group.LIMITS
    space = resource.RLIMIT_AS
    files = resource.RLIMIT_NOFILE
    yield from (
        Fault(group, "no more tasks are allowed (control group)", prepare=_group("tasks"), plant=_limit_tasks(0), lift=_unlimit_group),
        Fault(group, "two more tasks are allowed (control group)", prepare=_group("tasks"), plant=_limit_tasks(2), lift=_unlimit_group),
        Fault(group, "20 tasks are allowed, as the agent starts (control group)", prepare=_group("tasks", 20), lift=_unlimit_group, is_at_start=True),
        Fault(group, "30 tasks are allowed, and 60 clients are silent (control group)", prepare=_group("tasks", 30), plant=_silent_clients(60), lift=_close_sockets),
        Fault(group, "20 tasks are allowed, and 60 clients are silent (control group)", prepare=_group("tasks", 20), plant=_silent_clients(60), lift=_close_sockets),
        Fault(group, "2 MiB more memory is allowed (control group)", prepare=_group("memory"), plant=_limit_memory(2), lift=_unlimit_group),
        Fault(group, "16 MiB more memory is allowed (control group)", prepare=_group("memory"), plant=_limit_memory(16), lift=_unlimit_group),
        Fault(group, "a tenth of a processor is allowed (control group)", prepare=_group("processor"), plant=_limit_processor(10), lift=_unlimit_group),
        Fault(group, "no more memory can be had (RLIMIT_AS)", plant=limit(space, _address_space), lift=unlimit(space)),
        Fault(group, "no more threads can be started (RLIMIT_AS)", plant=limit(space, _address_space_without_stacks), lift=unlimit(space)),
        Fault(group, "no more data can be had (RLIMIT_DATA)", plant=limit(resource.RLIMIT_DATA, lambda _: 0), lift=unlimit(resource.RLIMIT_DATA)),
        Fault(group, "no more files can be opened (RLIMIT_NOFILE)", plant=limit(files, open_files), lift=unlimit(files)),
        Fault(group, "five more files can be opened (RLIMIT_NOFILE)", plant=limit(files, lambda node: open_files(node) + 5), lift=unlimit(files)),
        Fault(group, "64 files can be opened, as the agent starts, and 200 clients are silent (RLIMIT_NOFILE)", prepare=_few_files, plant=_silent_clients(200), lift=_close_sockets),
    )  # fmt: skip


def limit(kind: int, amount: Callable[[Node], int]) -> Callable[[Node], None]:
    """Lower a limit of the agent's process."""

    def plant(node: Node) -> None:
        hard = resource.prlimit(node.pid, kind)[1]
        resource.prlimit(node.pid, kind, (amount(node), hard))

    return plant


def unlimit(kind: int) -> Callable[[Node], None]:
    """Raise it again."""

    def lift(node: Node) -> None:
        hard = resource.prlimit(node.pid, kind)[1]
        resource.prlimit(node.pid, kind, (hard, hard))

    return lift


def open_files(node: Node) -> int:
    """How many the agent has."""
    return len(list(Path(f"/proc/{node.pid}/fd").iterdir()))


def _group(limited: str, number: int | None = None) -> Callable[[Node], None]:
    def prepare(node: Node) -> None:
        group = ControlGroup.create(limited)
        node.held.append(group)
        group.limit(number)
        node.prefix = group.joining

    return prepare


def _group_of(node: Node) -> ControlGroup:
    return next(resource for resource in node.held if isinstance(resource, ControlGroup))


def _limit_tasks(more: int) -> Callable[[Node], None]:
    def plant(node: Node) -> None:
        tasks = len(list(Path(f"/proc/{node.pid}/task").iterdir()))
        _group_of(node).limit(tasks + more)

    return plant


def _limit_memory(more_mebibytes: int) -> Callable[[Node], None]:
    def plant(node: Node) -> None:
        anonymous = memory_mebibytes(node.pid, "RssAnon")
        _group_of(node).limit(int((anonymous + more_mebibytes) * _MEBIBYTE))

    return plant


def _limit_processor(percent: int) -> Callable[[Node], None]:
    return lambda node: _group_of(node).limit(percent)


def _unlimit_group(node: Node) -> None:
    _group_of(node).limit(None)


def _silent_clients(count: int) -> Callable[[Node], None]:
    def plant(node: Node) -> None:
        for _ in range(count):
            node.connect()

    return plant


def _close_sockets(node: Node) -> None:
    for connection in [held for held in node.held if not isinstance(held, ControlGroup)]:
        connection.close()
        node.held.remove(connection)


def _few_files(node: Node) -> None:
    node.prefix = ("prlimit", "--nofile=64:64")


def _address_space(node: Node) -> int:
    pages = int(Path(f"/proc/{node.pid}/statm").read_text("ascii").split()[0])
    return pages * resource.getpagesize()


def _address_space_without_stacks(node: Node) -> int:
    return _address_space(node) + 6 * _MEBIBYTE
