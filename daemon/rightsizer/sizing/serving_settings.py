"""What the serving model takes for granted of engines; the catalogue has what it is of boards."""

from dataclasses import dataclass

from rightsizer.domain.settings import setting

__all__ = ["ServingSettings"]


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Figures of serving engines; a site that has measured its own sets them."""

    layer_seconds: float = setting(
        40e-6,
        help="What one layer takes of every pass beyond its reads and products: starting kernels.",
        unit="seconds",
        minimum=0.0,
        source="fitted on measured TPOT (vLLM, Hopper)",
    )
    request_layer_seconds: float = setting(
        0.25e-6,
        help="What each request in flight adds to each layer of a step: scheduling, attention's "
        "tiles, cache writes.",
        unit="seconds",
        minimum=0.0,
        source="between 0.6 us, fitted on vLLM on several GPUs, and 0, which fits MLPerf's best",
    )
    attention_compute_ratio: float = setting(
        0.65,
        help="What attention over a prompt reaches of the speed of large matrix products.",
        unit="ratio",
        minimum=0.01,
        maximum=1.0,
        source="half of the dense peak, FlashAttention 2 and 3 (arXiv:2307.08691, 2407.08608)",
    )
    bunching_ratio: float = setting(
        0.85,
        help="How far prompts arrive together: 0 for alone, 1 for the root of those in flight.",
        unit="ratio",
        minimum=0.0,
        source="measured TTFT (vLLM, Hopper), where single models fit 0.45 to 1.05",
    )
    chunk_tokens: int = setting(
        8192,
        help="Tokens of prompts that an engine runs through a model at a time.",
        minimum=1,
        source="vLLM's max_num_batched_tokens on data center GPUs",
    )
    requests_maximum: int = setting(
        256,
        help="Requests that one replica of an engine runs at a time, at most.",
        minimum=1,
        source="vLLM's max_num_seqs",
    )
