"""Settings of the HTTP server: addresses, limits, passwords, colors of fits."""

import re
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.exposition.settings import MetricsSettings
from rightsizer.model.errors import UsageError
from rightsizer.model.settings import CONSTANT, LIVE, Spec


class PasswordSettings(Struct, frozen=True):
    """Limits on the cost of password checks and on waiting clients.

    Attributes:
        share_ratio: Maximum share of one core spent on wrong passwords and their connections.
            Source: half of the unit's CPUQuota=20%
        pause_maximum_seconds: Maximum delay after a wrong password.
        wait_seconds: Time a password waits for its check before status 429.
            Source: half of Prometheus's default scrape timeout
        waiting_maximum: Maximum passwords waiting for a check, and connections waiting for a turn.
        waiting_per_client: Maximum of these per client address, so that none can block the others.
        remembered_maximum: Check results cached, for correct and for wrong passwords each.
            Source: what the exporter toolkit remembers
    """

    share_ratio: Annotated[float, Spec(within=(0.001, 1.0))] = 0.1
    pause_maximum_seconds: Annotated[float, Spec(within=(0.0, 10.0))] = 2.0
    wait_seconds: Annotated[float, Spec(within=(0.1, 60.0))] = 5.0
    waiting_maximum: Annotated[int, Spec(within=(1, 1000))] = 8
    waiting_per_client: Annotated[int, Spec(within=(1, 1000))] = 2
    remembered_maximum: Annotated[int, Spec(within=(1, 10000))] = 100


_FORM: Final = re.compile(r"(?:\[(?P<six>[^\[\]]+)\]|(?P<host>[^\[\]:]*)):(?P<port>[0-9]{1,5})")
_PORT_MAXIMUM: Final = 65535


class Address(Struct, frozen=True):
    """Host and port; an empty host means every interface, port 0 any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return format_address(self.host, self.port)


def format_address(host: str, port: int) -> str:
    """Format host and port, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> Address:
    """Parse an address.

    Raises:
        UsageError: the text is no address.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        is_six = text.count(":") > 1 and "/" not in text
        hint = "put an IPv6 host in brackets, like '[::1]:19400'" if is_six else _FORMS
        raise UsageError(f"'{text}' is not an address; {hint}")
    port = int(match["port"])
    if port > _PORT_MAXIMUM:
        raise UsageError(f"'{text}': port {port} does not exist; the highest is {_PORT_MAXIMUM}")
    return Address(match["six"] or match["host"], port)


_FORMS: Final = "write it like ':19400', '127.0.0.1:19400' or '[::1]:19400'"


def checked_path(text: str) -> str:
    """Validate a configured path.

    Raises:
        UsageError: it has no leading slash, or invalid characters.
    """
    if not text.startswith("/") or not (text.isascii() and text.isprintable()):
        raise UsageError(f"'{text}' is not a path; write it like '/metrics'")
    if set(text) & set(" ?#{}%"):
        raise UsageError(f"'{text}' has a letter that a path cannot have; write it like '/metrics'")
    return text


class FitSettings(Struct, frozen=True):
    """Color thresholds of fits on the page; metrics and recommendations do not use them.

    Attributes:
        tight_need_ratio: Share of a resource needed from which its fit is shown as tight.
            Source: less is left than the margin that need already holds
        headroom_need_ratio: Share of a resource needed below which it is shown as having headroom.
            Source: half a device would do
        short_ratio: Share of time under pressure from which a fit is shown as too small.
            Source: the accounting's own threshold for an under-provisioned device
    """

    tight_need_ratio: float = 0.85
    headroom_need_ratio: float = 0.5
    short_ratio: Annotated[float, Spec(within=(0.001, 1.0))] = 0.05


class WebSettings(Struct, frozen=True):
    """Limits and timeouts of the HTTP server.

    Attributes:
        connections_maximum: Maximum open connections, one thread each; beyond it the longest idle
            is closed.
            Source: within the unit's TasksMax=64
        request_timeout_seconds: Time limit to send a request, and to read the response.
            Source: Prometheus's default scrape timeout
        keep_alive_seconds: How long an idle connection is kept open between two requests.
            Source: above Prometheus's default scrape interval of 60 s
        body_limit_bytes: Maximum size of a request body.
        head_limit_bytes: Maximum size of a request line with all headers.
            Source: far above what browsers and proxies send
        page_refresh_seconds: Reload interval of the page without scripts; 0 for none.
        page_poll_seconds: Interval at which the page's script fetches values, at most once a
            sample.
        plan_form: Serve the form of `rightsizer plan` at /plan, and ask the planner what engines
            would need.
        plan_timeout_seconds: Time limit of a plan requested by the form.
            Source: some ten times what a plan over all boards takes
    """

    connections_maximum: Annotated[int, Spec(within=(2, 1024))] = 24
    request_timeout_seconds: Annotated[float, Spec(within=(0.1, 300.0))] = 10.0
    keep_alive_seconds: Annotated[float, Spec(within=(1.0, 3600.0))] = 90.0
    body_limit_bytes: Annotated[int, Spec(within=(0, 1_048_576)), CONSTANT] = 65536
    head_limit_bytes: Annotated[int, Spec(within=(16384, 1_048_576)), CONSTANT] = 65536
    page_refresh_seconds: Annotated[float, Spec(within=(0.0, 3600.0))] = 60.0
    page_poll_seconds: Annotated[float, Spec(within=(1.0, 3600.0))] = 5.0
    plan_form: bool = False
    plan_timeout_seconds: Annotated[float, Spec(within=(1.0, 300.0))] = 20.0
    fit: Annotated[FitSettings, CONSTANT] = FitSettings()
    passwords: Annotated[PasswordSettings, CONSTANT] = PasswordSettings()


class WebTree(Struct, frozen=True):
    """HTTP server: addresses, access and paths.

    Attributes:
        listen_addresses: Addresses to listen on, as host:port, :port or [::1]:port.
        config_file: File with TLS, users, headers and limits, in the format of the Prometheus
            exporters; empty for plain HTTP without users.
        enable_lifecycle: Accept /-/reload over TCP, and requests that change state from
            authenticated clients.
        telemetry_path: Path of the metrics.
        route_prefix: Prefix of every path, such as /gpu, behind a proxy that keeps paths.
        systemd_socket: Listen on the sockets that systemd passes, instead of on the addresses.
    """

    listen_addresses: tuple[str, ...] = (":19400",)
    config_file: str = ""
    enable_lifecycle: bool = False
    telemetry_path: str = "/metrics"
    route_prefix: str = ""
    systemd_socket: bool = False
    server: WebSettings = WebSettings()
    metrics: Annotated[MetricsSettings, LIVE] = MetricsSettings()

    def __post_init__(self) -> None:
        """Reject invalid addresses and paths."""
        try:
            key = "listen_addresses"
            _check_addresses(self.listen_addresses, is_needed=not self.systemd_socket)
            key = "telemetry_path"
            checked_path(self.telemetry_path)
            key = "route_prefix"
            checked_path(self.route_prefix or "/")
        except UsageError as error:
            raise ValueError(f"{key}: {error}") from None


def _check_addresses(texts: Sequence[str], *, is_needed: bool) -> None:
    if is_needed and not texts:
        raise UsageError(f"names no address to listen on; {_FORMS}")
    addresses = list(map(parse_address, texts))
    for address in addresses:
        if address.port and addresses.count(address) > 1:
            raise UsageError(f"'{address}' is listed twice; list it once")
