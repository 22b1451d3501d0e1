"""`rightsizer served` on pages of engines: files, and addresses over real sockets."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rightsizer.cli.main import main
from rightsizer.model.errors import RequirementError
from rightsizer.planner.served.source import agent_loads, loads_of

Captured = pytest.CaptureFixture[str]


def page(requests: int) -> str:
    """A page of vLLM after requests of 1,500 tokens in and 300 out."""
    labels = '{model_name="meta-llama/Llama-3.1-8B-Instruct"}'
    tokens = 300 * requests
    counts = {
        "num_requests_running": 7.0,
        "num_requests_waiting": 0.0,
        "request_success_total": requests,
        "request_prompt_tokens_sum": 1500 * requests,
        "request_prompt_tokens_count": requests,
        "request_generation_tokens_sum": tokens,
        "request_generation_tokens_count": requests,
        "time_to_first_token_seconds_sum": 0.06 * requests,
        "time_to_first_token_seconds_count": requests,
        "time_per_output_token_seconds_sum": 0.0083 * tokens,
        "time_per_output_token_seconds_count": tokens,
    }
    return "".join(f"vllm:{name}{labels} {value}\n" for name, value in counts.items())


@pytest.fixture
def address() -> Iterator[str]:
    """The address of an engine that answers ten requests between two readings."""
    answers = iter((page(1000), page(1010)))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = next(answers).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    thread.join()
    server.server_close()


def answered(capsys: Captured, *arguments: str) -> Any:
    """The answer about one engine."""
    assert main(["served", *arguments, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    return found


def test_address_is_read_twice(address: str, capsys: Captured) -> None:
    """What happened in between counts, not what was before."""
    found = answered(capsys, address, "--window", "1s", "--gpu", "H100-SXM5-80GB")
    assert found["model"] == "Llama-3.1-8B"
    assert found["load"]["prompt_tokens"] == 1500
    assert 1.0 < found["load"]["requests_per_second"] <= 10.0
    reasons = {finding["abstained"] for finding in found["findings"]}
    assert reasons <= {"measured for less than a day, which is a load's cycle", None}


def test_file_of_a_page_counts_since_its_engine_began(tmp_path: Path, capsys: Captured) -> None:
    """For as long as the flag says."""
    file = tmp_path / "metrics.txt"
    file.write_text(page(7 * 86400 * 3), encoding="utf-8")
    found = answered(capsys, str(file), "--window", "7d", "--gpu", "H100-SXM5-80GB")
    assert found["load"]["requests_per_second"] == pytest.approx(3.0)
    assert main(["served", str(file)]) == 2
    assert "--window 7d" in capsys.readouterr().err


def test_what_is_no_page_is_refused_with_its_place(tmp_path: Path, capsys: Captured) -> None:
    """Neither a page nor loads."""
    file = tmp_path / "metrics.txt"
    file.write_text("node_load1 3\n", encoding="utf-8")
    assert main(["served", str(file), "--window", "1d"]) == 1
    assert f"{file}: the page has no metrics of a serving engine" in capsys.readouterr().err


def test_closed_address_is_refused_with_its_place(capsys: Captured) -> None:
    """Before any window passes."""
    with pytest.raises(RequirementError, match=r"http://127.0.0.1:1: .*check the address"):
        loads_of("http://127.0.0.1:1", None)
    assert not capsys.readouterr().out


def test_agent_without_engines_is_refused_with_the_setting() -> None:
    """An agent reads those that are listed."""
    with pytest.raises(RequirementError, match=r"list its engines in sources\.serving"):
        agent_loads({"time": 1.0, "span": "7d", "served": []}, "http://node:19400")
