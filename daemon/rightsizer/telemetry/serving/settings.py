"""Settings of serving engines: addresses, polling, and the GPUs they run on."""

import re
from collections import Counter
from enum import StrEnum
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Struct

from rightsizer.io.http_settings import checked_url
from rightsizer.model.values import CONSTANT, Spec

_USUAL_PATH: Final = "/metrics"
_PLAIN: Final = re.compile("[!-~]+")
"""Valid characters of an address: no spaces, ASCII only."""


class EngineName(StrEnum):
    """Supported serving engines."""

    AUTO = "auto"
    """Detected by the metrics on the page."""
    VLLM = "vllm"
    SGLANG = "sglang"
    TRITON = "triton"
    TGI = "tgi"
    TENSORRT_LLM = "tensorrt-llm"
    LMDEPLOY = "lmdeploy"
    LLAMA_CPP = "llama.cpp"
    NIM = "nim"


class ServingEndpoint(Struct, frozen=True):
    """Metrics endpoint of one serving engine, and the GPUs it runs on.

    Raises:
        ValueError: `url` is not an address.

    Attributes:
        url: Metrics address of one engine, never of a balancer; default path /metrics.
        engine: Engine type; auto to detect it from its metrics.
        gpus: The engine's GPUs, by uuid or index; empty to find them by owner.
        workload: Shell pattern of the owning workload's name; empty for any.
        namespace: Shell pattern of the owning workload's namespace; empty for any.
        pod: Shell pattern of the pod's name; empty for any.
    """

    url: str
    engine: EngineName = EngineName.AUTO
    gpus: tuple[str, ...] = ()
    workload: str = ""
    namespace: str = ""
    pod: str = ""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            is_usable = False
        if not is_usable or not _PLAIN.fullmatch(self.url):
            raise ValueError(
                f"url: '{self.url}' is not an address; write it like 'http://127.0.0.1:8000/metrics'"
            )
        checked_url(self.url, "url: ")

    @property
    def address(self) -> str:
        """Address with its path filled in."""
        parts = urlsplit(self.url)
        return parts._replace(path=parts.path.rstrip("/") or _USUAL_PATH).geturl()

    @property
    def name(self) -> str:
        """Name among the collectors."""
        parts = urlsplit(self.address)
        return f"serving/{parts.netloc}{'' if parts.path == _USUAL_PATH else parts.path}"


class ServingTelemetrySettings(Struct, frozen=True):
    """Serving engines whose queue, cache and latency are read.

    Raises:
        ValueError: two endpoints have the same address.

    Attributes:
        endpoints: Serving engines of this node, one entry per metrics page.
        interval_seconds: Time between scrapes of an engine.
            Source: twenty histograms and their gauges, a page of vLLM's size, take 3 ms to read
        timeout_seconds: Time limit for an engine to answer.
        hold_intervals: Intervals for which the last page stays valid.
            Source: docs/definitions.md, states: slower signals hold for two of their own intervals
        page_maximum_bytes: Maximum size of a metrics page; a larger one is rejected.
            Source: twenty histograms of sixteen data-parallel engines are 0.9 MB
    """

    endpoints: tuple[ServingEndpoint, ...] = ()
    interval_seconds: Annotated[float, Spec(within=(1.0, 300.0))] = 5.0
    timeout_seconds: Annotated[float, Spec(within=(0.1, 60.0))] = 2.0
    hold_intervals: Annotated[float, Spec(within=(1.0, 10.0)), CONSTANT] = 2.0
    page_maximum_bytes: Annotated[int, Spec(within=(1024, None)), CONSTANT] = 8 * 2**20

    def __post_init__(self) -> None:
        counts = Counter(endpoint.name for endpoint in self.endpoints)
        for name, count in counts.items():
            if count > 1:
                address = name.removeprefix("serving/")
                raise ValueError(f"endpoints: '{address}' is listed {count} times; list it once")
