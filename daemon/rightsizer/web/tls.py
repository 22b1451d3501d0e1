"""TLS of the web configuration file: context, handshake, client certificates."""

import contextlib
import os
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Struct

from rightsizer.io.log import logger
from rightsizer.model.values import Spec

VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
_ANYONE: Final = "NoClientCert"
_REQUIRED: Final = "RequireAndVerifyClientCert"
_UNVERIFIED: Final = ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")
_OLD_VERSIONS: Final = ("TLS10", "TLS11")
CLIENT_AUTHENTICATION: Final[Mapping[str, ssl.VerifyMode]] = {
    _ANYONE: ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    _REQUIRED: ssl.CERT_REQUIRED,
}
CURVES: Final[Mapping[str, str]] = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}
_TLS13_SUITES: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
_STREAM: Final = "CHACHA20_POLY1305_SHA256"
CIPHER_SUITES: Final[Mapping[str, str]] = {
    **dict.fromkeys(_TLS13_SUITES, ""),
    **{
        f"TLS_ECDHE_{signature}_WITH_{cipher}": f"ECDHE-{signature}-{name}"
        for signature in ("ECDSA", "RSA")
        for cipher, name in (
            ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
            ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
            ("AES_128_CBC_SHA", "AES128-SHA"),
            ("AES_256_CBC_SHA", "AES256-SHA"),
            (_STREAM, "CHACHA20-POLY1305"),
            (_STREAM.removesuffix("_SHA256"), "CHACHA20-POLY1305"),
        )
    },
}
"""Go's names and OpenSSL's; TLS 1.3 suites are always on, as in Go."""

_ONE_CURVE: Final = (
    "this Python can hold TLS to one curve or to OpenSSL's own list, not to several; name one, or "
    "leave the key out"
)


