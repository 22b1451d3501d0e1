"""What the memory model takes for granted of drivers, frameworks and serving engines."""

from dataclasses import dataclass

from rightsizer.domain.settings import setting

__all__ = ["MemorySettings"]

_GIB = 2.0**30
_MIB = 2.0**20
_KIB = 2.0**10


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Figures of the software around a model; a site that has measured its own sets them."""

    context_bytes: float = setting(
        307.0 * _MIB,
        help="What a process takes on a GPU before it does anything: context, kernels, handles.",
        unit="bytes",
        minimum=0,
        source="0.25-0.6 GiB; the lower end since kernels are loaded when first used (CUDA 11.7)",
    )
    driver_reserved_bytes: float = setting(
        410.0 * _MIB,
        help="What of the memory that NVML reports no process can have.",
        unit="bytes",
        minimum=0,
        source="H100 79.2, A100-80 79.15, L40S 44.4 GiB visible: 0.4-0.6 GiB less than reported",
    )
    communication_pair_bytes: float = setting(
        342.0 * _MIB,
        help="NCCL's buffers on each GPU of a group of two.",
        unit="bytes",
        minimum=0,
        source="aiconfigurator's system files (Apache-2.0)",
    )
    communication_group_bytes: float = setting(
        392.0 * _MIB,
        help="NCCL's buffers on each GPU of a larger group.",
        unit="bytes",
        minimum=0,
        source="aiconfigurator's system files (Apache-2.0)",
    )
    graph_bytes: float = setting(
        154.0 * _KIB,
        help="What a CUDA graph of one batch size takes for one layer.",
        unit="bytes",
        minimum=0,
        source="0.3 GiB for 32 layers and 1.3 GiB for 126, each with 67 batch sizes; assumed",
    )
    graph_batch_maximum: int = setting(
        512,
        help="The largest batch that a serving engine captures a graph of.",
        minimum=0,
        source="vLLM's default",
    )
    batched_tokens: int = setting(
        8192,
        help="Tokens that a serving engine runs through a model at a time.",
        minimum=1,
        source="vLLM's max_num_batched_tokens on data center GPUs",
    )
    sampled_rows: int = setting(
        256,
        help="Requests that a serving engine chooses a token for at a time.",
        minimum=1,
        source="vLLM's max_num_seqs",
    )
    fragmentation_ratio: float = setting(
        0.05,
        help="What training's allocator holds beyond activations and gradients, of these.",
        unit="ratio",
        minimum=0,
        maximum=1.0,
        source="reserved by allocated is 1.03-1.10 in PyTorch's steady state",
    )
    convolution_workspace_bytes: float = setting(
        1.0 * _GIB,
        help="The most that cuDNN takes for one convolution.",
        unit="bytes",
        minimum=0,
        source="PyTorch's default limit on cuDNN's workspace",
    )
    inference_headroom_ratio: float = setting(
        0.1,
        help="What of a GPU's memory serving should leave free.",
        unit="ratio",
        minimum=0,
        maximum=0.9,
        source="vLLM's gpu_memory_utilization is 0.90",
    )
    training_headroom_ratio: float = setting(
        0.05,
        help="What of a GPU's memory training should leave free.",
        unit="ratio",
        minimum=0,
        maximum=0.9,
        source="assumed; never less than headroom_minimum",
    )
    headroom_minimum_bytes: float = setting(
        1.0 * _GIB,
        help="The least that training should leave free.",
        unit="bytes",
        minimum=0,
        source="assumed",
    )
