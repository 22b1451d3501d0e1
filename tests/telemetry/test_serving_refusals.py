"""Pages that are not one engine's, or almost none: refused, or known by the expected engine."""

import json

import pytest

from rightsizer.model.errors import DriverError
from rightsizer.model.signal import Signal
from rightsizer.telemetry.serving.page import parse_page, values_of
from rightsizer.telemetry.serving.settings import EngineName


def test_page_of_a_router_is_refused() -> None:
    """Its numbers are those of several engines, on GPUs of which none is this endpoint's."""
    for series, label in (
        ('vllm:num_requests_swapped{server="http://10.0.0.7:8000"} 0.0', "server"),
        ('sglang_num_queue_reqs{tp_rank="0",worker_addr="grpc://10.0.0.7:8001"} 0', "worker_addr"),
    ):
        with pytest.raises(DriverError, match=f"a router's, whose label {label}"):
            parse_page(f"{series}\n")


def test_page_without_any_name_that_is_read_is_refused() -> None:
    """It must not look like an engine without a queue; some have none before a request."""
    for text in ('vllm:current_qps{server="http://a"} 3\n', "lmdeploy:num_running_requests 3\n"):
        with pytest.raises(DriverError, match="none of those that are read"):
            parse_page(text)
    for name in ("nv_gpu_utilization", "sglang:max_total_num_tokens", "trtllm_request_success"):
        assert values_of(parse_page(f"{name} 1\n")) == {}


@pytest.mark.parametrize(
    "text",
    [
        "time_to_first_token_seconds_count 3\n",
        "e2e_request_latency_seconds_count 3\ntime_to_first_token_seconds_count 3\n",
        "e2e_request_latency_seconds_count 3\nrequest_success_total 3\n",
    ],
)
def test_page_of_a_gateway_with_latencies_is_refused(text: str) -> None:
    """Names without an engine's are anyone's, and its latencies are those of several engines."""
    with pytest.raises(DriverError, match="no metrics of a serving engine"):
        parse_page(text)


def test_page_of_rays_node_is_refused() -> None:
    """It has the engines of all replicas on the node."""
    with pytest.raises(DriverError, match="no metrics of a serving engine"):
        parse_page('ray_vllm_num_requests_running{ReplicaId="a",WorkerId="b"} 3.0\n')


def test_page_in_a_json_string_is_read() -> None:
    """llama.cpp of November 2025 quotes its page (#17384); other JSON is no page."""
    quoted = json.dumps("# HELP llamacpp:requests_processing x\nllamacpp:requests_processing 3\n")
    assert values_of(parse_page(quoted)) == {Signal.REQUESTS_RUNNING: 3.0}
    for text in ("[]", '{"kv_cache": 1}', quoted[:-1]):
        with pytest.raises(DriverError, match="is JSON; name the address"):
            parse_page(text)


def test_page_of_comments_alone_is_of_the_expected_engine() -> None:
    """A runner without a loaded model says so in a comment."""
    page_of_runner = parse_page("# No active runners\n", EngineName.LLAMA_CPP)
    assert page_of_runner.engine.name is EngineName.LLAMA_CPP
