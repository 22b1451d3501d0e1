"""The web configuration file of the exporter toolkit: valid values, and errors with place."""

import json
import os
import ssl
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rightsizer.model.errors import ConfigurationError
from rightsizer.web.web_config import RateLimit, WebConfig, WebConfigFile, WebConfigReader
from web_certificates import Authority

HASH: Final = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"
"""Of `secret`, with a constant salt."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Signs a server's certificate in its folder."""
    authority = Authority.made(tmp_path_factory.mktemp("ca"))
    authority.sign("server", "IP:127.0.0.1")
    authority.sign("other", "IP:127.0.0.1")
    return authority


def read(folder: Path, text: str) -> WebConfig:
    """Settings of a text, read as `web.yml` in a folder."""
    (folder / "web.yml").write_text(text)
    return WebConfigReader(folder / "web.yml").read()


def faults(folder: Path, text: str) -> list[str]:
    """Errors of a text, without the folder."""
    with pytest.raises(ConfigurationError) as refusal:
        read(folder, text)
    assert refusal.value.exit_code == 78
    return [line.removeprefix(f"{folder}/") for line in str(refusal.value).splitlines()]


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """Each request would wait for its writer."""
    os.mkfifo(tmp_path / "web.yml")
    with pytest.raises(ConfigurationError, match="is a pipe; check"):
        WebConfigReader(tmp_path / "web.yml").read()


def test_a_reload_that_is_refused_swallows_no_change(tmp_path: Path) -> None:
    """The next request reads the file again: a user may have been revoked."""
    path = tmp_path / "web.yml"
    path.write_text("http_server_config: {headers: {X-Frame-Options: deny}}\n")
    file = WebConfigFile(WebConfigReader(path), settle_seconds=0.0)
    path.write_text("")
    file.prepare()
    assert not file.current().headers


def test_a_reload_that_is_taken_is_in_force(tmp_path: Path) -> None:
    """The file is not read again."""
    path = tmp_path / "web.yml"
    path.write_text("http_server_config: {headers: {X-Frame-Options: deny}}\n")
    reader = WebConfigReader(path)
    file = WebConfigFile(reader, settle_seconds=0.0)
    path.write_text("")
    file.prepare()()
    assert not reader.has_changed(0.0)
    assert not file.current().headers


@pytest.mark.parametrize("text", ["", "{}", "# nothing", "tls_server_config:\nrate_limit: {}\n"])
def test_a_file_that_asks_for_nothing(tmp_path: Path, text: str) -> None:
    """It gives plain HTTP for everyone, without a limit."""
    assert read(tmp_path, text) == WebConfig()


def test_web_config_has_users_headers_and_limit(tmp_path: Path) -> None:
    """Covers users, headers and the limit, and hashes of PHP and Apache."""
    config = read(
        tmp_path,
        f"""
        http_server_config:
          http2: true
          headers:
            X-Frame-Options: sameorigin
            Strict-Transport-Security: max-age=31536000
        basic_auth_users:
          alice: {HASH}
          bob: {HASH.replace("$2b$", "$2y$")}
        rate_limit: {{interval: 250ms, burst: 20}}
        """,
    )
    assert config.offers_http2
    assert config.headers == {
        "X-Frame-Options": "sameorigin",
        "Strict-Transport-Security": "max-age=31536000",
    }
    assert config.users == {"alice": HASH.encode(), "bob": HASH.replace("2b", "2y", 1).encode()}
    assert config.rate_limit == RateLimit(0.25, 20)
    assert HASH not in repr(config)


def test_a_limit_of_no_interval_is_none(tmp_path: Path) -> None:
    """As in the toolkit."""
    assert read(tmp_path, 'rate_limit: {interval: "0", burst: 5}').rate_limit is None


