"""Settings of a dcgm-exporter as a source."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Struct

from rightsizer.io.http_settings import HttpSettings, checked_url
from rightsizer.model.values import CONSTANT, Spec

_OUR_PATH = "/metrics/dcgm"


class DcgmSettings(Struct, frozen=True):
    """The node's dcgm-exporter as a source; disabled unless `url` is set.

    Raises:
        ValueError: `url` is not an address, or is that of an agent's own page.

    Attributes:
        url: Metrics address of this node's dcgm-exporter, such as http://localhost:9400/metrics.
        interval_seconds: Time between scrapes; values are valid for at most two.
            Source: dcgm-exporter collects every 30 s unless told otherwise: twice as often loses no
            collection
        timeout_seconds: Time limit for the exporter to accept a connection, and to answer.
        longest_age_seconds: Maximum age of a timestamped value, or of an unchanged energy counter.
            Raise it if the exporter collects less often than every 30 s.
            Source: two collections of a dcgm-exporter, which collects every 30 s
        lost_retention_seconds: How long a GPU known only from the exporter is reported as down.
        response_maximum_bytes: Maximum size of a response; a larger one is rejected.
            Source: 64 MIG instances with 60 metrics each, and room for long labels
        token_file: File with a bearer token, read for every request.
        ca_file: PEM file with the certificate authorities to trust; empty for the system's.
    """

    url: str = ""
    interval_seconds: Annotated[float, Spec(within=(0.1, 600.0))] = 15.0
    timeout_seconds: Annotated[float, Spec(within=(0.1, 60.0))] = 5.0
    longest_age_seconds: Annotated[float, Spec(within=(1.0, 3600.0))] = 60.0
    lost_retention_seconds: Annotated[float, Spec(within=(0.0, 2592000.0))] = 86400.0
    response_maximum_bytes: Annotated[int, Spec(within=(1024, None)), CONSTANT] = 8 * 2**20
    token_file: str = ""
    ca_file: str = ""

    def __post_init__(self) -> None:
        if not self.url:
            return
        checked_url(self.url, "url: ")
        if urlsplit(self.url).path.rstrip("/").endswith(_OUR_PATH):
            raise ValueError(
                f"url: '{self.url}' is where Rightsizer itself writes in dcgm-exporter's manner; "
                "name the address of a dcgm-exporter, or leave url empty"
            )

    @property
    def address(self) -> str:
        """Address of the page, with `/metrics` if the operator set no path."""
        return self.url if urlsplit(self.url).path.strip("/") else f"{self.url.rstrip('/')}/metrics"

    @property
    def http(self) -> HttpSettings:
        """Settings of the client; no retries, since the next poll is one."""
        return HttpSettings(
            timeout_seconds=self.timeout_seconds,
            tries=1,
            response_maximum_bytes=self.response_maximum_bytes,
            ca_file=self.ca_file,
        )

    def token(self) -> str | None:
        """Read the current bearer token; the file must be readable."""
        return Path(self.token_file).read_text("utf-8").strip() if self.token_file else None
