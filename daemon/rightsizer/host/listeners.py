"""Process that listens at a TCP address, from procfs."""

import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LISTENING: Final = "0A"
_WORD_DIGITS: Final = 8
_MAPPED: Final = bytes(10) + b"\xff\xff"
"""What IPv4 addresses of IPv6 sockets begin with."""


def listening_process(host: str, port: int, procfs: Path = Path("/proc")) -> tuple[int, str] | None:
    """Return pid and command name of who listens at an address; `None` for other users' processes.

    An empty host is every interface. Of processes that share the socket, the first is returned, and
    systemd, which holds the sockets of its units too, last.
    """
    wanted = {f"socket:[{inode}]" for inode in _inodes(host, port, procfs)}
    pids = (int(folder.name) for folder in procfs.glob("[0-9]*")) if wanted else ()
    for pid in sorted(pids, key=lambda pid: (pid == 1, pid)):
        folder = procfs / str(pid)
        # Processes end meanwhile, and those of other users are closed.
        with contextlib.suppress(OSError):
            if any(str(file.readlink()) in wanted for file in (folder / "fd").iterdir()):
                name = (folder / "comm").read_text(encoding="utf-8", errors="replace")
                return pid, name.strip()
    return None


def _inodes(host: str, port: int, procfs: Path) -> list[str]:
    """Return the sockets that a listener at an address collides with, of the closest kind."""
    inodes_by_rank: dict[int, list[str]] = {}
    asked = _addresses(host, port)
    for local, inode in _listeners(port, procfs):
        ranks = [rank for address in asked if (rank := _collision_rank(address, local)) is not None]
        if ranks:
            inodes_by_rank.setdefault(min(ranks), []).append(inode)
    return inodes_by_rank[min(inodes_by_rank)] if inodes_by_rank else []


def _addresses(host: str, port: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        entries = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # An address of one interface has a scope: `fe80::1%eth0`.
        return [
            socket.inet_pton(family, str(place[0]).partition("%")[0])
            for family, *_, place in entries
        ]
    return []


def _collision_rank(asked: bytes, local: bytes) -> int | None:
    """Return `None` for addresses that can be bound beside each other.

    Whether an IPv6 wildcard takes IPv4 too, procfs does not tell: the least close.
    """
    if asked == local:
        return 0
    is_asked_any = not any(asked)
    is_local_any = not any(local)
    if len(asked) == len(local):
        return 1 if is_asked_any or is_local_any else None
    is_six_any = is_asked_any if len(asked) > len(local) else is_local_any
    return 2 if is_six_any else None


def _listeners(port: int, procfs: Path) -> Iterator[tuple[bytes, str]]:
    for table in ("net/tcp", "net/tcp6"):
        with contextlib.suppress(OSError):
            for line in (procfs / table).read_text(encoding="ascii").splitlines()[1:]:
                _, local, _, state, *rest = line.split()
                address, _, digits = local.rpartition(":")
                if state == _LISTENING and int(digits, 16) == port:
                    yield _of_hex(address), rest[5]


def _of_hex(digits: str) -> bytes:
    """Return the packed address of words of 32 bits, each in the machine's byte order."""
    words = (int(digits[at : at + _WORD_DIGITS], 16) for at in range(0, len(digits), _WORD_DIGITS))
    return b"".join(word.to_bytes(4, sys.byteorder) for word in words).removeprefix(_MAPPED)
