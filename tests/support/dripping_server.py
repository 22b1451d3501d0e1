"""Server whose answers come a byte at a time, for a minute."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PAUSE_SECONDS = 0.05
_BYTES = 1200


@contextmanager
def dripping_server(start: bytes) -> Iterator[str]:
    """Answer one request with `start`, then with a byte at a time; yields the address."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError), server.accept()[0] as client:
                client.recv(65536)
                client.sendall(start)
                for _ in range(_BYTES):
                    if ended.wait(_PAUSE_SECONDS):
                        return
                    client.sendall(b"H")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield "{}:{}".format(*server.getsockname())
        ended.set()
        thread.join()
