"""The sockets that systemd has opened for this process (sd_listen_fds(3))."""

import os
import socket
from collections.abc import Mapping
from typing import Final

from rightsizer.domain.errors import RightsizerError

__all__ = ["activated_sockets"]

_FIRST_DESCRIPTOR: Final = 3


def activated_sockets(
    environ: Mapping[str, str] = os.environ, first: int = _FIRST_DESCRIPTOR
) -> list[socket.socket]:
    """The listening sockets that were handed over.

    Raises:
        RightsizerError: there is none, or one is no listening TCP socket.
    """
    count = environ.get("LISTEN_FDS", "")
    if environ.get("LISTEN_PID") != str(os.getpid()) or not count.isdecimal() or count == "0":
        raise RightsizerError(
            "--web.systemd-socket: no socket was handed over; start the agent by a .socket unit, "
            "or leave the flag out and use --web.listen-address"
        )
    return [_listening(first + number) for number in range(int(count))]


def _listening(descriptor: int) -> socket.socket:
    try:
        # Commands that the agent runs have no use for it.
        os.set_inheritable(descriptor, False)
        handed = socket.socket(fileno=descriptor)
        is_listening = handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise RightsizerError(
            f"--web.systemd-socket: descriptor {descriptor} is no socket ({error.strerror})"
        ) from None
    if handed.family not in {socket.AF_INET, socket.AF_INET6} or not is_listening:
        handed.close()
        raise RightsizerError(
            f"--web.systemd-socket: descriptor {descriptor} does not listen for TCP; write "
            "ListenStream=PORT into the .socket unit (commands have path.api_socket of their own)"
        )
    return handed
