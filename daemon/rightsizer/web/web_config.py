"""Web configuration file: parsed, validated, and reread when it or a named file changes."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final

from msgspec import Struct, field

from rightsizer.config.loader import read_document, refusal
from rightsizer.config.validator import rule_fault
from rightsizer.io.files import file_bytes
from rightsizer.io.log import logger
from rightsizer.io.yaml import Document, YamlError, load_yaml
from rightsizer.model.values import (
    ConfigurationError,
    Nanoseconds,
    Spec,
    nanoseconds,
    parse_duration,
)
from rightsizer.web.tls import ServerContext, TlsError, TlsPolicy, server_context

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


def _seconds(value: object) -> object:
    try:
        return 0.0 if value in ("", "0") else parse_duration(str(value))
    except ValueError:
        raise ValueError("is not a duration; write it like '100ms'") from None


def _bcrypt(value: object) -> object:
    if isinstance(value, str) and not _BCRYPT.fullmatch(value):
        raise ValueError("is no bcrypt hash; make one with `htpasswd -nBC 10 NAME`")
    return value


def _user_name(value: object) -> object:
    if isinstance(value, str) and ":" in value:
        raise ValueError("a name with a colon cannot be sent; leave the colon out")
    return value


def _one_line(value: object) -> object:
    if isinstance(value, str) and not (value.isascii() and value.isprintable()):
        raise ValueError("must be one line of ASCII")
    return value


def _or_nothing(value: object) -> object:
    return None if value == {} else value


class HttpSection(Struct, frozen=True):
    """Section of HTTP."""

    http2: bool | None = None
    headers: Mapping[
        Annotated[str, Spec(words=tuple(_HEADERS))], Annotated[str, Spec(parse=_one_line)]
    ] = {}

    def __post_init__(self) -> None:
        for name, value in self.headers.items():
            if value and _HEADERS[name] and value not in _HEADERS[name]:
                raise ValueError(f"headers.{name}: must be {' or '.join(_HEADERS[name])}")


class RateLimit(Struct, frozen=True):
    """Limit of one client's requests; none without an interval."""

    interval_seconds: Annotated[float, Spec(unit="", parse=_seconds)] = field(
        name="interval", default=0.0
    )
    burst: Annotated[int, Spec(within=(0, _MOST_REQUESTS))] = 0

    def __post_init__(self) -> None:
        if self.interval_seconds > 0 and not self.burst:
            raise ValueError("burst: must be 1 or more, or no request is ever answered")


class WebConfigDocument(Struct, frozen=True):
    """Contents of the file."""

    tls_server_config: Annotated[TlsPolicy | None, Spec(parse=_or_nothing)] = None
    http_server_config: HttpSection = HttpSection()
    basic_auth_users: Mapping[
        Annotated[str, Spec(parse=_user_name)], Annotated[str, Spec(parse=_bcrypt)]
    ] = {}
    rate_limit: RateLimit = RateLimit()


_Version = tuple[int, int, int, int] | None
"""Identity of a file's version; `None` if the file is absent."""


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
        mapped = read_document(WebConfigDocument, document, shows_values=False)
        http = mapped.http_server_config
        return WebConfig(
            tls=self._tls(mapped.tls_server_config, document),
            offers_http2=http.http2 is True,
            headers={name: text for name, text in http.headers.items() if text},
            users={name: hashed.encode() for name, hashed in mapped.basic_auth_users.items()},
            rate_limit=mapped.rate_limit if mapped.rate_limit.interval_seconds > 0 else None,
        )

    def _tls(self, policy: TlsPolicy | None, document: Document) -> ServerContext | None:
        if policy is None:
            return None
        folder = self.path.parent
        files = [pem.file for pem in policy.pems(folder) if pem.file is not None]
        self.versions = self.versions | {file: _version(file) for file in files}
        try:
            return server_context(policy, folder)
        except TlsError as fault:
            path = ("tls_server_config", fault.key)
            raise refusal(document, [rule_fault(path, str(fault))]) from None


def _version(file: Path) -> _Version:
    try:
        status = file.stat()
    except (OSError, ValueError):  # A path with a NUL is invalid.
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size


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
