"""An agent that acts on advice: dry run, approval by claim, a single run, verification."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from agent_process import AgentProcess, agent_process, eventually
from api_schema import faults, json_schema_of
from rightsizer.cli.main import main

SUPPORT: Final = Path(__file__).parent.parent / "support"
SPEED: Final = "240"
"""Ten minutes in less than a second."""
SCENARIO: Final = """\
name: held
seed: 126
cores: 32
boards: [{board: H100-SXM5-80GB}]
workloads:
  - {name: image-train, class: batch, allocator: growing, gpus: [0], memory_gib: 11, cores: 2,
     phases: [{activity: data_starved_training, state: host_bound,
               host: {cpu: 0.99, cpu_pressure: 0.5}}]}
"""


def config(folder: Path, mode: str) -> str:
    """Advice after ten minutes, compared ten minutes after its claim."""
    script = "import sys; open(sys.argv[1], 'a').write(' '.join(sys.argv[2:]) + chr(10))"
    argv = [sys.executable, "-IS", "-c", script, str(folder / "done"), "{workload}", "{reason}"]
    return json.dumps(
        {
            "sampling": {"interval": "30s"},
            "history": {"path": str(folder / "history.db"), "flush_interval": "60s"},
            "web": {"listen_addresses": ["127.0.0.1:0"]},
            "sources": {"simulated": {"scenario": str(folder / "scenario.yaml")}},
            "path": {"api_socket": str(folder / "api.sock")},
            "recommender": {
                "interval": "60s",
                "jitter": "0s",
                "rules": {"host_bound": {"conduct": {"long": "10m"}}},
                "ledger": {"verification": {"span": "10m"}},
            },
            "actions": [
                {
                    "name": "note",
                    "reasons": ["HostBound"],
                    "mode": mode,
                    "minimum_confidence_ratio": 0.5,
                    "maximum_risk": "Unknown",
                    "command": argv,
                }
            ],
            "acting": {"interval": "30s", "audit_file": str(folder / "audit.jsonl")},
        }
    )


def constants() -> str:
    """What lets a rule judge after minutes."""
    rule = {
        "minimum_known": "2m",
        "minimum_active": "1m",
        "conduct": {"short": "5m", "minimum_known": "5m"},
    }
    ledger = {"verification": {"long_spans": 1}}
    return json.dumps({"recommender": {"rules": {"host_bound": rule}, "ledger": ledger}})


@contextmanager
def acting_agent(folder: Path, mode: str, second: int) -> Iterator[AgentProcess]:
    """An agent at high speed, from a second of the day on."""
    (folder / "scenario.yaml").write_text(SCENARIO)
    (folder / "settings.json").write_text(config(folder, mode))
    (folder / "constants.json").write_text(constants())
    program = (
        sys.executable,
        str(SUPPORT / "captured_node.py"),
        str(folder / "settings.json"),
    )
    with agent_process(folder, command=(*program, SPEED, str(second))) as agent:
        yield agent


def action_status(agent: AgentProcess) -> dict[str, Any]:
    """Actions in the API, which always match its description."""
    answer: dict[str, Any] = agent.json("/api/v1/actions")
    assert list(faults(answer, json_schema_of("GET", "/api/v1/actions"))) == []
    return answer


def entries(agent: AgentProcess, outcome: str) -> list[dict[str, Any]]:
    """Those with an outcome."""
    return [each for each in action_status(agent)["entries"] if each["outcome"] == outcome]


def test_from_advice_over_a_claim_to_its_verification(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run does nothing; a claim runs the action once; the outcome is linked."""
    done = tmp_path / "done"
    config_file = ["--config.file", str(tmp_path / "settings.json")]
    with acting_agent(tmp_path, "dry_run", 0) as agent:
        (dry,) = eventually(lambda: entries(agent, "dry_run"), 60)
        assert agent.end() == 0
    assert not done.exists()
    with acting_agent(tmp_path, "approve", 7200) as agent:
        (waiting,) = eventually(lambda: entries(agent, "refused"), 60)
        assert not done.exists()
        claim = main(["claim", waiting["advice"], "--actor", "ana", *config_file])
        (acted,) = eventually(lambda: entries(agent, "done"), 60)
        (linked,) = eventually(lambda: [e for e in entries(agent, "done") if e["result"]], 60)
        capsys.readouterr()
        assert main(["actions", "--json", *config_file]) == 0
        live = json.loads(capsys.readouterr().out)
        count = eventually(lambda: agent.metric("rightsizer_actions_total", outcome="done"))
        assert agent.end() == 0
    assert main(["actions", *config_file]) == 0
    listed = capsys.readouterr().out
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]

    assert waiting["advice"] == dry["advice"]
    assert waiting["verdict"] == "not_approved"
    assert claim == 0
    assert (acted["actor"], acted["status"]) == (f"ana (uid {os.getuid()})", 0)
    assert done.read_text() == "image-train HostBound\n"
    assert linked["id"] == acted["id"]
    # The ledger's verdict on ten minutes at high speed is not tested here.
    assert linked["result"] in {"succeeded", "failed", "regressed"}
    assert linked["result_why"]
    assert count == 1.0
    assert acted["id"] in {each["id"] for each in live["entries"]}
    outcomes = [line["outcome"] for line in lines]
    assert outcomes[:5] == ["dry_run", "refused", "started", "done", "done"]
    assert "note (command, approve): HostBound" in listed
    assert "done 0" in listed
