"""Reader of sections of the web configuration file.

All faults with their places; `tls_server_config`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rightsizer.io.near import near_words
from rightsizer.io.yaml import Document
from rightsizer.model.errors import ConfigurationError
from rightsizer.web.tls import (
    CIPHER_SUITES,
    CLIENT_AUTHENTICATION,
    CURVES,
    VERSIONS,
    Pem,
    TlsPolicy,
)

_Path = tuple[str | int, ...]
_SHOWN_CHARACTERS: Final = 60


class ConfigFaults:
    """What is wrong with a document, in the order of the places."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._found: list[tuple[_Path, str]] = []

    def add(self, path: _Path, what: str) -> None:
        """Note a fault of a value; what was written is told by the place alone."""
        self._found.append((path, what))

    def __bool__(self) -> bool:
        return bool(self._found)

    def error(self) -> ConfigurationError:
        """All of them as one error, a line each: `file:line:column: key: what; remedy`."""
        found = sorted(self._found, key=lambda fault: self._document.place(fault[0]))
        return ConfigurationError("\n".join(self._line(*fault) for fault in found))

    def _line(self, path: _Path, what: str) -> str:
        key = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        where = self._document.where(path)
        return _printable(": ".join(filter(None, (where, key.removeprefix("."), what))))


class ConfigSection:
    """A mapping of the document; what is absent or empty has its default."""

    def __init__(self, value: Any, path: _Path, known: Sequence[str], faults: ConfigFaults) -> None:
        """The mapping at a path.

        Args:
            value: What stands there.
            path: Where it stands.
            known: The keys it may have; any where there are none.
            faults: Where what is wrong is noted.
        """
        self.path, self._faults = path, faults
        self._values: Mapping[Any, Any] = {}
        if isinstance(value, Mapping):
            self._values = value
        elif value is not None:
            faults.add(path, "must be a mapping of keys to values")
        for key in self._values if known else ():
            if key not in known:
                near = near_words(str(key), known)
                remedy = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
                faults.add((*path, str(key)), f"unknown key; {remedy}")

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def at(self, *key: str | int) -> _Path:
        """The path of something in it."""
        return (*self.path, *key)

    def fault(self, key: str, what: str) -> None:
        """Note a fault of one of its values."""
        self._faults.add(self.at(key), what)

    def section(self, key: str, known: Sequence[str] = ()) -> "ConfigSection":
        """A mapping inside."""
        return ConfigSection(self._values.get(key), self.at(key), known, self._faults)

    def text(self, key: str) -> str:
        """A text, empty where there is none."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            self.fault(key, "must be text; put it in quotes")
            return ""
        return value or ""

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """One of a few words."""
        value = self.text(key) or default
        if value not in choices:
            self.fault(key, f"must be one of {', '.join(choices)} (got {_shown(value)})")
            return default
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            self.fault(key, "must be true or false")
            return default
        return value

    def whole(self, key: str, default: int) -> int:
        """A whole number, not below 0."""
        value = self._values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.fault(key, "must be a whole number, 0 or more")
            return default
        return value

    def words(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            self.fault(key, "must be a list of texts, like [one, two]")
            return ()
        return tuple(value)

    def texts(self) -> dict[str, str]:
        """All of its keys with their texts."""
        for key in self._values:
            if not isinstance(key, str):
                self.fault(str(key), "a key must be text; put it in quotes")
        return {key: self.text(key) for key in self._values if isinstance(key, str)}


def _shown(value: str) -> str:
    return repr(value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}...")


def _printable(line: str) -> str:
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in line
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


def tls_policy(section: ConfigSection, folder: Path) -> TlsPolicy | None:
    """What the section asks for; `None` where it asks for nothing, or has faults."""
    if not any(key in section for key in TLS_KEYS):
        return None
    certificate = _pem(section, "cert", folder)
    private_key = _pem(section, "key", folder)
    client_ca = _pem(section, "client_ca", folder)
    for key, found in (("cert", certificate), ("key", private_key)):
        if found is None:
            section.fault(key, f"TLS needs {key}_file (or {key})")
    authentication = _client_authentication(section, client_ca)
    sans = section.words("client_allowed_sans")
    if sans and authentication != _REQUIRED:
        section.fault("client_allowed_sans", f"needs client_auth_type: {_REQUIRED}")
    policy = TlsPolicy(
        certificate=certificate or Pem("cert"),
        private_key=private_key or Pem("key"),
        client_ca=client_ca,
        client_authentication=authentication,
        client_allowed_sans=sans,
        minimum_version=_version(section, "min_version", "TLS12"),
        maximum_version=_version(section, "max_version", "TLS13"),
        cipher_suites=_known(section, "cipher_suites", CIPHER_SUITES),
        curves=_known(section, "curve_preferences", CURVES),
        prefers_own_ciphers=section.flag("prefer_server_cipher_suites", default=True),
    )
    if policy.minimum_version > policy.maximum_version:
        section.fault("min_version", "is above max_version")
    return policy if certificate is not None and private_key is not None else None


def _pem(section: ConfigSection, key: str, folder: Path) -> Pem | None:
    text, file = section.text(key), section.text(f"{key}_file")
    if text and file:
        section.fault(f"{key}_file", f"stands beside {key}; keep one of the two")
    if file:
        return Pem(f"{key}_file", file=folder / file)
    return Pem(key, text=text) if text else None


def _client_authentication(section: ConfigSection, client_ca: Pem | None) -> str:
    value = section.text("client_auth_type")
    if value in _UNVERIFIED:
        section.fault(
            "client_auth_type",
            f"{value} would let in certificates that nobody vouches for, which is not offered; "
            f"use {_REQUIRED}",
        )
        return "NoClientCert"
    chosen = section.choice("client_auth_type", tuple(CLIENT_AUTHENTICATION), "NoClientCert")
    if client_ca is not None and chosen == "NoClientCert":
        section.fault(client_ca.key, f"is of no use without client_auth_type: {_REQUIRED}")
    if client_ca is None and chosen != "NoClientCert":
        section.fault("client_auth_type", f"{chosen} needs client_ca_file (or client_ca)")
    return chosen


def _version(section: ConfigSection, key: str, default: str) -> str:
    if section.text(key) in _OLD_VERSIONS:
        section.fault(key, f"{section.text(key)} is broken and is not offered; use TLS12 or TLS13")
        return default
    return section.choice(key, tuple(VERSIONS), default)


def _known(section: ConfigSection, key: str, table: Mapping[str, str]) -> tuple[str, ...]:
    words: Sequence[str] = section.words(key)
    if unknown := [word for word in words if word not in table]:
        section.fault(key, f"unknown: {', '.join(unknown)}; choose from {', '.join(table)}")
        return ()
    return tuple(words)
