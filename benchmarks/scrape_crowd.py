"""Ten concurrent scrapers of a real agent, alone and beside hostile clients."""

import base64
import contextlib
import http.client
import itertools
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import bcrypt

from agent_process import agent_process
from benchmarks.options import Options
from measured import Figure, quantile
from web_certificates import Authority

_MOST_MILLISECONDS: Final = 100.0
_SCRAPERS: Final = 10
_ROUNDS: Final = 20
_PAUSE_SECONDS: Final = 0.25
_SILENT: Final = 1000
_ELSEWHERE: Final = "127.0.0.2"
"""An address of this machine that is not the scrapers'."""
_PASSWORD: Final = b"alice:secret"

_Dial = Callable[[], http.client.HTTPConnection]


def measure(_: Options) -> Iterator[Figure]:
    """The slowest of all scrapes is promised: alone, in the crowd, over TLS, under guesses."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flags = ("--simulated.scenario", "eight-gpu-node", "--history.path", "")
        listen = ("--web.listen-address", "127.0.0.1:0")
        with agent_process(folder, *flags, *listen, is_measured=True) as agent:
            yield from _crowds("plain", agent.address, lambda: _plain(agent.address))
        authority = Authority.made(folder / "ca")
        authority.sign("server", "IP:127.0.0.1")
        hashed = bcrypt.hashpw(_PASSWORD.partition(b":")[2], bcrypt.gensalt(10)).decode()
        web = authority.folder / "web.yml"
        web.write_text(
            "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"
            f"basic_auth_users: {{alice: {hashed}}}\n"
        )
        context = ssl.create_default_context(cafile=authority.certificate)

        def secured(address: str) -> http.client.HTTPConnection:
            return http.client.HTTPSConnection(address, context=context, timeout=20)

        with agent_process(
            folder,
            *flags,
            *listen,
            "--web.config.file",
            str(web),
            answers=lambda address: _scrape(secured(address)) > 0,
            is_measured=True,
        ) as agent:
            yield from _crowds("TLS, user", agent.address, lambda: secured(agent.address))
            with _guesses(lambda: secured(agent.address)):
                yield from _scrapes("TLS, user, under guesses", lambda: secured(agent.address))


def _crowds(name: str, address: str, dial: _Dial) -> Iterator[Figure]:
    yield from _scrapes(name, dial)
    with _silent(address):
        yield from _scrapes(f"{name}, beside {_SILENT:,} silent connections", dial)


def _scrapes(name: str, dial: _Dial) -> Iterator[Figure]:
    """Ten scrapers that ask at the same moment, a few times a second."""
    times: list[float] = []
    start = threading.Barrier(_SCRAPERS)

    def scrape() -> None:
        connection = dial()
        _scrape(connection)
        for _ in range(_ROUNDS):
            start.wait()
            times.append(1e3 * _scrape(connection))
            time.sleep(_PAUSE_SECONDS)
        connection.close()

    threads = [threading.Thread(target=scrape) for _ in range(_SCRAPERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    yield Figure(f"{name}: ten at once, p50", quantile(times, 0.5), "ms", is_row=True)
    yield Figure(f"{name}: ten at once, slowest", max(times), "ms", _MOST_MILLISECONDS)


@contextlib.contextmanager
def _silent(address: str) -> Iterator[None]:
    """Hold a thousand silent connections; reopen each that is closed."""
    host, _, port = address.rpartition(":")
    stop = threading.Event()
    with ExitStack() as stack:

        def dial() -> None:
            with contextlib.suppress(OSError):
                stack.enter_context(
                    socket.create_connection(
                        (host, int(port)), timeout=5, source_address=(_ELSEWHERE, 0)
                    )
                )

        for _ in range(_SILENT):
            dial()

        def go_on() -> None:
            while not stop.wait(0.02):
                dial()

        thread = threading.Thread(target=go_on)
        thread.start()
        yield
        stop.set()
        thread.join()


@contextlib.contextmanager
def _guesses(dial: _Dial) -> Iterator[None]:
    """Four clients that try passwords without a pause."""
    stop = threading.Event()
    number = itertools.count()

    def guess() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                _scrape(dial(), b"alice:%d" % next(number))

    threads = [threading.Thread(target=guess) for _ in range(4)]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


def _plain(address: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(address, timeout=20)


def _scrape(connection: http.client.HTTPConnection, user: bytes = _PASSWORD) -> float:
    """Seconds of a scrape."""
    started = time.perf_counter()
    headers = {"Authorization": f"Basic {base64.b64encode(user).decode()}"}
    connection.request("GET", "/metrics", headers=headers)
    connection.getresponse().read()
    return time.perf_counter() - started
