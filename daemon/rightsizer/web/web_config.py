"""Web configuration file: parsed, validated, and reread when it or a named file changes."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.config.row import Faults, Row
from rightsizer.io.files import file_bytes
from rightsizer.io.log import logger
from rightsizer.io.yaml import YamlError, load_yaml
from rightsizer.model.errors import ConfigurationError
from rightsizer.model.units import Nanoseconds, nanoseconds, parse_duration
from rightsizer.web.tls import (
    CIPHER_SUITES,
    CLIENT_AUTHENTICATION,
    CURVES,
    VERSIONS,
    Pem,
    ServerContext,
    TlsError,
    TlsPolicy,
    server_context,
)

TLS_KEYS: Final = (
    "cert",
    "cert_file",
    "key",
    "key_file",
    "client_ca",
    "client_ca_file",
    "client_auth_type",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "curve_preferences",
    "prefer_server_cipher_suites",
)
_REQUIRED: Final = "RequireAndVerifyClientCert"
_UNVERIFIED: Final = ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")
_OLD_VERSIONS: Final = ("TLS10", "TLS11")


def tls_policy(section: Row, folder: Path) -> TlsPolicy | None:
    """Parse the section; `None` if it is empty or has faults."""
    if not any(key in section for key in TLS_KEYS):
        return None
    certificate = _pem(section, "cert", folder)
    private_key = _pem(section, "key", folder)
    client_ca = _pem(section, "client_ca", folder)
    for key, found in (("cert", certificate), ("key", private_key)):
        if found is None:
            section.fault(key, f"TLS needs {key}_file (or {key})")
    authentication = _client_authentication(section, client_ca)
    sans = section.texts("client_allowed_sans")
    if sans and authentication != _REQUIRED:
        section.fault("client_allowed_sans", f"needs client_auth_type: {_REQUIRED}")
    policy = TlsPolicy(
        certificate=certificate or Pem("cert"),
        private_key=private_key or Pem("key"),
        client_ca=client_ca,
        client_authentication=authentication,
        client_allowed_sans=sans,
        minimum_version=_tls_version(section, "min_version", "TLS12"),
        maximum_version=_tls_version(section, "max_version", "TLS13"),
        cipher_suites=_known(section, "cipher_suites", CIPHER_SUITES),
        curves=_known(section, "curve_preferences", CURVES),
        prefers_own_ciphers=section.flag("prefer_server_cipher_suites", default=True),
    )
    if policy.minimum_version > policy.maximum_version:
        section.fault("min_version", "is above max_version")
    return policy if certificate is not None and private_key is not None else None


def _pem(section: Row, key: str, folder: Path) -> Pem | None:
    text = section.text(key)
    file = section.text(f"{key}_file")
    if text and file:
        section.fault(f"{key}_file", f"stands beside {key}; keep one of the two")
    if file:
        return Pem(f"{key}_file", file=folder / file)
    return Pem(key, text=text) if text else None


def _client_authentication(section: Row, client_ca: Pem | None) -> str:
    value = section.text("client_auth_type")
    if value in _UNVERIFIED:
        section.fault(
            "client_auth_type",
            f"{value} would let in certificates that no authority signed, which is not offered; "
            f"use {_REQUIRED}",
        )
        return "NoClientCert"
    chosen = section.choice("client_auth_type", tuple(CLIENT_AUTHENTICATION), "NoClientCert")
    if client_ca is not None and chosen == "NoClientCert":
        section.fault(client_ca.key, f"is of no use without client_auth_type: {_REQUIRED}")
    if client_ca is None and chosen != "NoClientCert":
        section.fault("client_auth_type", f"{chosen} needs client_ca_file (or client_ca)")
    return chosen


def _tls_version(section: Row, key: str, default: str) -> str:
    if section.text(key) in _OLD_VERSIONS:
        section.fault(key, f"{section.text(key)} is broken and is not offered; use TLS12 or TLS13")
        return default
    return section.choice(key, tuple(VERSIONS), default)


def _known(section: Row, key: str, table: Mapping[str, str]) -> tuple[str, ...]:
    words = section.texts(key)
    if unknown := [word for word in words if word not in table]:
        section.fault(key, f"unknown: {', '.join(unknown)}; choose from {', '.join(table)}")
        return ()
    return words


_SECTIONS: Final = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")
_HEADERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""Headers that may be set, with their allowed values; empty for any."""
_MOST_REQUESTS: Final = 10**9
_BCRYPT: Final = re.compile(r"\$2[aby]\$(?:0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")

