"""Wording of what an engine serves."""

from typing import Final

from rightsizer.model.values import ServedLatency, ServedLoad, number_text, percent_text

_DIGITS: Final = 3
"""Of latencies, as the planner has them."""


def served_label(load: ServedLoad) -> str:
    """Return load and model in a few words: `3.1/s Llama-3.1-8B`."""
    if load.requests_per_second is not None:
        return f"{number_text(load.requests_per_second)}/s {load.title}"
    if load.output_tokens_per_second is not None:
        return f"{number_text(load.output_tokens_per_second)} tokens/s {load.title}"
    return load.title


def served_detail(load: ServedLoad) -> str:
    """Return model, engine, load and latencies, as far as they are known."""
    parts = [f"{load.model or load.title} on {load.engine}"]
    if load.requests_per_second is not None:
        rate = f"{number_text(load.requests_per_second)} requests/s"
        if load.prompt_tokens is not None and load.output_tokens is not None:
            prompt = number_text(round(load.prompt_tokens))
            rate += f" of {prompt} and {number_text(round(load.output_tokens))} tokens"
        parts.append(rate)
    elif load.output_tokens_per_second is not None:
        parts.append(f"{number_text(load.output_tokens_per_second)} tokens/s")
    if load.time_to_first_token is not None:
        parts.append(f"TTFT {_latency(load.time_to_first_token)}")
    if load.time_per_output_token is not None:
        parts.append(f"TPOT {_latency(load.time_per_output_token)}")
    queue = ((load.requests_running, "running"), (load.requests_waiting, "waiting"))
    parts += [f"{number_text(count)} {word}" for count, word in queue if count is not None]
    if load.kv_cache_used_ratio is not None:
        parts.append(f"cache {percent_text(load.kv_cache_used_ratio)} full")
    return ", ".join(parts)


def _latency(latency: ServedLatency) -> str:
    slowest = "" if latency.p95_seconds is None else f" (p95 {_time(latency.p95_seconds)})"
    return f"{_time(latency.mean_seconds)}{slowest}"


def _time(seconds: float) -> str:
    return f"{number_text(1000 * seconds, _DIGITS)} ms"
