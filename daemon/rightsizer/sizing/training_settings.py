"""Settings of training: times of frameworks, errors."""

from typing import Annotated, Final

from msgspec import Struct

from rightsizer.model.settings import CONSTANT, Spec
from rightsizer.sizing.collectives import SERVER_GPUS

_Count = Annotated[int, Spec(within=(1, None))]
_Factor = Annotated[float, Spec(within=(1.0, None))]
_Part = Annotated[float, Spec(within=(0.01, 1.0))]
_Amount = Annotated[float, Spec(within=(0.0, None))]
_FITTED: Final = (
    "fitted on 81 runs of MPT, 1 to 70 billion parameters, PyTorch FSDP on A100 (llm-foundry)"
)


class TrainingSettings(Struct, frozen=True):
    """Performance of training frameworks; override with measured values.

    Attributes:
        linear_ratio: Speed of a layer's products, relative to large matrix products.
        hopper_ratio: Sustained speed of long runs on Hopper, relative to short products.
            Source: published median MFU of FSDP in bf16: 0.41 on H100 SXM, 0.565 on A100 80 GB
        attention_ratio: Speed of attention, relative to large matrix products, counted without
            masking.
        element_traffic: Bytes moved per element of a layer's width and token: norms, activations,
            residuals, casts, forward and backward.
        fused_traffic_ratio: Share of that traffic that remains with fused kernels, as in Megatron.
            Source: published MFU of Megatron runs in fp8, half again as much as that of FSDP
        host_bytes_per_second: Server memory bandwidth per GPU for an update on the host.
            Source: assumed: two sockets of 100 GB/s and more, shared by eight GPUs
        recompute_ratio: Additional step time of full recomputation.
        fused_recompute_ratio: The same with fused kernels, and with adapters: one more forward
            pass.
            Source: counted; 29 to 32% over selective recomputation in arXiv:2205.05198, table 5
        selective_ratio: The same for selective recomputation.
            Source: arXiv:2205.05198, table 4: 4% over no recomputation
        score_traffic: Bytes moved per attention score that is materialized (without flash
            attention), forward and backward.
            Source: counted: products, softmax and dropout each read and write 16 bits
        chunk_layers: Layers per chunk of an interleaved pipeline; all without interleaving.
            Source: 1 to 4 in arXiv:2104.04473, 2205.05198 and 2407.21783
        exposed_ratio: Share of the communication between replicas not hidden behind computation.
        node_gpus: GPUs of a usual server, connected by its own links.
        network_bytes_per_second: Send rate of each GPU to other servers in training: of tokens to
            experts, and of its part of each sum; `sizing.serving` has that of serving.
            Source: 400 Gb/s for each GPU, as in servers of eight H100 (DGX H100, AWS p5)
        expert_ratio: Speed of products with experts, relative to plain ones: each sees few tokens.
            Source: published MFU of mixtures of experts and of dense models in fp8, alike GPUs
        layer_seconds: Minimum time per layer, forward, backward and update: the host's.
            Source: 0.78 (Llama) and 0.87 ms (BERT) with tensors 8 wide, PyTorch 2.13; a layer of
            transformers
        adapter_seconds: The same per matrix with an adapter in frameworks with autocast: casts,
            dropout, two products and a sum, forward, again and backward.
            Source: Qwen 1.8B and 14B with peft on an A100, sequences of 256: 5 ms a layer, of which
            seven adapters take 0.55 ms each (QwenLM/Qwen)
        unpacking_traffic: Bytes moved per 4-bit weight to unpack it, in each pass (QLoRA).
            Source: Llama 2 7B on an A100: 2.79 h with QLoRA, 1.85 h with LoRA, over 50,000 micro
            batches (S. Raschka, Practical Tips for Finetuning LLMs Using LoRA)
        known_error_factor: Error factor of runs similar to the fitted ones.
            Source: rows of other models and of the other GPU left out of the fit
        error_factor: Error factor of all other runs; what follows adds in squares.
            Source: published MFU by GPU and format, whose medians are within a fifth; published
            figures of NeMo, torchtitan and FSDP with QLoRA
        assumed_board_factor: Further error if a board's efficiencies are those of similar boards.
            Source: A5000, RTX 4090 and RTX 6000 Ada in published figures
        slow_link_factor: Further error if communicating GPUs have no direct links.
            Source: the same
        early_board_factor: Further error on boards before Ampere, for which frameworks were tuned
            little, or years ago.
            Source: BERT large on V100 in TensorFlow of 2019, 2.6 to 2.9 times too fast
        convolution_factor: Further error for convolutional networks: depthwise and concatenating
            ones differ widely.
            Source: four networks on an RTX 3090 (timm), 1.2 to 2.8 times too fast
        mixture_factor: Further error of mixtures of experts, whose kernels and exchanges differ by
            framework and release.
            Source: published runs (Megatron Bridge, NeMo AutoModel, arXiv:2412.19437)
        unnamed_framework_factor: Further error without a framework of adapters, encoders, split
            layers and training in 8 bits.
            Source: LoRA of Llama 3.1 8B by peft on an H100, 1.5 to 1.7 times slower; Llama 1B by
            nanotron, alike
    """

    linear_ratio: Annotated[_Part, Spec(source=_FITTED), CONSTANT] = 0.87
    hopper_ratio: Annotated[_Part, CONSTANT] = 0.82
    attention_ratio: Annotated[float, Spec(within=(0.01, None), source=_FITTED), CONSTANT] = 0.56
    element_traffic: Annotated[_Amount, Spec(source=_FITTED), CONSTANT] = 280.0
    fused_traffic_ratio: Annotated[float, CONSTANT] = 0.25
    host_bytes_per_second: Annotated[float, Spec(within=(1e8, None)), CONSTANT] = 25e9
    recompute_ratio: Annotated[float, Spec(source=_FITTED), CONSTANT] = 0.18
    fused_recompute_ratio: Annotated[float, CONSTANT] = 0.33
    selective_ratio: Annotated[float, CONSTANT] = 0.04
    score_traffic: Annotated[_Amount, CONSTANT] = 32.0
    chunk_layers: Annotated[_Factor, CONSTANT] = 2.0
    exposed_ratio: Annotated[float, Spec(source=_FITTED), CONSTANT] = 0.53
    node_gpus: _Count = SERVER_GPUS
    network_bytes_per_second: Annotated[float, Spec(within=(1e8, None))] = 50e9
    expert_ratio: Annotated[_Part, CONSTANT] = 0.45
    layer_seconds: Annotated[float, CONSTANT] = 8e-4
    adapter_seconds: Annotated[float, CONSTANT] = 5.5e-4
    unpacking_traffic: Annotated[_Amount, CONSTANT] = 8.0
    known_error_factor: Annotated[_Factor, CONSTANT] = 1.17
    error_factor: Annotated[_Factor, CONSTANT] = 1.4
    assumed_board_factor: Annotated[_Factor, CONSTANT] = 1.4
    slow_link_factor: Annotated[_Factor, CONSTANT] = 1.4
    early_board_factor: Annotated[_Factor, CONSTANT] = 2.5
    convolution_factor: Annotated[_Factor, CONSTANT] = 2.0
    mixture_factor: Annotated[_Factor, CONSTANT] = 1.7
    unnamed_framework_factor: Annotated[_Factor, CONSTANT] = 1.5
