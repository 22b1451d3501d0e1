"""An agent with every kind of secret, and peers that reject it: none leaks."""

import json
from pathlib import Path
from typing import Final

import pytest

from agent_process import AgentProcess, agent_process, eventually, run_rightsizer
from rightsizer.agent.settings import Settings
from rightsizer.config.loader import load_file

SECRETS: Final = {
    "grafana-token": "gr4fana-s3cret",
    "hook-token": "h00k-s3cret",
    "hook-headers": "X-Api-Key: h34der-s3cret",
    "hook-url": "http://127.0.0.1:9/services/p4th-s3cret?sig=q3ry-s3cret",
    "dcgm-token": "dcgm-s3cret",
}
"""By the file that holds it; no peer listens where they are sent."""
MARK: Final = "s3cret"
PAGES: Final = (
    "/",
    "/metrics",
    "/api/v1/report",
    "/api/v1/advice",
    "/api/v1/summary",
    "/-/ready",
    "/api/v1/openapi.json",
    "/nowhere",
)


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A configuration that names all the files."""
    for name, text in SECRETS.items():
        (tmp_path / name).write_text(f"{text}\n")
    return json.dumps(
        {
            "path": {"api_socket": ""},
            "log": {"level": "debug"},
            "recommender": {"interval": "10s", "jitter": 0},
            "grafana": {
                "url": "http://127.0.0.1:9",
                "token_file": str(tmp_path / "grafana-token"),
            },
            "webhooks": [
                {
                    "name": "chat",
                    "url_file": str(tmp_path / "hook-url"),
                    "token_file": str(tmp_path / "hook-token"),
                    "headers_file": str(tmp_path / "hook-headers"),
                }
            ],
            "sources": {
                "dcgm": {
                    "url": "http://127.0.0.1:9/metrics",
                    "token_file": str(tmp_path / "dcgm-token"),
                }
            },
        }
    )


def test_an_agent_tells_none_of_its_secrets(tmp_path: Path, config: str) -> None:
    """Covers pages, responses, metrics and log, with each peer failing."""
    flags = ("--simulated.scenario", "eight-gpu-node", "--web.listen-address", "127.0.0.1:0")
    with agent_process(tmp_path, *flags, "--history.path", "", config=config) as agent:
        eventually(lambda: agent.metric("rightsizer_samples_total") >= 2)
        eventually(lambda: _has_tried_dcgm(agent), 30)
        texts = {page: agent.get(page)[1] for page in PAGES}
        agent.end()
        texts["log"] = agent.log_file.read_text()
    assert "127.0.0.1:9" in texts["log"] + texts["/metrics"] + texts["/api/v1/report"]
    assert [where for where, text in texts.items() if MARK in text] == []


def _has_tried_dcgm(agent: AgentProcess) -> bool:
    return "127.0.0.1:9" in agent.log_file.read_text() + agent.get("/api/v1/report")[1]


def test_commands_tell_none_either(tmp_path: Path, config: str) -> None:
    """Covers output that operators paste into tickets: the check, the doctor, the settings."""
    file = tmp_path / "rightsizer.yaml"
    file.write_text(config)
    checked = run_rightsizer("check-config", str(file))
    doctor = run_rightsizer("doctor", "--config.file", file)
    output = checked.stdout + checked.stderr + doctor.stdout + doctor.stderr
    assert checked.returncode == 0, output
    assert MARK not in output
    assert MARK not in repr(load_file(Settings, file))


def test_a_secret_in_an_address_is_refused_without_being_told(tmp_path: Path) -> None:
    """The error says where the password belongs."""
    file = tmp_path / "rightsizer.yaml"
    for settings in (
        {"webhooks": [{"url": f"http://user:{MARK}@127.0.0.1:9/"}]},
        {"grafana": {"url": f"http://user:{MARK}@127.0.0.1:9/"}},
        {"sources": {"dcgm": {"url": f"http://user:{MARK}@127.0.0.1:9/metrics"}}},
    ):
        file.write_text(json.dumps(settings))
        checked = run_rightsizer("check-config", str(file))
        assert checked.returncode == 78
        assert MARK not in checked.stdout + checked.stderr
