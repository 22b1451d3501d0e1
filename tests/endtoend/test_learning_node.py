"""A real agent beside an engine, on a driver that is not simulated: what it learns for plans."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from agent_process import AgentProcess, agent_process, eventually, run_rightsizer
from engine_pages import EnginePage, engine_server, vllm_page
from foreign_library import foreign_library

pytestmark = pytest.mark.timeout(300)

SPEED: Final = "1800"
MODEL: Final = "meta-llama/Llama-3.1-8B-Instruct"
SETTING: Final = "RIGHTSIZER_SIZING__LEARNED_FILE"
CONFIG: Final = """\
web: {{listen_addresses: ["127.0.0.1:0"]}}
sampling: {{interval: 30s}}
sources:
  simulated: {{scenario: "{scenario}"}}
  serving: {{endpoints: [{{url: "{url}", gpus: ["0"]}}], interval: 30s}}
history: {{path: ""}}
path: {{api_socket: ""}}
log: {{format: json}}
"""


class LoadedEngine:
    """An engine that is faster than predicted; some requests end each time that it is asked."""

    def __init__(self) -> None:
        self.engine: EnginePage = vllm_page(10, model=MODEL)
        self.engine.level("num_requests_waiting", 0, engine="0")
        self._lock = threading.Lock()

    def page(self) -> str:
        """Its page after ten more requests."""
        with self._lock:
            self.engine.count("request_success", 10, engine="0", finished_reason="stop")
            self.engine.count("prompt_tokens", 4000, engine="0")
            self.engine.count("generation_tokens", 1000, engine="0")
            self.engine.observe("time_to_first_token_seconds", *[0.15] * 10, engine="0")
            self.engine.observe("inter_token_latency_seconds", *[0.05] * 10, engine="0")
            self.engine.observe("request_prompt_tokens", *[400.0] * 10, engine="0")
            self.engine.observe("request_generation_tokens", *[100.0] * 10, engine="0")
            return self.engine.page()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver's folder."""
    return foreign_library(tmp_path_factory.mktemp("driver"))


@contextmanager
def node(folder: Path, library: Path, scenario: str = "") -> Iterator[AgentProcess]:
    """An agent whose hours pass in two seconds, beside the engine."""
    program = Path(__file__).parents[1] / "support" / "hasty_agent.py"
    command = ("env", f"LD_LIBRARY_PATH={library}", sys.executable, str(program), SPEED)
    with engine_server(LoadedEngine().page) as url:
        config = CONFIG.format(scenario=scenario, url=url)
        with agent_process(folder, command=command, config=config) as agent:
            yield agent


def jobs(agent: AgentProcess) -> dict[str, Any]:
    """Jobs of the agent by their names."""
    report = eventually(lambda: agent.json("/api/v1/report"))
    return {job["name"]: job for job in report["agent"]["jobs"]}


def planned(config: Path) -> dict[str, Any]:
    """What is planned on the node for the same load."""
    asked = ("llama-3.1-8b", "--concurrency", "4", "--gpus", "L4")
    answer = run_rightsizer("plan", *asked, "--json", "--config.file", config)
    (candidate,) = json.loads(answer.stdout)["candidates"]
    return dict(candidate)


def test_engines_of_a_node_shift_and_narrow_its_plans(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a command; said in the plan, and gone after `--forget`."""
    learned = tmp_path / "state" / "learned.json"
    monkeypatch.setenv(SETTING, str(learned))
    config = tmp_path / "rightsizer.yaml"
    with node(tmp_path, library) as agent:
        before = planned(config)
        eventually(learned.exists)
        residuals = json.loads(learned.read_text("utf-8"))["residuals"]
        assert {residual["figure"] for residual in residuals} == {"tpot_ms", "ttft_ms"}
        assert {residual["subject"]["model"] for residual in residuals} == {"Llama-3.1-8B"}
        assert {residual["subject"]["board"] for residual in residuals} == {"L4"}
        assert jobs(agent)["learn"]["last_error"] is None
    after = planned(config)
    assert "adjusted" not in before
    assert after["adjusted"]["count"] >= 1
    widths = [answer["tpot_ms_high"] / answer["tpot_ms_low"] for answer in (before, after)]
    assert widths[1] < widths[0]
    assert after["tpot_ms"] != before["tpot_ms"]
    assert run_rightsizer("served", "--forget", "--config.file", config).returncode == 0
    assert planned(config) == before


def test_file_that_cannot_be_written_costs_only_what_is_learned(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log and the report say why; samples and metrics go on."""
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv(SETTING, str(blocked / "learned.json"))
    with node(tmp_path, library) as agent:
        fault = eventually(lambda: jobs(agent)["learn"]["last_error"])
        assert fault.startswith("nothing is learned: file of learned measurements")
        assert "learned.json" in fault
        assert {event["error"] for event in agent.events("job_failed")} == {fault}
        samples = agent.metric("rightsizer_samples_total")
        eventually(lambda: agent.metric("rightsizer_samples_total") > samples)


def test_simulated_node_learns_nothing(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its engine may be real; its GPUs are not."""
    learned = tmp_path / "learned.json"
    monkeypatch.setenv(SETTING, str(learned))
    with node(tmp_path, library, "eight-gpu-node") as agent:
        eventually(lambda: jobs(agent)["recommend"]["runs"] >= 10)
        assert "learn" not in jobs(agent)
    assert not learned.exists()