def test_tls_with_files_beside_it(authority: Authority) -> None:
    """Paths are relative to the file; versions, suites and curves reach OpenSSL."""
    context = read(
        authority.folder,
        """
        tls_server_config:
          cert_file: server.crt
          key_file: server.key
          client_auth_type: RequireAndVerifyClientCert
          client_ca_file: ca.crt
          client_allowed_sans: [scraper.example]
          min_version: TLS12
          max_version: TLS12
          cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]
          curve_preferences: [CurveP256]
          prefer_server_cipher_suites: false
        """,
    ).tls
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.policy.client_allowed_sans == ("scraper.example",)
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    chosen = {suite["name"] for suite in context.get_ciphers() if suite["protocol"] != "TLSv1.3"}
    assert chosen == {"ECDHE-ECDSA-AES128-GCM-SHA256"}
    assert not context.options & ssl.OP_CIPHER_SERVER_PREFERENCE


def test_tls_with_everything_in_the_file(authority: Authority) -> None:
    """Certificate and key may be inline; the key appears nowhere else."""

    def block(file: str) -> str:
        return "|\n" + "\n".join(
            f"    {line}" for line in (authority.folder / file).read_text().splitlines()
        )

    context = read(
        authority.folder,
        f"tls_server_config:\n  cert: {block('server.crt')}\n  key: {block('server.key')}\n",
    ).tls
    assert context is not None
    assert "PRIVATE" not in repr(context.policy)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tls_servr_config: {}", "web.yml:1:1: tls_servr_config: unknown key; did you mean 'tls"),
        ("[]", "web.yml:1:1: must be a mapping; write it like"),
        ("rate_limit:\n  brust: 1", "web.yml:2:3: rate_limit.brust: unknown key; did you mean"),
        ("rate_limit: {interval: often}", "web.yml:1:14: rate_limit.interval: is not a duration"),
        ("rate_limit: {interval: 1s}", "web.yml:1:1: rate_limit.burst: must be 1 or more"),
        ("rate_limit: {burst: -1}", "web.yml:1:14: rate_limit.burst: must be between 0"),
        ("basic_auth_users:\n  alice: secret", "web.yml:2:3: basic_auth_users.alice: is no bcrypt"),
        ("basic_auth_users:\n  1: x", "web.yml:2:3: basic_auth_users.1: a key must be text"),
        (
            f'basic_auth_users:\n  "a:b": {HASH}',
            "web.yml:2:3: basic_auth_users.a:b: a name with a colon cannot be sent",
        ),
        (
            "http_server_config:\n  headers:\n    Server: mine",
            "web.yml:3:5: http_server_config.headers.Server: unknown key; known keys: Con",
        ),
        (
            "http_server_config: {headers: {X-Frame-Options: allow}}",
            "web.yml:1:32: http_server_config.headers.X-Frame-Options: must be deny or sameorigin",
        ),
        (
            'http_server_config: {headers: {X-XSS-Protection: "1\\r\\nA: b"}}',
            "web.yml:1:32: http_server_config.headers.X-XSS-Protection: must be one line of ASCII",
        ),
        ("http_server_config: {http2: maybe}", "web.yml:1:22: http_server_config.http2: must be"),
        ("a: b: c", "web.yml:1:5: is not well-formed YAML (mapping values are not allowed"),
    ],
)
def test_a_fault_is_reported_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    """The error has file, line, column, key and cause, but never a password."""
    (fault,) = faults(tmp_path, text)
    assert fault.startswith(expected)
    assert "secret" not in fault


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("cert_file: no.crt",), "tls_server_config.cert_file:"),
        (("cert_file: ca.key",), "tls_server_config.cert_file: holds no certificate"),
        (("key_file: other.key",), "tls_server_config.key_file: is not the key of the certificate"),
        (("key_file: ca.crt",), "tls_server_config.key_file: holds no unencrypted private key"),
        (("cert: text",), "tls_server_config.cert_file: stands beside cert; keep one"),
        (("client_ca_file: ca.crt",), "tls_server_config.client_ca_file: is of no use without"),
        (
            ("client_auth_type: RequireAndVerifyClientCert",),
            "tls_server_config.client_auth_type: RequireAndVerifyClientCert needs client_ca_file",
        ),
        (("client_auth_type: RequireAnyClientCert",), "tls_server_config.client_auth_type: Requi"),
        (("client_auth_type: Never",), "tls_server_config.client_auth_type: must be one of NoCl"),
        (("client_allowed_sans: [a]",), "tls_server_config.client_allowed_sans: needs client_auth"),
        (("min_version: TLS10",), "tls_server_config.min_version: TLS10 is broken"),
        (("min_version: TLS13", "max_version: TLS12"), "tls_server_config.min_version: is above"),
        (("cipher_suites: [RC4]",), "tls_server_config.cipher_suites[0]: must be one of TLS_AES"),
        (("curve_preferences: P-256",), "tls_server_config.curve_preferences: must be a list"),
        (("client_auth: x",), "tls_server_config.client_auth: unknown key; did you mean"),
    ],
)
def test_a_fault_of_tls_is_reported(
    authority: Authority, lines: tuple[str, ...], expected: str
) -> None:
    """An unusable value is rejected before any client connects."""
    keys = {line.partition(":")[0] for line in lines}
    usual = ("cert_file: server.crt", "key_file: server.key")
    kept = [line for line in usual if line.partition(":")[0] not in keys]
    text = "tls_server_config:\n" + "".join(f"  {line}\n" for line in (*kept, *lines))
    found = faults(authority.folder, text)
    assert [fault for fault in found if fault.partition(": ")[2].startswith(expected)], found


