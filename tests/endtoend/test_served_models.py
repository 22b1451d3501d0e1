"""A real agent beside an engine on loopback: model and load in its API, metrics and history."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_process import AgentProcess, agent_process, eventually, run_rightsizer
from api_schema import faults, json_schema_of
from assistant_client import call_tools
from engine_pages import EnginePage, engine_server, vllm_page
from rightsizer.io.codec import convert
from rightsizer.model.served_load import ServedLoad

pytestmark = pytest.mark.timeout(120)

CONFIG = """\
web: {{listen_addresses: ["127.0.0.1:0"]}}
sources:
  simulated: {{scenario: eight-gpu-node}}
  serving: {{endpoints: [{{url: "{url}", gpus: ["0", "1"]}}], interval: 1s}}
policies:
  - {{match: {{gpu: "*"}}, model: meta-llama/Llama-3.1-8B-Instruct}}
history: {{path: "{folder}/history.db", flush_interval: 1s}}
path: {{api_socket: ""}}
log: {{format: json}}
"""


class LoadedEngine:
    """An engine that finishes some requests each time that it is asked."""

    def __init__(self) -> None:
        self.engine: EnginePage = vllm_page(10, model="chat")
        self._lock = threading.Lock()

    def page(self) -> str:
        """Its page after three more requests."""
        with self._lock:
            self.engine.count("request_success", 3, engine="0", finished_reason="stop")
            self.engine.count("generation_tokens", 300, engine="0")
            self.engine.observe("time_to_first_token_seconds", 0.15, 0.15, engine="0")
            return self.engine.page()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The engine's address."""
    with engine_server(LoadedEngine().page) as address:
        yield address


def served(agent: AgentProcess) -> list[dict[str, Any]]:
    """Models by the API."""
    found: list[dict[str, Any]] = agent.json("/api/v1/serving?span=1h")["served"]
    return found


def requests(agent: AgentProcess) -> float:
    """Requests in the last hours."""
    return sum(
        (each["requests_per_second"] or 0) * each["window_seconds"] for each in served(agent)
    )


def test_model_and_load_are_told_and_outlive_a_kill(url: str, tmp_path: Path) -> None:
    """By API, report and metrics; after a kill no more is lost than since the last write."""
    config = CONFIG.format(url=url, folder=tmp_path)
    with agent_process(tmp_path, config=config) as agent:
        eventually(lambda: requests(agent) >= 9, 60)
        document = agent.json("/api/v1/serving?span=1h")
        assert list(faults(document, json_schema_of("GET", "/api/v1/serving"))) == []
        (load,) = (convert(each, ServedLoad) for each in document["served"])
        assert load.model == "meta-llama/Llama-3.1-8B-Instruct"
        assert load.engine == "vllm"
        assert len(load.devices) == 2
        assert load.board
        assert load.output_tokens == pytest.approx(100.0)
        assert load.time_to_first_token is not None
        assert load.time_to_first_token.mean_seconds == pytest.approx(0.15)
        assert load.kv_cache_tokens == 16_000
        assert (load.cache_format, load.requests_running) == ("fp8", 4.0)
        assert agent.json("/api/v1/report")["served"][0]["devices"] == list(load.devices)
        assert agent.metric("rightsizer_served_requests_per_second", model=load.model) > 0
        assert agent.metric("rightsizer_served_model_info", uuid=load.devices[0]) == 1.0
        assert agent.get("/api/v1/serving?span=2h")[0] == 400
        planned = run_rightsizer("served", "--url", agent.url)
        assert "Llama-3.1-8B-Instruct by vllm on 2 x H100-SXM5-80GB" in " ".join(
            planned.stdout.split()
        )

        (told,) = call_tools(("--url", agent.url), ("served", {}))
        assert told.document is not None
        (answer,) = told.document["served"]
        assert answer["load"]["model"] == load.model

        before = requests(agent)
        writes = agent.metric("rightsizer_history_writes_total")
        eventually(lambda: agent.metric("rightsizer_history_writes_total") > writes + 1, 60)
    # It was killed, not stopped.
    with agent_process(tmp_path, config=config) as again:
        assert eventually(lambda: requests(again) >= before, 60)
