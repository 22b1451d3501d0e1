"""An agent that profiles a starved workload: from finding to profile, and after a kill."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from agent_process import AgentProcess, agent_process, eventually
from api_schema import faults, json_schema_of

SUPPORT: Final = Path(__file__).parent.parent / "support"
SPEED: Final = "720"
"""Ten minutes in less than a second."""
SCENARIO: Final = """\
name: starved
seed: 126
cores: 32
boards: [{board: H100-SXM5-80GB}]
workloads:
  - name: image-train
    class: batch
    allocator: growing
    gpus: [0]
    memory_gib: 11
    cores: 2
    phases:
      - {activity: data_starved_training, state: host_bound, host: {cpu: 0.99, cpu_pressure: 0.5}}
"""


def config(folder: Path, behavior: str) -> str:
    """Advice after ten minutes, and a capture of its workload."""
    rule = {"conduct": {"long": "10m"}}
    argv = ["{folder}", "{pid}", "{seconds}", behavior]
    return json.dumps(
        {
            "sampling": {"interval": "30s"},
            "history": {"path": str(folder / "history.db"), "flush_interval": "60s"},
            "web": {"listen_addresses": ["127.0.0.1:0"]},
            "sources": {"simulated": {"scenario": str(folder / "scenario.yaml")}},
            "path": {"api_socket": ""},
            "recommender": {"interval": "60s", "jitter": "0s", "rules": {"host_bound": rule}},
            "profiles": {
                "drop_folder": {"path": str(folder / "drop"), "interval": "60s"},
                "capture": {
                    "kind": "command",
                    "seconds": "0.5s",
                    "command": [
                        sys.executable,
                        str(SUPPORT / "capture_recorder.py"),
                        *argv,
                    ],
                },
            },
        }
    )


def constants() -> str:
    """What lets a rule judge after minutes, and a capture wait at high speed."""
    rule = {
        "minimum_known": "2m",
        "minimum_active": "1m",
        "conduct": {"short": "5m", "minimum_known": "5m"},
    }
    capture = {"landing": "1d", "timing": {"retry_after": "1d"}}
    return json.dumps(
        {"recommender": {"rules": {"host_bound": rule}}, "profiles": {"capture": capture}}
    )


@contextmanager
def starved_agent(folder: Path, behavior: str = "well", second: int = 0) -> Iterator[AgentProcess]:
    """An agent at high speed, from a second of the day on."""
    (folder / "scenario.yaml").write_text(SCENARIO)
    (folder / "drop").mkdir(exist_ok=True)
    (folder / "settings.json").write_text(config(folder, behavior))
    (folder / "constants.json").write_text(constants())
    program = (
        sys.executable,
        str(SUPPORT / "captured_node.py"),
        str(folder / "settings.json"),
    )
    with agent_process(folder, command=(*program, SPEED, str(second))) as agent:
        yield agent


def captures(agent: AgentProcess) -> list[dict[str, Any]]:
    """Captures in the API, which always match its description."""
    answer = agent.json("/api/v1/captures")
    assert list(faults(answer, json_schema_of("GET", "/api/v1/captures"))) == []
    found: list[dict[str, Any]] = answer["captures"]
    return found


def test_a_finding_has_its_workload_profiled_and_the_profile_is_taken(tmp_path: Path) -> None:
    """Advice opens, the recorder runs, and its file arrives, is read, judged and joined."""
    with starved_agent(tmp_path) as agent:
        (made,) = eventually(
            lambda: [capture for capture in captures(agent) if capture["outcome"] == "landed"], 60
        )
        (advice,) = [
            each
            for each in agent.json("/api/v1/advice")["advice"]
            if each["reasons"] == ["HostBound"]
        ]
        (profile,) = agent.json("/api/v1/profiles")["profiles"]
        landed = eventually(lambda: agent.metric("rightsizer_captures_total", outcome="landed"))
        answer = agent.json("/api/v1/captures")
        let_go = eventually(lambda: agent.events("released"))
        taken_back = eventually(lambda: agent.events("resumed"))
        status = agent.end()
    name = profile["sources"][0]
    assert made["finding"] == advice["id"]
    assert (made["workload"], made["reason"]) == (advice["workload"], "HostBound")
    assert [each["path"] for each in answer["files"]] == [f"{made['id']}/{name}"]
    assert (tmp_path / "drop" / made["id"] / name).is_file()
    assert landed == 1.0
    assert "counters" in let_go[0]["what"]
    assert len(let_go) == len(taken_back) == 1
    assert status == 0


def test_a_kill_in_the_middle_of_a_capture_leaves_nothing_held(tmp_path: Path) -> None:
    """The next agent resumes the counters, ends the remaining process, and does not repeat it."""
    marker = tmp_path / "drop" / ".started"
    with starved_agent(tmp_path, "hangs") as agent:
        eventually(marker.exists, 60)
        (running,) = captures(agent)
        agent.end(signal.SIGKILL)
    marker.unlink()
    with starved_agent(tmp_path, "hangs", second=7200) as agent:
        (left,) = captures(agent)
        eventually(lambda: agent.metric("rightsizer_job_runs_total", name="capture") >= 4)
        (still,) = captures(agent)
        released = agent.events("released")
        status = agent.end()
    assert running["outcome"] == "running"
    assert (left["id"], left["outcome"]) == (running["id"], "interrupted")
    assert left["detail"].endswith("what it had called was ended with the next start")
    assert still == left
    assert released == []
    assert not marker.exists()
    assert status == 0
