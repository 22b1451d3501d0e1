"""TLS policy of the web configuration file, its section `tls_server_config`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rightsizer.config.row import Row
from rightsizer.web.tls import (
    CIPHER_SUITES,
    CLIENT_AUTHENTICATION,
    CURVES,
    VERSIONS,
    Pem,
    TlsPolicy,
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
    sans = section.texts("client_allowed_sans")
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


def _pem(section: Row, key: str, folder: Path) -> Pem | None:
    text, file = section.text(key), section.text(f"{key}_file")
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


def _version(section: Row, key: str, default: str) -> str:
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