def test_tls_without_a_key_is_refused(tmp_path: Path) -> None:
    """Otherwise plain HTTP would be served where TLS was requested."""
    found = faults(tmp_path, "tls_server_config:\n  client_auth_type: NoClientCert")
    assert [line.partition(": ")[2] for line in found] == [
        "tls_server_config.cert: TLS needs cert_file (or cert)",
        "tls_server_config.key: TLS needs key_file (or key)",
    ]


def test_all_faults_are_reported_at_once(tmp_path: Path) -> None:
    """They are in the order of their places."""
    found = faults(tmp_path, "users: {}\nrate_limit: {burst: x}\nhttp_server_config: []\n")
    assert [fault.split(":")[1] for fault in found] == ["1", "2", "3"]


def test_a_file_that_is_not_there_is_reported_with_the_flag(tmp_path: Path) -> None:
    """The server does not start without the requested protection."""
    with pytest.raises(ConfigurationError, match=r"web\.yml: No such file.*--web\.config\.file"):
        WebConfigReader(tmp_path / "web.yml").read()


_KEYS = st.sampled_from(
    [
        "tls_server_config",
        "http_server_config",
        "basic_auth_users",
        "rate_limit",
        "headers",
        "cert",
        "key_file",
        "client_ca_file",
        "cipher_suites",
        "interval",
        "burst",
        "alice",
    ]
)
_SECTIONS = st.dictionaries(
    st.sampled_from(["cert", "key", "cert_file", "key_file", "client_ca", "client_auth_type"]),
    st.sampled_from(["", "x", "any.yml", "\0", "RequireAndVerifyClientCert", "[", "/"]),
).map(lambda section: json.dumps({"tls_server_config": section}))
_TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=60) | _TREES.map(repr) | _SECTIONS)
def test_arbitrary_text_is_read_or_refused_with_its_place(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    """No other exception is raised."""
    file = tmp_path_factory.getbasetemp() / "any.yml"
    file.write_bytes(text.encode(errors="surrogatepass"))
    try:
        answer: object = WebConfigReader(file).read()
    except ConfigurationError as refusal:
        answer = str(refusal).splitlines()
    if isinstance(answer, list):
        assert all(line.startswith(f"{file}:") for line in answer)
    else:
        assert isinstance(answer, WebConfig)
