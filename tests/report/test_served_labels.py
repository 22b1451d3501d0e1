"""Words for what an engine serves."""

from rightsizer.model.served_load import ServedLatency, ServedLoad
from rightsizer.report.served_labels import served_detail, served_label

LOAD = ServedLoad(
    "meta-llama/Llama-3.1-8B-Instruct",
    "vllm",
    600.0,
    requests_per_second=3.08,
    prompt_tokens=900.4,
    output_tokens=220.0,
    time_to_first_token=ServedLatency(0.0603, 0.151),
    time_per_output_token=ServedLatency(0.0071),
    requests_running=2.6,
    requests_waiting=0.0,
    kv_cache_used_ratio=0.42,
)


def test_label_is_load_and_model() -> None:
    """Without the hub's folder, and tokens where requests are not counted."""
    assert served_label(LOAD) == "3.1/s Llama-3.1-8B-Instruct"
    tokens = ServedLoad("", "llama.cpp", 60.0, output_tokens_per_second=120.0)
    assert served_label(tokens) == "120 tokens/s a model without a name"
    assert served_label(ServedLoad("a/b/", "tgi", 0.0)) == "b"


def test_detail_is_all_that_is_known() -> None:
    """In the order of a request."""
    assert served_detail(LOAD) == (
        "meta-llama/Llama-3.1-8B-Instruct on vllm, 3.1 requests/s of 900 and 220 tokens, "
        "TTFT 60.3 ms (p95 151 ms), TPOT 7.1 ms, 2.6 running, 0 waiting, cache 42% full"
    )
    tokens = ServedLoad("", "llama.cpp", 60.0, output_tokens_per_second=120.0)
    assert served_detail(tokens) == "a model without a name on llama.cpp, 120 tokens/s"
    slow = ServedLoad("m", "tgi", 60.0, time_to_first_token=ServedLatency(1.8))
    assert served_detail(slow) == "m on tgi, TTFT 1,800 ms"
