"""A scripted dcgm-exporter on loopback, and pages for it to serve."""

import gzip
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

BUSY: Final = "GPU-00000000-aaaa-4000-8000-000000000001"
OTHER: Final = "GPU-00000000-aaaa-4000-8000-000000000002"

USUAL: Final[Mapping[str, float]] = {
    "DCGM_FI_DEV_SM_CLOCK": 1410,
    "DCGM_FI_DEV_GPU_TEMP": 55,
    "DCGM_FI_DEV_POWER_USAGE": 231.5,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 7_000_000,
    "DCGM_FI_DEV_GPU_UTIL": 97,
    "DCGM_FI_DEV_FB_FREE": 61_440,
    "DCGM_FI_DEV_FB_USED": 20_480,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.875,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.25,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.5,
}


def lines(uuid: str, values: Mapping[str, float | str], **labels: str) -> str:
    """Samples of one device in the format of the current exporter."""
    usual = {"gpu": "0", "UUID": uuid, "modelName": "NVIDIA A100-SXM4-80GB"}
    text = ",".join(f'{name}="{value}"' for name, value in {**usual, **labels}.items())
    return "".join(f"{name}{{{text}}} {value}\n" for name, value in values.items())


def page(energy: float = 7_000_000, uuid: str = BUSY, **labels: str) -> str:
    """An active GPU; its energy distinguishes collections."""
    return lines(uuid, {**USUAL, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": energy}, **labels)


@dataclass
class Exporter:
    """The served page and behavior."""

    url: str
    text: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    packed: bool = False
    drip_seconds: float = 0.0
    """Delay between two bytes of the response."""
    hangs: threading.Event | None = None
    """Until this is set, there is no response."""
    requests: list[dict[str, str]] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    exporter: Exporter
    stop: threading.Event

    def do_GET(self) -> None:
        """Serve the page."""
        exporter = self.exporter
        exporter.requests.append(dict(self.headers))
        if exporter.hangs is not None:
            exporter.hangs.wait(10)
        raw = exporter.text.encode()
        self.send_response(exporter.status)
        for name, value in exporter.headers.items():
            self.send_header(name, value)
        if exporter.packed:
            raw = gzip.compress(raw)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        try:
            self._write(raw)
        except OSError:
            self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""

    def _write(self, raw: bytes) -> None:
        if not self.exporter.drip_seconds:
            self.wfile.write(raw)
            return
        for byte in raw:
            if self.stop.wait(self.exporter.drip_seconds):
                return
            self.wfile.write(bytes([byte]))


@contextmanager
def dcgm_exporter(text: str = "") -> Iterator[Exporter]:
    """An exporter for the duration of the block."""
    stop = threading.Event()
    handler: Any = type("Handler", (_Handler,), {"stop": stop})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        exporter = Exporter(f"http://127.0.0.1:{server.server_address[1]}/metrics", text)
        handler.exporter = exporter
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield exporter
        finally:
            stop.set()
            if exporter.hangs is not None:
                exporter.hangs.set()
            server.shutdown()
            thread.join()
