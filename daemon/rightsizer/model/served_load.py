"""ServedLoad: what a serving engine served in a window, by its own metrics."""

from msgspec import Struct


class ServedLatency(Struct, frozen=True):
    """A latency over the requests, or tokens, of a window."""

    mean_seconds: float
    p95_seconds: float | None = None
    """`None` without a histogram, or if it lies in the last, open bucket."""


class ServedLoad(Struct, frozen=True):
    """Model, load and service level of one engine; `None` where it does not export a figure."""

    model: str
    """As the engine names it, which may be an alias; empty if it names none."""
    engine: str
    """Of `EngineName`, such as `vllm`."""
    window_seconds: float
    requests_per_second: float | None = None
    """Finished ones; `None` of engines that count tokens only, such as llama.cpp."""
    prompt_tokens_per_second: float | None = None
    output_tokens_per_second: float | None = None
    devices: tuple[str, ...] = ()
    """UUIDs of all its GPUs; empty if unknown."""
    board: str = ""
    """Name of its GPUs, as the driver tells it."""
    workload: str = ""
    """Name of the owner of its GPUs, such as that of a deployment."""
    namespace: str = ""
    engines: int = 1
    """Replicas whose figures these are: rates are of all, latencies of a request on one."""
    requests_per_second_by_hour: tuple[float | None, ...] = ()
    """By the hour of the day, local time; empty, or 24 of them."""
    requests_per_second_peak: float | None = None
    """P95 of five-minute means."""
    prompt_tokens: float | None = None
    """Of a request, mean."""
    output_tokens: float | None = None
    prompt_tokens_p95: float | None = None
    output_tokens_p95: float | None = None
    requests_running: float | None = None
    """Mean over the window, on all engines."""
    requests_waiting: float | None = None
    time_to_first_token: ServedLatency | None = None
    time_per_output_token: ServedLatency | None = None
    kv_cache_used_ratio: float | None = None
    prefix_hit_ratio: float | None = None
    """Prompt tokens that were found in the cache."""
    preemptions_per_second: float | None = None
    memory_used_bytes: float | None = None
    """Of one GPU, the fullest."""
    kv_cache_tokens: float | None = None
    """Capacity of one engine's cache."""
    maximum_running: int | None = None
    """The engine's limit of requests at a time."""
    maximum_tokens: int | None = None
    """The engine's limit of a request's tokens."""
    weight_format: str = ""
    """As the engine names it, such as `fp8`; empty if it does not."""
    cache_format: str = ""
    tensor: int | None = None
    """GPUs that share a layer, where the engine or its GPUs tell."""
