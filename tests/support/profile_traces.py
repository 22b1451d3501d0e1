"""Traces as PyTorch's profiler writes them, made event by event."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

__all__ = ["SECRETS", "KinetoTrace"]

SECRETS = {
    "HF_TOKEN": "hf_planted0secret1of2many3",
    "AWS_SECRET_ACCESS_KEY": "planted/aws+secret",
    "USER": "planted-person",
    "HOSTNAME": "planted-host.example",
    "HOME": "/home/planted-person",
}
"""Possible secrets in a recorder's environment; none may leak."""


class KinetoTrace:
    """One rank's trace; times are in microseconds, as in the files."""

    def __init__(self, **top: Any) -> None:
        """Start empty, with these keys beside the events."""
        self.top: dict[str, Any] = {"schemaVersion": 1, **top}
        self.events: list[Any] = []

    def complete(
        self, category: str, name: str, start: float, duration: float, **arguments: Any
    ) -> Self:
        """An event with a start and a duration."""
        return self.add(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": arguments.get("device", 4711),
                "tid": arguments.get("stream", 4711),
                "ts": start,
                "dur": duration,
                "args": arguments,
            }
        )

    def kernel(self, name: str, start: float, duration: float, **arguments: Any) -> Self:
        """A kernel of device 0, if no other is named."""
        return self.complete(
            "kernel", name, start, duration, **{"device": 0, "stream": 7, **arguments}
        )

    def fill(self, start: float, duration: float) -> Self:
        """Memory of the device that is set."""
        return self.complete(
            "gpu_memset", "Memset (Device)", start, duration, bytes=4096, device=0, stream=7
        )

    def launch(self, correlation: int, start: float, duration: float) -> Self:
        """The call that launched the event of the same number."""
        return self.complete(
            "cuda_runtime", "cudaLaunchKernel", start, duration, correlation=correlation
        )

    def annotation(self, name: str, start: float, duration: float) -> Self:
        """A span that the program or its framework named."""
        return self.complete("user_annotation", name, start, duration)

    def add(self, event: Any) -> Self:
        """Any other event."""
        self.events.append(event)
        return self

    def document(self) -> Mapping[str, Any]:
        """The whole, as it is written; the events stand between other keys."""
        return {**self.top, "traceEvents": self.events, "traceName": "/home/planted-person/t.json"}

    def write(self, folder: Path, name: str = "rank0.pt.trace.json") -> Path:
        """Write it; packed if the name says so."""
        path = folder / name
        data = json.dumps(self.document()).encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path