_Version = tuple[int, int, int, int] | None
"""Identity of a file's version; `None` if the file is absent."""


class RateLimit(Struct, frozen=True):
    """Limit of one client's requests."""

    interval_seconds: float
    burst: int


class WebConfig(Struct, frozen=True):
    """Contents of the file; an empty one requires nothing."""

    tls: ServerContext | None = None
    """`None` for plain HTTP."""
    offers_http2: bool = False
    """Whether HTTP/2 was requested explicitly; it is not supported."""
    headers: Mapping[str, str] = {}
    users: Mapping[str, bytes] = {}
    """Bcrypt hashes by name; with any users, every client must authenticate."""
    rate_limit: RateLimit | None = None

    def __repr__(self) -> str:
        # Without the users' hashes.
        return f"{type(self).__name__}(users={sorted(self.users)})"


class WebConfigReader:
    """Reads the file, and tracks the files it names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.versions: dict[Path, _Version] = {}
        """Versions of the file and those it names, as of the last read."""

    def has_changed(self, settle_seconds: float) -> bool:
        """Whether the file, or one that it names, has changed since the last read.

        A file written within `settle_seconds` may be incomplete, and does not count as changed yet.
        """
        # A concurrent read replaces the mapping instead of changing it.
        before = self.versions
        now = {file: _version(file) for file in before}
        if now == before:
            return False
        written = max((version[0] for version in now.values() if version is not None), default=0)
        # File times are by the system clock; one that was set back causes no delay.
        return not 0 <= time.time_ns() - written < nanoseconds(settle_seconds)

    def read(self) -> WebConfig:
        """Read the file.

        Raises:
            ConfigurationError: all faults, one a line.
        """
        # Before the file is read, so that a write meanwhile counts as a change.
        self.versions = {self.path: _version(self.path)}
        try:
            text = file_bytes(self.path).decode("utf-8-sig")
            document = load_yaml(text, str(self.path))
        except YamlError as error:
            raise ConfigurationError(" ".join(str(error).split())) from None
        except UnicodeDecodeError:
            raise ConfigurationError(f"{self.path}: is not UTF-8; save it as UTF-8") from None
        except OSError as error:
            raise ConfigurationError(
                f"{self.path}: {error.strerror}; check --web.config.file, or leave it out for "
                "plain HTTP without users"
            ) from None
        faults = Faults(document, quotes_values=False)
        root = Row(document.data, (), faults)
        root.refuse_unknown(_SECTIONS)
        config = self._config(root)
        faults.refuse()
        return config

    def _config(self, root: Row) -> WebConfig:
        tls = self._tls(root)
        http = root.row("http_server_config", ("http2", "headers"))
        is_http2_wanted = http.flag("http2", default=True)
        return WebConfig(
            tls=tls,
            offers_http2="http2" in http and is_http2_wanted,
            headers=_headers(http.row("headers", tuple(_HEADERS))),
            users=_users(root.row("basic_auth_users")),
            rate_limit=_rate_limit(root.row("rate_limit", ("interval", "burst"))),
        )

    def _tls(self, root: Row) -> ServerContext | None:
        section = root.row("tls_server_config", TLS_KEYS)
        policy = tls_policy(section, self.path.parent)
        if policy is None:
            return None
        parts = (policy.certificate, policy.private_key, policy.client_ca)
        files = [part.file for part in parts if part is not None and part.file is not None]
        self.versions = self.versions | {file: _version(file) for file in files}
        try:
            return server_context(policy)
        except TlsError as fault:
            section.fault(fault.key, str(fault))
            return None


def _users(section: Row) -> dict[str, bytes]:
    users = section.text_by_key()
    for name, hashed in users.items():
        if ":" in name:
            section.fault(name, "a name with a colon cannot be sent; leave the colon out")
        if not _BCRYPT.fullmatch(hashed):
            section.fault(name, "is no bcrypt hash; make one with `htpasswd -nBC 10 NAME`")
    return {name: hashed.encode() for name, hashed in users.items()}


def _version(file: Path) -> _Version:
    try:
        found = file.stat()
    except (OSError, ValueError):  # A path with a NUL is invalid.
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size


def _headers(section: Row) -> dict[str, str]:
    headers = {name: text for name in _HEADERS if (text := section.text(name))}
    for name, value in headers.items():
        if _HEADERS[name] and value not in _HEADERS[name]:
            section.fault(name, f"must be {' or '.join(_HEADERS[name])}")
        if not (value.isascii() and value.isprintable()):
            section.fault(name, "must be one line of ASCII")
    return headers


def _rate_limit(section: Row) -> RateLimit | None:
    try:
        interval = section.text("interval") or ""
        interval_seconds = parse_duration(interval) if interval not in {"", "0"} else 0.0
    except ValueError:
        section.fault("interval", "is not a duration; write it like '100ms'")
        return None
    burst = section.count("burst", 0, _MOST_REQUESTS) or 0
    if interval_seconds <= 0:
        return None
    if burst == 0:
        section.fault("burst", "must be 1 or more, or no request is ever answered")
    return RateLimit(interval_seconds, burst)


_log: Final = logger("web")


class WebConfigFile:
    """Keeps the last valid configuration; thread-safe."""

    def __init__(
        self,
        reader: WebConfigReader,
        wall_time: Callable[[], Nanoseconds] = time.time_ns,
        settle_seconds: float = 0.1,
    ) -> None:
        """Read the file for the first time.

        A change is read once the file has not been written to for `settle_seconds`: half a file may
        require less than the whole.

        Raises:
            ConfigurationError: it has faults.
        """
        self._reader = reader
        self._wall_time = wall_time
        self._settle_seconds = settle_seconds
        self._lock = threading.Lock()
        self.trouble: str | None = None
        """Faults of the present file, or `None` if it is in force."""
        self.loaded: Nanoseconds = 0
        """Wall time of the last successful read."""
        self._config = WebConfig()
        self._take(reader.read())

    def current(self) -> WebConfig:
        """Return the configuration of the file, or the last valid one."""
        # Requests during a read get the configuration in force, without waiting.
        if self._reader.has_changed(self._settle_seconds) and self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()
        return self._config

    def prepare(self) -> Callable[[], None]:
        """Read the file, changed or not; return the function that applies it.

        Raises:
            ConfigurationError: it has faults; nothing has changed.
        """
        with self._lock:
            before = self._reader.versions
            config = self._read()
            # If the result is never called, the next request sees the file as changed.
            read = self._reader.versions
            self._reader.versions = before

        def take() -> None:
            self._reader.versions = read
            self._take(config)

        return take

    def _refresh(self) -> None:
        before = self.trouble
        try:
            self._take(self._read())
        except ConfigurationError as error:
            if str(error) != before:
                _log.error("web_config_refused", error=str(error), in_force="the one before")
        else:
            _log.info("web_config_loaded", file=str(self._reader.path))

    def _read(self) -> WebConfig:
        try:
            return self._reader.read()
        except ConfigurationError as error:
            self.trouble = str(error)
            raise

    def _take(self, config: WebConfig) -> None:
        if config.offers_http2 and not self._config.offers_http2:
            _log.info("http2_not_spoken", remedy="clients use HTTP/1.1 in its place")
        self._config, self.trouble, self.loaded = config, None, self._wall_time()
