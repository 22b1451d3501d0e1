"""What an operator may change about the HTTP server."""

from dataclasses import dataclass, field

from rightsizer.domain.settings import setting
from rightsizer.publish.web.toolkit.password_settings import PasswordSettings
from rightsizer.publish.web.view import FitSettings

__all__ = ["WebSettings"]


@dataclass(frozen=True, slots=True)
class WebSettings:
    """How much the server takes upon itself, and how patient it is."""

    connections_maximum: int = setting(
        24,
        help="Connections held at once, a thread each; the one that idles longest gives way.",
        minimum=2,
        maximum=1024,
        source="within the unit's TasksMax=64",
    )
    request_timeout_seconds: float = setting(
        10.0,
        help="How long a client may take over a request, or over reading its answer.",
        unit="seconds",
        minimum=0.1,
        maximum=300.0,
        source="Prometheus's default scrape timeout",
    )
    keep_alive_seconds: float = setting(
        90.0,
        help="How long a connection is kept between two requests.",
        unit="seconds",
        minimum=1.0,
        maximum=3600.0,
        source="above Prometheus's default scrape interval of 60 s",
    )
    body_limit_bytes: int = setting(
        65536,
        help="The largest request body that is read.",
        unit="bytes",
        minimum=0,
        maximum=1_048_576,
    )
    head_limit_bytes: int = setting(
        65536,
        help="The longest head of a request that is read, with all its headers.",
        unit="bytes",
        minimum=16384,
        maximum=1_048_576,
        source="far above what browsers and proxies send",
    )
    page_refresh_seconds: float = setting(
        60.0,
        help="How often the page renews itself where scripts do not run; 0 for never, in any way.",
        unit="seconds",
        minimum=0.0,
        maximum=3600.0,
    )
    page_poll_seconds: float = setting(
        5.0,
        help="How often the page's script asks for new figures, at most once a sample.",
        unit="seconds",
        minimum=1.0,
        maximum=3600.0,
    )
    fit: FitSettings = field(default_factory=FitSettings)
    passwords: PasswordSettings = field(default_factory=PasswordSettings)
