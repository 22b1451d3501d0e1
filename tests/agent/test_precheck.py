"""Checks of `check-config` on files and names in settings."""

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from rightsizer.agent.configuration_check import faults_of
from rightsizer.agent.settings import Settings
from rightsizer.cli.main import main
from rightsizer.config.loader import load
from web_certificates import Authority

Captured = pytest.CaptureFixture[str]


def faults(text: str, environ: dict[str, str] | None = None) -> list[str]:
    """Faults of the things named by a configuration."""
    return list(faults_of(load(Settings, text, "rightsizer.yaml"), environ or {}))


def test_the_defaults_name_nothing_that_could_be_wrong() -> None:
    """A node with no file at all."""
    assert faults("") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("catalogue: {boards_file: /nowhere.yaml}", "catalogue.boards_file: /nowhere.yaml: there"),
        ("catalogue: {prices_file: /nowhere.yaml}", "catalogue.prices_file: /nowhere.yaml: there"),
        ("web: {config_file: /nowhere.yaml}", "web.config_file: /nowhere.yaml: "),
        ("sources: {simulated: {scenario: moon}}", "sources.simulated.scenario: scenario 'moon'"),
        ("sources: {nvml: {disabled_collectors: [gmp]}}", "there is no collector 'gmp'"),
        ("sources: {dcgm: {token_file: /nowhere}}", "sources.dcgm.token_file: /nowhere cannot"),
        ("sources: {dcgm: {ca_file: /nowhere}}", "sources.dcgm.ca_file: "),
        ("sources: {dcgm: {ca_file: /dev/null}}", "/dev/null holds no certificate in PEM"),
        (
            "grafana: {url: 'http://grafana:3000', token_file: /nowhere}",
            "grafana.token_file: /nowhere cannot be read: no such file or directory; check ",
        ),
        (
            "grafana: {url: 'http://grafana:3000', token_file: /dev/null}",
            "grafana.token_file: /dev/null does not hold a token",
        ),
        ("webhooks: [{url_file: /nowhere}]", "webhooks[0].url_file: /nowhere cannot be read"),
        (
            "webhooks: [{url: 'http://a'}, {url: 'http://b', headers_file: /nowhere}]",
            "webhooks[1].headers_file: /nowhere",
        ),
    ],
)
def test_invalid_reference_is_reported_with_its_key(text: str, said: str) -> None:
    """One line each, and nothing about valid ones."""
    (fault,) = faults(text)
    assert said in fault


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("broker: {enabled: true, path: ''}", "broker.path: '' is no file"),
        ("broker: {enabled: true, path: /tmp}", "broker.path: '/tmp' is no file"),
        ("broker: {enabled: true, path: /dev/null/broker.db}", "/dev/null is in the way"),
        ("broker: {enabled: true, path: /proc/1/broker.db}", "broker.path: /proc/1/broker.db"),
        (
            "{broker: {enabled: true, path: /tmp/a.db}, history: {path: /tmp/../tmp/a.db}}",
            "broker.path: /tmp/a.db is the history's too",
        ),
        (
            "broker: {enabled: true, path: /tmp/a.db, longest_limit: 12h}",
            "broker.default_limit: 1 d is longer than broker.longest_limit, 12 h",
        ),
        (
            "{broker: {enabled: true, path: /tmp/a.db}, path: {api_socket: ''}}",
            "path.api_socket: is empty, and the broker is asked over it alone",
        ),
        (
            "{broker: {enabled: true, path: /tmp/a.db}, path: {api_socket: /nowhere/api.sock}}",
            "path.api_socket: the socket cannot be made, for /nowhere is not there",
        ),
    ],
)
def test_broker_precondition_that_fails_is_reported(text: str, said: str) -> None:
    """Only if the broker is on."""
    if "/proc/1" in text and os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    (fault,) = faults(text)
    assert said in fault
    assert faults(text.replace("enabled: true", "enabled: false")) == []


def test_a_brokers_folder_need_not_be_there_where_the_agent_can_make_it(tmp_path: Path) -> None:
    """The agent makes it at startup."""
    path = tmp_path / "new" / "folder" / "broker.db"
    assert faults(f"broker: {{enabled: true, path: {path}}}") == []
    (tmp_path / "new").write_text("no folder")
    (fault,) = faults(f"broker: {{enabled: true, path: {path}}}")
    assert "is in the way" in fault


def test_all_is_reported_at_once() -> None:
    """An operator fixes a file once."""
    text = "{catalogue: {boards_file: /a, prices_file: /b}, web: {config_file: /c}}"
    assert [fault.partition(":")[0] for fault in faults(text)] == [
        "catalogue.boards_file",
        "catalogue.prices_file",
        "web.config_file",
    ]


def test_valid_references_pass(tmp_path: Path) -> None:
    """Certificates, a systemd credential, authorities, a scenario."""
    authority = Authority.made(tmp_path)
    authority.sign("server", "IP:127.0.0.1")
    (tmp_path / "web.yml").write_text(
        "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"
    )
    (tmp_path / "grafana-token").write_text("glsa_secret\n")
    text = json.dumps(
        {
            "web": {"config_file": str(tmp_path / "web.yml")},
            "grafana": {
                "url": "https://grafana",
                "token_file": "/nowhere",
                "http": {"ca_file": str(tmp_path / "ca.crt")},
            },
            "sources": {"simulated": {"scenario": "single-h100"}},
        }
    )
    assert faults(text, {"CREDENTIALS_DIRECTORY": str(tmp_path)}) == []


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_credential_that_may_not_be_read_is_reported(tmp_path: Path) -> None:
    """As when the file belongs to another user."""
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0)
    settings = Settings()
    grafana = replace(settings.grafana, url="http://grafana", token_file=str(token))

    (fault,) = faults_of(replace(settings, grafana=grafana), {})
    assert "permission denied" in fault


def test_the_command_checks_them_unless_told_otherwise(tmp_path: Path, capsys: Captured) -> None:
    """With the file's name, or the variable's for faults of the environment."""
    file = tmp_path / "rightsizer.yaml"
    file.write_text("catalogue: {boards_file: /nowhere.yaml}\n")

    assert main(["check-config", str(file)]) == 78
    errors = capsys.readouterr().err
    assert main(["check-config", "--syntax-only", str(file)]) == 0

    assert errors.startswith(
        f"rightsizer: {file}: catalogue.boards_file: /nowhere.yaml: there is no"
    )


def test_the_command_checks_the_environment(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent would start with it."""
    file = tmp_path / "rightsizer.yaml"
    file.write_text("")
    monkeypatch.setenv("RIGHTSIZER_RECOMMENDER__INTERVAL", "often")

    assert main(["check-config", str(file)]) == 78
    assert "RIGHTSIZER_RECOMMENDER__INTERVAL: 'often' is not" in capsys.readouterr().err
