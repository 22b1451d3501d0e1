"""A real agent behind TLS and users: scraped by a real Prometheus, rotated, reloaded, refused."""

import base64
import json
import signal
import ssl
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import bcrypt
import pytest

from agent_process import AgentProcess, agent_process, eventually, run_rightsizer
from prometheus_server import prometheus_server
from victoria_server import victoria_server
from web_certificates import Authority

USER: Final = "prometheus"
PASSWORD: Final = "open sesame"
HASH: Final = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(6)).decode()
AUTHORIZATION: Final = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
TLS: Final = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
USERS: Final = f"basic_auth_users:\n  {USER}: {HASH}\n"
MUTUAL: Final = (
    f"{TLS}  client_ca_file: ca.crt\n  client_auth_type: RequireAndVerifyClientCert\n"
    "  client_allowed_sans: [prometheus.example]\n"
)
FLAGS: Final = ("--simulated.scenario", "single-h100", "--history.path", "")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The authority of the agent's certificate and of two clients'."""
    authority = Authority.made(tmp_path / "web")
    authority.sign("server", "IP:127.0.0.1")
    authority.sign("welcome", "DNS:prometheus.example")
    authority.sign("unwelcome", "DNS:other.example")
    return authority


@contextmanager
def secured(authority: Authority, text: str, *flags: str) -> Iterator[AgentProcess]:
    """An agent with a web configuration file; its other files are beside the certificates."""
    (authority.folder / "web.yml").write_text(text)
    listen = ("--web.listen-address", "127.0.0.1:0")
    with agent_process(
        authority.folder,
        *FLAGS,
        *listen,
        "--web.config.file",
        str(authority.folder / "web.yml"),
        *flags,
        config=f"path: {{api_socket: {authority.folder}/api.sock}}\n",
        answers=lambda address: ask(authority, address, "/-/healthy", "welcome")[0] == 200,
    ) as agent:
        yield agent


def ask(
    authority: Authority, address: str, path: str, client: str = "", method: str = "GET"
) -> tuple[int, str]:
    """Status and text of a response, with the password."""
    context = ssl.create_default_context(cafile=authority.certificate)
    if client:
        context.load_cert_chain(
            authority.folder / f"{client}.crt", authority.folder / f"{client}.key"
        )
    with closing(HTTPSConnection(address, context=context, timeout=20)) as connection:
        connection.request(method, path, headers={"Authorization": f"Basic {AUTHORIZATION}"})
        response = connection.getresponse()
        return response.status, response.read().decode()


def value(text: str, name: str) -> float:
    """The value of a metric without labels."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


def job(name: str, authority: Authority, address: str, **more: Any) -> dict[str, Any]:
    """A job of Prometheus, as documented in docs/configuration.md."""
    return {
        "job_name": name,
        "scheme": "https",
        "static_configs": [{"targets": [address]}],
        "tls_config": {"ca_file": str(authority.certificate)},
        **more,
    }


def scraping(*jobs: dict[str, Any]) -> str:
    """A configuration that scrapes every second on new connections."""
    return json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs})


@pytest.mark.prometheus
def test_victoria_metrics_scrapes_with_tls_and_password(authority: Authority) -> None:
    """It takes the job of Prometheus; with a wrong password there are no series."""
    login = {"username": USER, "password": PASSWORD}
    with secured(authority, TLS + USERS) as agent:
        config = scraping(
            job("secured", authority, agent.address, basic_auth=login),
            job("stranger", authority, agent.address, basic_auth={**login, "password": "x"}),
        )
        with victoria_server(config) as victoria:
            victoria.wait_for('up{job="secured"} == 1')
            victoria.wait_for('rightsizer_device_up{job="secured"} == 1')
            victoria.wait_for('up{job="stranger"} == 0')

            assert victoria.query('rightsizer_device_up{job="stranger"}') == []


@pytest.mark.prometheus
def test_prometheus_scrapes_with_tls_and_password(authority: Authority) -> None:
    """With both the target is up, also during certificate renewal; without, it is down."""
    with secured(authority, TLS + USERS) as agent:
        login = {"username": USER, "password": PASSWORD}
        config = scraping(
            job("secured", authority, agent.address, basic_auth=login, enable_http2=True),
            job("stranger", authority, agent.address, basic_auth={**login, "password": "x"}),
            job("nobody", authority, agent.address),
        )
        with prometheus_server(config) as prometheus:
            prometheus.wait_for('up{job="secured"} == 1')
            prometheus.wait_for('rightsizer_device_up{job="secured"} == 1')
            authority.sign("server", "IP:127.0.0.1")
            assert eventually(lambda: agent.events("web_config_loaded"))
            prometheus.wait_for('count_over_time(up{job="secured"}[1m]) >= 5')
            assert prometheus.query('min_over_time(up{job="secured"}[1m])')[0][1] == 1.0
            for stranger in ("stranger", "nobody"):
                assert prometheus.query(f'max_over_time(up{{job="{stranger}"}}[1m])')[0][1] == 0.0
            errors = {
                target["labels"]["job"]: target["lastError"]
                for target in prometheus.get("targets")["activeTargets"]
            }
            assert "401" in errors["stranger"]