class TlsError(ValueError):
    """A key with an unusable value, and the reason."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(what)
        self.key = key


class Pem(Struct, frozen=True):
    """Certificates or a key, as a file or as text."""

    key: str
    """Configuration key."""
    file: Path | None = None
    text: str = ""

    @property
    def is_given(self) -> bool:
        """Whether there is any."""
        return bool(self.file or self.text)

    def __repr__(self) -> str:
        # The text may be a private key.
        return f"{type(self).__name__}({self.key!r}, {self.file!r})"


def _verified(value: object) -> object:
    if value in _UNVERIFIED:
        fault = f"{value} would let in certificates that no authority signed, which is not offered"
        raise ValueError(f"{fault}; use {_REQUIRED}")
    return value


def _unbroken(value: object) -> object:
    if value in _OLD_VERSIONS:
        raise ValueError(f"{value} is broken and is not offered; use TLS12 or TLS13")
    return value


_Version: TypeAlias = Annotated[str, Spec(words=tuple(VERSIONS), parse=_unbroken)]
_Authentication: TypeAlias = Annotated[
    str, Spec(words=tuple(CLIENT_AUTHENTICATION), parse=_verified)
]


class TlsPolicy(Struct, frozen=True):
    """TLS requirements of connections; rotated certificates do not change it."""

    cert: str = ""
    cert_file: str = ""
    key: str = ""
    key_file: str = ""
    client_ca: str = ""
    client_ca_file: str = ""
    client_auth_type: _Authentication = _ANYONE
    client_allowed_sans: tuple[str, ...] = ()
    min_version: _Version = "TLS12"
    max_version: _Version = "TLS13"
    cipher_suites: Annotated[tuple[str, ...], Spec(words=tuple(CIPHER_SUITES))] = ()
    curve_preferences: Annotated[tuple[str, ...], Spec(words=tuple(CURVES))] = ()
    prefer_server_cipher_suites: bool = True

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise ValueError("\n".join(faults))

    def __repr__(self) -> str:
        # Without the private key.
        return f"{type(self).__name__}({self.cert_file!r})"

    def _faults(self) -> Iterator[str]:
        """Faults of keys that do not fit together, each after its key."""
        for pem in self.pems(Path()):
            name = pem.key.removesuffix("_file")
            if pem.file and pem.text:
                yield f"{pem.key}: stands beside {name}; keep one of the two"
            if not pem.is_given and name != "client_ca":
                yield f"{name}: TLS needs {name}_file (or {name})"
        authority = self.pem("client_ca", Path())
        chosen = self.client_auth_type
        if authority.is_given and chosen == _ANYONE:
            yield f"{authority.key}: is of no use without client_auth_type: {_REQUIRED}"
        if not authority.is_given and chosen != _ANYONE:
            yield f"client_auth_type: {chosen} needs client_ca_file (or client_ca)"
        if self.client_allowed_sans and chosen != _REQUIRED:
            yield f"client_allowed_sans: needs client_auth_type: {_REQUIRED}"
        if self.min_version > self.max_version:
            yield "min_version: is above max_version"

    def pem(self, key: str, folder: Path) -> Pem:
        """Certificates or a key, from a file in a folder or as text."""
        file = getattr(self, f"{key}_file")
        text = getattr(self, key)
        return Pem(f"{key}_file", folder / file, text) if file else Pem(key, text=text)

    def pems(self, folder: Path) -> tuple[Pem, Pem, Pem]:
        """Certificate, its key, and the authorities of clients."""
        return self.pem("cert", folder), self.pem("key", folder), self.pem("client_ca", folder)


class ServerContext(ssl.SSLContext):
    """TLS context with the policy it was built from."""

    policy: TlsPolicy


def server_context(policy: TlsPolicy, folder: Path) -> ServerContext:
    """Build the context of a policy with the present certificates, of files in a folder.

    Raises:
        TlsError: a file is unreadable or invalid, or OpenSSL lacks a requested feature.
    """
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.policy = policy
    context.minimum_version = VERSIONS[policy.min_version]
    context.maximum_version = VERSIONS[policy.max_version]
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    if not policy.prefer_server_cipher_suites:
        context.options ^= ssl.OP_CIPHER_SERVER_PREFERENCE
    _choose_ciphers(context, policy.cipher_suites)
    _choose_curves(context, policy.curve_preferences)
    certificate, key, authorities = policy.pems(folder)
    _load_certificate(context, certificate, key)
    if authorities.is_given:
        context.verify_mode = CLIENT_AUTHENTICATION[policy.client_auth_type]
        _load_client_authorities(context, authorities)
    # HTTP/2 is not supported; ALPN tells clients that offer it.
    context.set_alpn_protocols(["http/1.1"])
    return context


def _choose_ciphers(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    names = dict.fromkeys(filter(None, (CIPHER_SUITES[suite] for suite in suites)))
    if not names:
        return
    try:
        context.set_ciphers(":".join(names))
    except ssl.SSLError:
        raise TlsError("cipher_suites", "this OpenSSL offers none of them; name others") from None


def _choose_curves(context: ssl.SSLContext, curves: tuple[str, ...]) -> None:
    names = [CURVES[curve] for curve in curves]
    if not names:
        return
    set_groups = getattr(context, "set_groups", None)
    try:
        if set_groups is not None:
            set_groups(":".join(names))
        elif len(names) == 1:
            context.set_ecdh_curve(names[0])
        else:
            raise TlsError("curve_preferences", _ONE_CURVE)
    except (ssl.SSLError, MemoryError):
        raise TlsError(
            "curve_preferences", "this OpenSSL does not offer it; name another"
        ) from None


def _load_certificate(context: ssl.SSLContext, certificate: Pem, key: Pem) -> None:
    with _file_of(certificate) as certificate_file, _file_of(key) as key_file:
        try:
            # Without it, OpenSSL would prompt for a passphrase at a terminal.
            context.load_cert_chain(certificate_file, key_file, password=lambda: b"")
        except OSError as error:
            raise _unfit(error, certificate_file, certificate.key, key.key) from None


def _unfit(error: OSError, certificate_file: str, certificate: str, key: str) -> TlsError:
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        return TlsError(key, f"is not the key of the certificate in {certificate}; replace both")
    try:
        ssl.create_default_context(cafile=certificate_file)
    except OSError:
        fault = "holds no certificate in PEM form; it begins with '-----BEGIN CERT'"
        return TlsError(certificate, fault)
    return TlsError(key, "holds no unencrypted private key in PEM form; take its passphrase away")


def _load_client_authorities(context: ssl.SSLContext, authorities: Pem) -> None:
    with _file_of(authorities) as file:
        try:
            context.load_verify_locations(file)
        except OSError:
            raise TlsError(authorities.key, "holds no certificate in PEM form") from None


@contextmanager
def _file_of(pem: Pem) -> Iterator[str]:
    """Yield a file that OpenSSL can open; a key given as text never reaches a disk."""
    if pem.file is None:
        handle = os.memfd_create(pem.key)
        try:
            os.write(handle, pem.text.encode())
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
        return
    try:
        pem.file.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TlsError(
            pem.key, f"{pem.file} cannot be read ({reason}); paths are relative to this file"
        ) from None
    yield str(pem.file)


_KINDS: Final = ("DNS", "email", "IP Address", "URI")


def alternative_names(connection: ssl.SSLSocket) -> tuple[str, ...]:
    """Return the subject alternative names of the verified certificate; empty without one."""
    return tuple(_names(connection.getpeercert() or {}))


def identity_of(connection: ssl.SSLSocket) -> str | None:
    """Return the client's name: an alternative name, else the subject; `None` without either."""
    certificate: Any = connection.getpeercert()
    if not certificate:
        return None
    parts = [f"{key}={value}" for part in certificate.get("subject", ()) for key, value in part]
    return f"certificate:{next(_names(certificate), ','.join(parts))}"


