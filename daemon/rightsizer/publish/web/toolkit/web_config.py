"""What a web configuration file says, checked."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rightsizer.domain.errors import ConfigurationError
from rightsizer.domain.units import nanoseconds, parse_duration
from rightsizer.edge.yaml import YamlError, load_yaml
from rightsizer.publish.web.toolkit.section import Faults, Section
from rightsizer.publish.web.toolkit.tls import ServerContext, TlsError, server_context
from rightsizer.publish.web.toolkit.tls_section import TLS_KEYS, tls_policy

__all__ = ["RateLimit", "WebConfig", "WebConfigReader"]

_SECTIONS: Final = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")
_HEADERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""The headers that may be set, and the values that they may have; any where there are none."""
_BCRYPT: Final = re.compile(r"\$2[aby]\$(?:0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")

_Version = tuple[int, int, int, int] | None
"""What tells one version of a file from the next; `None` for a file that is not there."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How often one client may ask."""

    interval_seconds: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebConfig:
    """All that the file says; an empty one asks for nothing."""

    tls: ServerContext | None = None
    """`None` for plain HTTP."""
    offers_http2: bool = False
    """Whether HTTP/2 was asked for by name; it is never spoken."""
    headers: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Bcrypt hashes by name; whoever asks has to be one of them, unless there are none."""
    rate_limit: RateLimit | None = None


class WebConfigReader:
    """Reads one file, and knows which others belong to it."""

    def __init__(self, path: Path) -> None:
        """A reader that has read nothing yet; what the file names is relative to its folder."""
        self.path = path
        self._versions: dict[Path, _Version] = {}

    def has_changed(self, settle_seconds: float) -> bool:
        """Whether the file, or one that it names, is another than when it was last read.

        Args:
            settle_seconds: What was written to more recently may not be whole, and has not yet.
        """
        # A reading that begins meanwhile replaces the table, and changes none.
        before = self._versions
        now = {file: _version(file) for file in before}
        if now == before:
            return False
        written = max((version[0] for version in now.values() if version is not None), default=0)
        # The files' own clock is the system's; one that was set back holds nothing up.
        return not 0 <= time.time_ns() - written < nanoseconds(settle_seconds)

    def read(self) -> WebConfig:
        """What the file says now.

        Raises:
            ConfigurationError: every fault of it, one line each.
        """
        # Looked at before it is read: what is written meanwhile is a change then.
        self._versions = {self.path: _version(self.path)}
        try:
            text = self.path.read_text("utf-8-sig")
            document = load_yaml(text, str(self.path))
        except YamlError as error:
            raise ConfigurationError(" ".join(str(error).split())) from None
        except UnicodeDecodeError:
            raise ConfigurationError(f"{self.path}: is not UTF-8; save it as UTF-8") from None
        except OSError as error:
            raise ConfigurationError(
                f"{self.path}: {error.strerror}; mend --web.config.file, or leave it out for "
                "plain HTTP without users"
            ) from None
        faults = Faults(document)
        config = self._config(Section(document.data, (), _SECTIONS, faults))
        if faults:
            raise faults.error()
        return config

    def _config(self, root: Section) -> WebConfig:
        tls = self._tls(root)
        http = root.section("http_server_config", ("http2", "headers"))
        is_http2_wanted = http.flag("http2", default=True)
        return WebConfig(
            tls=tls,
            offers_http2="http2" in http and is_http2_wanted,
            headers=_headers(http.section("headers", tuple(_HEADERS))),
            users=_users(root.section("basic_auth_users")),
            rate_limit=_rate_limit(root.section("rate_limit", ("interval", "burst"))),
        )

    def _tls(self, root: Section) -> ServerContext | None:
        section = root.section("tls_server_config", TLS_KEYS)
        policy = tls_policy(section, self.path.parent)
        if policy is None:
            return None
        parts = (policy.certificate, policy.private_key, policy.client_ca)
        files = [part.file for part in parts if part is not None and part.file is not None]
        self._versions = self._versions | {file: _version(file) for file in files}
        try:
            return server_context(policy)
        except TlsError as fault:
            section.fault(fault.key, str(fault))
            return None


def _users(section: Section) -> dict[str, bytes]:
    users = section.texts()
    for name, hashed in users.items():
        if ":" in name:
            section.fault(name, "a name with a colon cannot be sent; leave the colon out")
        if not _BCRYPT.fullmatch(hashed):
            section.fault(name, "is no bcrypt hash; make one with `htpasswd -nBC 10 NAME`")
    return {name: hashed.encode() for name, hashed in users.items()}


def _version(file: Path) -> _Version:
    try:
        found = file.stat()
    except (OSError, ValueError):  # A path with a NUL in it is no path.
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size


def _headers(section: Section) -> dict[str, str]:
    headers = {name: section.text(name) for name in _HEADERS if section.text(name)}
    for name, value in headers.items():
        if _HEADERS[name] and value not in _HEADERS[name]:
            section.fault(name, f"must be {' or '.join(_HEADERS[name])}")
        if not (value.isascii() and value.isprintable()):
            section.fault(name, "must be one line of ASCII")
    return headers


def _rate_limit(section: Section) -> RateLimit | None:
    try:
        interval = section.text("interval")
        interval_seconds = parse_duration(interval) if interval not in {"", "0"} else 0.0
    except ValueError:
        section.fault("interval", "is not a duration; write it like '100ms'")
        return None
    burst = section.whole("burst", 0)
    if interval_seconds <= 0:
        return None
    if burst == 0:
        section.fault("burst", "must be 1 or more, or nobody is ever answered")
    return RateLimit(interval_seconds, burst)