@pytest.mark.prometheus
def test_prometheus_scrapes_with_a_client_certificate(authority: Authority) -> None:
    """With an allowed name, out of two signed by the same authority."""
    with secured(authority, MUTUAL) as agent:

        def by(client: str) -> dict[str, Any]:
            files = {"cert_file": f"{client}.crt", "key_file": f"{client}.key"}
            return {
                "ca_file": str(authority.certificate),
                **{key: str(authority.folder / file) for key, file in files.items()},
            }

        config = scraping(
            *(
                job(client, authority, agent.address, tls_config=by(client))
                for client in ("welcome", "unwelcome")
            )
        )
        with prometheus_server(config) as prometheus:
            prometheus.wait_for('rightsizer_device_up{job="welcome"} == 1')
            prometheus.wait_for('up{job="unwelcome"} == 0')
            assert prometheus.query('max_over_time(up{job="unwelcome"}[1m])')[0][1] == 0.0
        assert agent.events("client_certificate_refused")[0]["names"] == "other.example"


def test_a_reload_tells_what_is_in_force(authority: Authority) -> None:
    """By signal and by request, invalid and fixed; the metric and the log agree."""
    web = authority.folder / "web.yml"
    successful = "rightsizer_config_last_reload_successful"
    with secured(authority, TLS + USERS, "--web.enable-lifecycle") as agent:

        def metric() -> float:
            return value(ask(authority, agent.address, "/metrics")[1], successful)

        eventually(lambda: successful in ask(authority, agent.address, "/metrics")[1])
        assert metric() == 1.0
        assert ask(authority, agent.address, "/-/reload", method="POST") == (200, "reloaded\n")
        web.write_text("nonsense: 1\n")
        agent.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: agent.events("reload_failed"))
        assert "web.yml:1:1: nonsense: unknown key" in agent.events("reload_failed")[0]["error"]
        assert ask(authority, agent.address, "/-/reload", method="PUT")[0] == 500
        eventually(lambda: metric() == 0.0)
        web.write_text(TLS + USERS)
        agent.process.send_signal(signal.SIGHUP)
        eventually(lambda: metric() == 1.0)
        assert ask(authority, agent.address, "/api/v1/resume", method="POST")[0] == 200
        assert agent.end() == 0


def test_a_broken_file_is_no_start(tmp_path: Path) -> None:
    """Exit status 78 with the place, before anything listens."""
    (tmp_path / "web.yml").write_text("rate_limt: {}\n" + TLS)
    ended = run_rightsizer("agent", *FLAGS, "--web.config.file", tmp_path / "web.yml")
    assert ended.returncode == 78
    assert "web.yml:1:1: rate_limt: unknown key; did you mean 'rate_limit'?" in ended.stderr


def test_systemd_hands_over_a_socket(tmp_path: Path) -> None:
    """As descriptor 3 of the intended process."""
    handing = (
        "import os, socket, sys; "
        "bound = socket.create_server(('127.0.0.1', 0)); "
        "os.dup2(bound.fileno(), 3); os.set_inheritable(3, True); "
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1'); "
        "os.execv(sys.executable, [sys.executable, '-m', 'rightsizer', 'agent', *sys.argv[1:]])"
    )
    flags = ("--web.systemd-socket", "--web.listen-address", "192.0.2.1:1")
    with (
        agent_process(tmp_path, *FLAGS, *flags, command=(sys.executable, "-c", handing)) as agent,
        urlopen(f"http://{agent.address}/-/healthy", timeout=20) as answer,
    ):
        assert answer.status == 200


def test_addresses_paths_and_prefix_by_flags(tmp_path: Path) -> None:
    """Two addresses, one of them IPv6; a metrics path and a prefix."""
    with agent_process(
        tmp_path,
        *FLAGS,
        "--web.listen-address",
        "127.0.0.1:0",
        "--web.listen-address",
        "[::1]:0",
        "--web.telemetry-path",
        "/numbers",
        "--web.route-prefix",
        "/gpu",
        answers=lambda address: bool(urlopen(f"http://{address}/gpu/-/healthy", timeout=20)),
    ) as agent:
        first, second = agent.events("agent_started")[0]["addresses"].split(",")
        assert second.startswith("[::1]:")
        for address in (first, second):
            with urlopen(f"http://{address}/gpu/numbers", timeout=20) as answer:
                assert answer.read().startswith(b"# HELP")