def _names(certificate: Any) -> Iterator[str]:
    for kind, value in certificate.get("subjectAltName", ()):
        if kind in _KINDS:
            # OpenSSL's IPv6 addresses have uncompressed zeros.
            yield _plain_address(value) if kind == "IP Address" else value


def _plain_address(value: str) -> str:
    import ipaddress  # noqa: PLC0415 - 1 MB, rarely needed.

    try:
        return str(ipaddress.ip_address(value.strip()))
    except ValueError:
        return str(value)


_log: Final = logger("web")
_SPEAK_TLS: Final = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Connection: close\r\n\r\nthis port speaks HTTPS; ask with https://\n"
)


def wrap_connection(
    connection: socket.socket,
    context: ServerContext,
    replace: Callable[[socket.socket, socket.socket], None],
) -> ssl.SSLSocket:
    """Wrap the connection for a later handshake; nothing is sent or waited for.

    `replace` is called first, with the old object, which becomes unusable, and the new one.

    Raises:
        OSError: the client is gone.
    """
    wrapped = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
    try:
        replace(connection, wrapped)
    except OSError:
        wrapped.close()
        raise
    return wrapped


def complete_handshake(connection: ssl.SSLSocket, timeout_seconds: float) -> None:
    """Perform the handshake, and verify the client's certificate.

    Raises:
        OSError: it failed, timed out, or the client is not allowed.
    """
    connection.settimeout(timeout_seconds)
    try:
        connection.do_handshake()
    except ssl.SSLError as error:
        if error.reason == "HTTP_REQUEST":
            with contextlib.suppress(OSError):
                # In plain text, which the client understands.
                socket.socket.send(connection, _SPEAK_TLS)
        raise
    context = connection.context
    if isinstance(context, ServerContext):
        allowed = context.policy.client_allowed_sans
        alternatives = alternative_names(connection)
        if allowed and set(allowed).isdisjoint(alternatives):
            names = ",".join(alternatives)
            _log.warning("client_certificate_refused", names=names, allowed=",".join(allowed))
            raise ConnectionAbortedError
