"""Settings of the HTTP server: addresses, limits, passwords, colors of fits."""

import re
from collections.abc import Sequence
from typing import Final

from rightsizer.exposition.settings import MetricsSettings
from rightsizer.model.errors import UsageError
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import LIVE, setting


@dataclass(frozen=True, slots=True)
class PasswordSettings:
    """How much work strangers may cause, and how many of them may wait.

    Attributes:
        share_ratio: The most of one core that wrong passwords and the connections on which they
            come may take.
            Source: half of the unit's CPUQuota=20%
        pause_maximum_seconds: Longest delay after a wrong password.
        wait_seconds: How long a password waits for its check before it is answered 429.
            Source: half of Prometheus's default scrape timeout
        waiting_maximum: Passwords that wait for their check at once, and connections for their
            turn.
        waiting_per_client: Those of them from one address, so that one client never keeps others
            waiting.
        remembered_maximum: Checked passwords that are remembered, right ones and wrong ones each.
            Source: what the exporter toolkit remembers
    """

    share_ratio: float = setting(0.1, within=(0.001, 1.0))
    pause_maximum_seconds: float = setting(2.0, within=(0.0, 10.0))
    wait_seconds: float = setting(5.0, within=(0.1, 60.0))
    waiting_maximum: int = setting(8, within=(1, 1000))
    waiting_per_client: int = setting(2, within=(1, 1000))
    remembered_maximum: int = setting(100, within=(1, 10000))


_FORM: Final = re.compile(r"(?:\[(?P<six>[^\[\]]+)\]|(?P<host>[^\[\]:]*)):(?P<port>[0-9]{1,5})")
_PORT_MAXIMUM: Final = 65535


@dataclass(frozen=True, slots=True)
class Address:
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


@dataclass(frozen=True, slots=True)
class FitSettings:
    """From when on a fit gets which color; gauges and advice do not depend on it.

    Attributes:
        tight_need_ratio: Need of a resource from which its fit is shown as tight.
            Source: less is left than the margin that need already holds
        headroom_need_ratio: Need of a resource below which it is shown to have headroom.
            Source: half a device would do
        short_ratio: Share of the time under pressure from which a fit is shown as too small.
            Source: the accounting's own threshold for an under-provisioned device
    """

    tight_need_ratio: float = setting(0.85)
    headroom_need_ratio: float = setting(0.5)
    short_ratio: float = setting(0.05, within=(0.001, 1.0))


@dataclass(frozen=True, slots=True)
class WebSettings:
    """How much the server takes upon itself, and how patient it is.

    Attributes:
        connections_maximum: Connections held at once, a thread each; the one that idles longest
            gives way.
            Source: within the unit's TasksMax=64
        request_timeout_seconds: How long a client may take over a request, or over reading its
            answer.
            Source: Prometheus's default scrape timeout
        keep_alive_seconds: How long a connection is kept between two requests.
            Source: above Prometheus's default scrape interval of 60 s
        body_limit_bytes: The largest request body that is read.
        head_limit_bytes: The longest head of a request that is read, with all its headers.
            Source: far above what browsers and proxies send
        page_refresh_seconds: How often the page renews itself where scripts do not run; 0 for
            never, in any way.
        page_poll_seconds: How often the page's script asks for new figures, at most once a sample.
        plan_form: Serve the form of `rightsizer plan` at /plan; each plan is a process of its own.
        plan_timeout_seconds: How long a plan of the form may take.
            Source: some ten times what a plan over all boards takes
    """

    connections_maximum: int = setting(24, within=(2, 1024))
    request_timeout_seconds: float = setting(10.0, within=(0.1, 300.0))
    keep_alive_seconds: float = setting(90.0, within=(1.0, 3600.0))
    body_limit_bytes: int = setting(65536, within=(0, 1_048_576))
    head_limit_bytes: int = setting(65536, within=(16384, 1_048_576))
    page_refresh_seconds: float = setting(60.0, within=(0.0, 3600.0))
    page_poll_seconds: float = setting(5.0, within=(1.0, 3600.0))
    plan_form: bool = setting(False)
    plan_timeout_seconds: float = setting(20.0, within=(1.0, 300.0))
    fit: FitSettings = field(default_factory=FitSettings)
    passwords: PasswordSettings = field(default_factory=PasswordSettings)


@dataclass(frozen=True, slots=True)
class WebTree:
    """Where and how HTTP is served.

    Attributes:
        listen_addresses: Addresses to listen on, as host:port, :port or [::1]:port.
        config_file: A file of TLS, users, headers and limits, in the format of all Prometheus
            exporters; empty for plain HTTP without users.
        enable_lifecycle: Take /-/reload over TCP, and from those who prove who they are whatever
            changes something.
        telemetry_path: Where the metrics are.
        route_prefix: What every path begins with, like /gpu, behind a proxy that passes paths on.
        systemd_socket: Listen on the sockets that systemd hands over, and not on the addresses.
    """

    listen_addresses: tuple[str, ...] = setting((":19400",))
    config_file: str = setting("")
    enable_lifecycle: bool = setting(False)
    telemetry_path: str = setting("/metrics")
    route_prefix: str = setting("")
    systemd_socket: bool = setting(False)
    server: WebSettings = field(default_factory=WebSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings, metadata=LIVE)

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
    for each in addresses:
        if each.port and addresses.count(each) > 1:
            raise UsageError(f"'{each}' is listed twice; list it once")
