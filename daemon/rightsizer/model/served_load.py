"""ServedLoad: what a serving engine served in a window, by its own metrics."""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

_HOURS: Final = 24
_Amount: TypeAlias = Annotated[float, Meta(ge=0.0, le=1e9)]
"""Finite, and beyond what any engine does: what is read is not trusted."""
_Bytes: TypeAlias = Annotated[float, Meta(ge=0.0, le=1e15)]
_Ratio: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
_Limit: TypeAlias = Annotated[int, Meta(ge=0, le=10**9)]


class ServedLatency(Struct, frozen=True):
    """A latency over the requests, or tokens, of a window."""

    mean_seconds: _Amount
    p95_seconds: _Amount | None = None
    """`None` without a histogram, or if it lies in the last, open bucket."""


class ServedLoad(Struct, frozen=True):
    """Model, load and service level of one engine; `None` where it does not export a figure."""

    model: str
    """As the engine names it, which may be an alias; empty if it names none."""
    engine: str
    """Of `EngineName`, such as `vllm`."""
    window_seconds: _Amount
    requests_per_second: _Amount | None = None
    """Finished ones; `None` of engines that count tokens only, such as llama.cpp."""
    prompt_tokens_per_second: _Amount | None = None
    output_tokens_per_second: _Amount | None = None
    devices: tuple[str, ...] = ()
    """UUIDs of all its GPUs; empty if unknown."""
    board: str = ""
    """Name of its GPUs, as the driver tells it."""
    workload: str = ""
    """Name of the owner of its GPUs, such as that of a deployment."""
    namespace: str = ""
    engines: Annotated[int, Meta(ge=1, le=10_000)] = 1
    """Replicas whose figures these are: rates are of all, latencies of a request on one."""
    requests_per_second_by_hour: tuple[_Amount | None, ...] = ()
    """By the hour of the day, local time; empty, or 24 of them."""
    requests_per_second_peak: _Amount | None = None
    """P95 of five-minute means."""
    prompt_tokens: _Amount | None = None
    """Of a request, mean."""
    output_tokens: _Amount | None = None
    prompt_tokens_p95: _Amount | None = None
    output_tokens_p95: _Amount | None = None
    requests_running: _Amount | None = None
    """Mean over the window, on all engines."""
    requests_waiting: _Amount | None = None
    time_to_first_token: ServedLatency | None = None
    time_per_output_token: ServedLatency | None = None
    kv_cache_used_ratio: _Ratio | None = None
    prefix_hit_ratio: _Ratio | None = None
    """Prompt tokens that were found in the cache."""
    preemptions_per_second: _Amount | None = None
    memory_used_bytes: _Bytes | None = None
    """Of one GPU, the fullest."""
    kv_cache_tokens: _Amount | None = None
    """Capacity of one engine's cache."""
    maximum_running: _Limit | None = None
    """The engine's limit of requests at a time."""
    maximum_tokens: _Limit | None = None
    """The engine's limit of a request's tokens."""
    weight_format: str = ""
    """As the engine names it, such as `fp8`; empty if it does not."""
    cache_format: str = ""
    tensor: Annotated[int, Meta(ge=1, le=1024)] | None = None
    """GPUs that share a layer, where the engine or its GPUs tell."""
    ttft: str = ""
    """Longest time to the first token that a policy states, as of a plan: `p95=2s`."""
    tpot: str = ""
    """Longest time between tokens, likewise."""

    @property
    def title(self) -> str:
        """Name of the model without its folder or organization."""
        return self.model.rstrip("/").rpartition("/")[2] or "a model without a name"

    def __post_init__(self) -> None:
        hours = len(self.requests_per_second_by_hour)
        if hours not in {0, _HOURS}:
            raise ValueError(f"requests_per_second_by_hour: has {hours} hours; a day has {_HOURS}")


class ServedNeed(Struct, frozen=True):
    """What an engine would need, as the planner answered last."""

    devices: tuple[str, ...]
    """UUIDs of its GPUs now."""
    model: str
    """Without its folder or organization."""
    short: str
    """What it needs in a few words, for a row."""
    needs: str
    """Other GPUs, another layout or format, with their certainty; or why nothing else is known."""
    saves: str = ""
    """What that saves or costs, or why nothing is advised."""

    def __str__(self) -> str:
        """`Llama-3.1-8B needs 1 x L40S: 97% to keep TTFT p95 <= 400ms; saves $4.10 an hour`."""
        return "; ".join(filter(None, (f"{self.model} needs {self.needs}", self.saves)))
