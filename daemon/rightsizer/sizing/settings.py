"""Settings of sizing: plans, memory, serving, images and tables, training, cost."""

from functools import partial
from typing import Final

from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.units import GIB, MIB

_KIB = 2.0**10
_count = partial(setting, within=(1, None))
_factor = partial(setting, within=(1.0, None))
_part = partial(setting, within=(0.01, 1.0))
_amount = partial(setting, within=(0.0, None))
_EXPERTS: Final = (
    "kernels of vLLM 0.24 on H100 and H200 (aiconfigurator-core 0.12.0); by other shapes within "
    "x1.12, and x1.50 of nine in ten"
)
_FITTED = "fitted on 81 runs of MPT, 1 to 70 billion parameters, PyTorch FSDP on A100 (llm-foundry)"


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """Memory overheads of the software around a model; override with measured values.

    Attributes:
        context_bytes: GPU memory of a process before any work: context, kernels, handles.
            Source: 0.25-0.6 GiB; the lower end since kernels are loaded when first used (CUDA 11.7)
        driver_reserved_bytes: Memory reported by NVML that no process can use.
            Source: H100 79.2, A100-80 79.15, L40S 44.4 GiB visible: 0.4-0.6 GiB less than reported
        communication_pair_bytes: NCCL buffers on each GPU of a group of two.
            Source: aiconfigurator's system files (Apache-2.0)
        communication_group_bytes: NCCL buffers on each GPU of a larger group.
            Source: aiconfigurator's system files (Apache-2.0)
        graph_bytes: Memory of a CUDA graph of one batch size, per layer.
            Source: 0.3 GiB for 32 layers and 1.3 GiB for 126, each with 67 batch sizes; assumed
        graph_batch_maximum: Maximum batch size for which a serving engine captures a graph.
            Source: vLLM's default
        batched_tokens: Maximum tokens per pass of a serving engine.
            Source: vLLM's max_num_batched_tokens on data center GPUs
        sampled_rows: Maximum requests per sampling step of a serving engine.
            Source: vLLM's max_num_seqs
        fragmentation_ratio: Extra memory of the training allocator, of activations and gradients.
            Source: reserved by allocated is 1.03-1.10 in PyTorch's steady state
        convolution_workspace_bytes: Maximum workspace of one cuDNN convolution.
            Source: PyTorch's default limit on cuDNN's workspace
        inference_headroom_ratio: Share of a GPU's memory that serving should leave free.
            Source: vLLM's gpu_memory_utilization is 0.90
        training_headroom_ratio: Share of a GPU's memory that training should leave free.
            Source: assumed; never less than headroom_minimum
        headroom_minimum_bytes: Minimum memory that training should leave free.
            Source: assumed
        several_gpus_error_factor: Further error factor of training memory on several GPUs:
            frameworks differ in what they gather and keep.
            Source: published peaks of torchtitan and FSDP with LoRA and QLoRA
        unpacked_error_factor: Further error factor for weights that are unpacked (QLoRA).
            Source: published peaks of torchtune
    """

    context_bytes: float = setting(307.0 * MIB)
    driver_reserved_bytes: float = setting(410.0 * MIB)
    communication_pair_bytes: float = setting(342.0 * MIB)
    communication_group_bytes: float = setting(392.0 * MIB)
    graph_bytes: float = setting(154.0 * _KIB)
    graph_batch_maximum: int = setting(512, within=(0, None))
    batched_tokens: int = _count(8192)
    sampled_rows: int = _count(256)
    fragmentation_ratio: float = setting(0.05)
    convolution_workspace_bytes: float = setting(1.0 * GIB)
    inference_headroom_ratio: float = setting(0.1, within=(0, 0.9))
    training_headroom_ratio: float = setting(0.05, within=(0, 0.9))
    headroom_minimum_bytes: float = setting(1.0 * GIB)
    several_gpus_error_factor: float = _factor(1.4)
    unpacked_error_factor: float = _factor(1.2)


@dataclass(frozen=True, slots=True)
class ServingErrorSettings:
    """Error factors of serving estimates, each covering 90%.

    What applies adds in squares. The evaluation prints what each covers of what is known, and what
    the rest of it says with a model, board or source left out.

    Attributes:
        step_factor: Error of times between tokens and of rates, for dense models on boards with
            measured efficiencies.
            Source: 247 rows of vLLM, TensorRT-LLM and MLPerf (make eval)
        prompts_factor: How much less prompts beside a step may cost: engines reuse shared ones.
            Source: 21 rows of a server that cannot have computed all its prompts
        first_token_factor: Error of times to first token, for prompts that arrive together or
            apart.
            Source: 159 rows of vLLM
        assumed_board_factor: Further error if a board's efficiencies are those of similar boards.
            Source: eight kinds of boards in MLPerf; RTX 4090, A40, H20, MI300X in published figures
        other_vendor_factor: How much slower boards of vendors other than NVIDIA may further be.
            Source: MI300X and MI325X in vLLM and SGLang, 1.3 to 2.8 times as long; none in MLPerf
        slow_link_factor: Further error if GPUs of a tensor parallel group have no direct links.
            Source: sums over four boards in PCIe 4 and 5 slots, of 5.6 and 26 GB/s
        unpacked_factor: Further error for weights unpacked to 16 bits, since kernels differ.
            Source: published figures of int4
        small_model_factor: Further error for models below `small_model_parameters`, whose step time
            is the host's.
            Source: published figures of 0.5 to 1.7 billion parameters
        small_model_parameters: Parameters below which a model is small.
            Source: between the models of those figures and the next, of 3.8 billion
        encoder_decoder_factor: How much slower encoder-decoder models may further be, in libraries
            that launch kernels one by one.
            Source: Whisper in faster-whisper and transformers, 2 to 8 times as long
        experts_below_factor: How much faster mixtures of experts may further be.
            Source: 127 rows of mixtures in TensorRT-LLM, vLLM and SGLang
        experts_above_factor: How much slower they may be, with kernels not tuned for their shapes.
            Source: the same
        experts_first_token_factor: How much later their first token may be.
            Source: 44 rows of the same
        servers_factor: Further error if one model spans several servers, by experts or stages.
            Source: assumed
        other_kind_factor: Further error for kinds of models without measurements: encoders,
            recurrent mixers, sparse attention.
            Source: assumed; BERT in TensorRT's own figures lies within
        assumed_shape_factor: Further error if layers or widths are assumed.
            Source: assumed
    """

    step_factor: float = _factor(1.17)
    prompts_factor: float = _factor(1.7)
    first_token_factor: float = _factor(1.9)
    assumed_board_factor: float = _factor(1.4)
    other_vendor_factor: float = _factor(2.0)
    slow_link_factor: float = _factor(1.6)
    unpacked_factor: float = _factor(1.2)
    small_model_factor: float = _factor(1.6)
    small_model_parameters: float = setting(3e9, within=(0.0, None))
    encoder_decoder_factor: float = _factor(5.0)
    experts_below_factor: float = _factor(1.2)
    experts_above_factor: float = _factor(1.5)
    experts_first_token_factor: float = _factor(2.5)
    servers_factor: float = _factor(1.4)
    other_kind_factor: float = _factor(1.4)
    assumed_shape_factor: float = _factor(1.1)


@dataclass(frozen=True, slots=True)
class ServingModelSettings:
    """Performance of serving engines; override with measured values.

    Attributes:
        layer_seconds: Time per layer and pass beyond its reads and products: launching kernels.
            Source: fitted on measured TPOT (vLLM, Hopper)
        step_seconds: Host time per step: scheduling, sampling.
            Source: of 0 to 2 ms what predicts the model best that is left out of that fit: x1.04
            off, x1.05 with 0
        unpacking_layer_seconds: Further time per layer if weights are unpacked to 16 bits.
            Source: four products that begin 10 us later (kernels of TensorRT-LLM 1.0 on A100 with
            int4 weights take 14 us and as long as reading takes, with bf16 weights 5 us;
            aiconfigurator-core 0.12.0)
        adapter_layer_seconds: Further time per layer and pass with LoRA adapters.
            Source: Punica adds 2 ms to a token of 32 layers (arXiv:2310.18547)
        encoder_decoder_ratio: Speed of encoder-decoder models, relative to the estimate.
            Source: Whisper in MLPerf Inference 5.1, 5,600 tokens per second on a B200
        request_layer_seconds: Time per layer of a step and request in flight: scheduling, attention
            tiles, cache writes.
            Source: between 0.6 us, fitted on vLLM on several GPUs, and 0, which fits MLPerf's best
        expert_layer_seconds: The same per layer with experts: sorting tokens by expert, launching
            kernels.
        expert_prompt_layer_seconds: Further time per layer with experts and pass of prompts: the
            host launches each kernel.
            Source: fitted on published first tokens, steps and rates of nine mixtures in vLLM,
            SGLang and TensorRT-LLM; 0.3 to 0.5 ms with a model or board left out, first tokens then
            x1.4 off, x1.75 without it
        expert_compute_ratio: Speed of products with experts, relative to large matrix products.
        unpacked_expert_compute_ratio: The same for weights unpacked to 16 bits in the kernel.
            Source: fitted on kernels with int4 and mxfp4 weights of vLLM, SGLang and TensorRT-LLM
            on seven boards (aiconfigurator-core 0.12.0); 0.26 to 0.33 with a board left out, x1.33
            off on the middle one, x1.42 by the other ratio
        expert_passes: How often a layer's experts move each token's vector: dispatch, between
            products, combine.
        expert_choice_ratio: Share of a batch's tokens that choose experts independently.
            Source: fitted on kernels of vLLM, SGLang and TensorRT-LLM with uneven tokens on seven
            boards (aiconfigurator-core 0.12.0): x1.14 off for 4 to 256 tokens on the middle board
            that is left out, x1.18 without it; 0.61 to 0.69 with a board left out
        other_vendor_experts_ratio: Speed of mixtures of experts on other vendors' boards, relative
            to the estimate.
            Source: DeepSeek-R1 in SGLang on eight MI325X and gpt-oss-120b in vLLM on an MI300X,
            0.76 and 0.74 by one alone: x1.07 off on the board that is left out, x1.40 without it;
            lower, as eight later figures of an MI300X are slower yet
        expert_imbalance_ratio: Tokens of the fullest GPU, relative to the mean, if replicas share
            experts: all wait for it.
            Source: fitted on TensorRT-LLM 1.0's throughput of Qwen3-235B-A22B on eight B200, H200,
            H100: x1.09 off, x1.41 without it; x1.05 to x1.14 on a board that is left out. Kernels
            alone take x1.2 to x1.6 with uneven tokens (aiconfigurator-core 0.12.0)
        network_bytes_per_second: Send rate of each GPU to other servers, of tokens to experts and
            of caches between prefill and decode.
            Source: 400 Gb/s for each GPU, as in servers of eight H100 (DGX H100, AWS p5)
        attention_compute_ratio: Speed of attention over a prompt, relative to large matrix
            products.
            Source: half of the dense peak, FlashAttention 2 and 3 (arXiv:2307.08691, 2407.08608)
        bunching_ratio: How far prompts arrive together: 0 for alone, 1 for the square root of those
            in flight.
            Source: measured TTFT (vLLM, Hopper), where single models fit 0.45 to 1.05
        burstiness: Squared coefficient of variation of request intervals, for rates: 1 for Poisson,
            0 for steady.
            Source: assumed: people and programs that call in bursts, twice Poisson's deviation
        latency_headroom_ratio: Share of each latency target that a plan keeps free.
            Source: assumed
        chunk_tokens: Prompt tokens per pass; unset, the engine's default: vLLM 8192 on GPUs of 70
            GiB and more except A100, else 2048; SGLang 2048 to 16384 by memory; TensorRT-LLM 8192.
            Source: max_num_batched_tokens, max_num_tokens, chunked_prefill_size
        requests_maximum: Maximum concurrent requests of a replica; unset, the engine's default:
            vLLM 1024 on GPUs of 70 GiB and more except A100, else 256; others 2048.
            Source: max_num_seqs, max_running_requests, max_batch_size
    """

    layer_seconds: float = setting(30e-6)
    step_seconds: float = setting(1e-3)
    unpacking_layer_seconds: float = setting(40e-6)
    adapter_layer_seconds: float = setting(62e-6)
    encoder_decoder_ratio: float = _part(0.45)
    request_layer_seconds: float = setting(0.25e-6)
    expert_layer_seconds: float = setting(40e-6, source=_EXPERTS)
    expert_prompt_layer_seconds: float = setting(0.45e-3)
    expert_compute_ratio: float = _part(0.53, source=_EXPERTS)
    unpacked_expert_compute_ratio: float = _part(0.31)
    expert_passes: float = _amount(4.7, source=_EXPERTS)
    expert_choice_ratio: float = _part(0.65)
    other_vendor_experts_ratio: float = _part(0.69)
    expert_imbalance_ratio: float = setting(1.8, within=(1.0, 10.0))
    network_bytes_per_second: float = setting(50e9, within=(1e8, None))
    attention_compute_ratio: float = _part(0.65)
    bunching_ratio: float = _amount(0.85)
    burstiness: float = _amount(4.0)
    latency_headroom_ratio: float = setting(0.1, within=(0.0, 0.9))
    chunk_tokens: int | None = setting(None, within=(1, None))
    requests_maximum: int | None = setting(None, within=(1, None))
    errors: ServingErrorSettings = field(default_factory=ServingErrorSettings)


@dataclass(frozen=True, slots=True)
class SampleSettings:
    """Performance of image and table models; override with measured values.

    Attributes:
        convolution_ratio: Speed of convolutions, as a share of the dense peak.
            Source: with the traffic below, ResNet-50 in int8 (MLPerf, Offline) comes out 5 to 21%
            low on the T4, A10, A30, A100 and H100, a third low on L4 and L40S
        product_ratio: Speed of products in denoisers and transformers, relative to large ones.
            Source: assumed
        table_product_ratio: The same for recommenders.
            Source: assumed
        table_read_ratio: Bandwidth of table row reads, as a share of the memory bandwidth.
            Source: assumed
        inference_traffic_ratio: Memory traffic of fused convolution kernels, relative to the
            activations that training keeps.
            Source: counted; the same runs of MLPerf
        training_traffic_ratio: The same for a training step.
            Source: counted: of each of the four copies that are kept four passes, as convolution,
            norm and ReLU read and write 6 times forward and 10 times backward
        cached_bytes: L2 cache size beyond which more saves traffic, by its square root.
            Source: Ampere's 40 MB beside Ada's 48 to 128 MB in MLPerf
        element_traffic: Bytes moved per element of a layer's width and token, forward, with fused
            kernels.
            Source: counted
        video_attention_ratio: Speed of attention over all tokens of a video, relative to products.
            Source: CogVideoX and HunyuanVideo on A100 and H100, Wan 2.1 and 2.2: x1.3 off, and x1.8
            at most
        decoder_pixel_flops: Operations per pixel decoded from latents.
            Source: about 2.5 TFLOP for 512 by 512 pixels
        pass_seconds: Time per pass beyond computation and traffic: launching its kernels.
            Source: assumed
        denoiser_step_seconds: The same per step of a diffusion model.
            Source: counted: 600 kernels of 4 us, by the blocks of Stable Diffusion 1.5 (22 residual
            ones of 9, 16 transformers of 25)
        exposed_ratio: Share of sums over replicas not hidden behind computation.
            Source: as of transformers
        error_factor: 90% error factor of rates.
            Source: assumed: a shape's kernels are known by their operations alone
    """

    convolution_ratio: float = _part(0.6)
    product_ratio: float = _part(0.8)
    table_product_ratio: float = _part(0.5)
    table_read_ratio: float = _part(0.5)
    inference_traffic_ratio: float = _amount(0.5)
    training_traffic_ratio: float = _amount(6.7)
    cached_bytes: float = setting(40e6, within=(1e6, None))
    element_traffic: float = _amount(60.0)
    video_attention_ratio: float = _part(0.6)
    decoder_pixel_flops: float = _amount(9.5e6)
    pass_seconds: float = _amount(5e-4)
    denoiser_step_seconds: float = _amount(2.4e-3)
    exposed_ratio: float = setting(0.41)
    error_factor: float = _factor(1.8)


@dataclass(frozen=True, slots=True)
class TrainingSettings:
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
        network_ratio: Bandwidth of sums across servers, relative to those within.
            Source: eight adapters of 200 Gbit/s beside NVLink 3; assumed of others
        network_bytes_per_second: Send rate of each GPU to experts on other servers.
            Source: 400 Gb/s for each GPU, as in servers of eight H100 (DGX H100, AWS p5)
        expert_ratio: Speed of products with experts, relative to plain ones: each sees few tokens.
            Source: published MFU of mixtures of experts and of dense models in fp8, alike GPUs
        layer_seconds: Minimum time per layer, forward, backward and update: the host's.
            Source: 0.78 (Llama) and 0.87 ms (BERT) with tensors 8 wide, PyTorch 2.13; a layer of
            transformers
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
        unnamed_framework_factor: Further error of adapters and encoders without a framework.
            Source: LoRA of Llama 3.1 8B by peft on an H100, 1.5 to 1.7 times slower
    """

    linear_ratio: float = _part(0.87, source=_FITTED)
    hopper_ratio: float = _part(0.82)
    attention_ratio: float = setting(0.56, within=(0.01, None), source=_FITTED)
    element_traffic: float = _amount(280.0, source=_FITTED)
    fused_traffic_ratio: float = setting(0.25)
    host_bytes_per_second: float = setting(25e9, within=(1e8, None))
    recompute_ratio: float = setting(0.18, source=_FITTED)
    fused_recompute_ratio: float = setting(0.33)
    selective_ratio: float = setting(0.04)
    score_traffic: float = _amount(32.0)
    chunk_layers: float = _factor(2.0)
    exposed_ratio: float = setting(0.53, source=_FITTED)
    node_gpus: int = _count(8)
    network_ratio: float = _part(0.5)
    network_bytes_per_second: float = setting(50e9, within=(1e8, None))
    expert_ratio: float = _part(0.45)
    layer_seconds: float = setting(8e-4)
    unpacking_traffic: float = _amount(8.0)
    known_error_factor: float = _factor(1.17)
    error_factor: float = _factor(1.4)
    assumed_board_factor: float = _factor(1.4)
    slow_link_factor: float = _factor(1.4)
    early_board_factor: float = _factor(2.5)
    convolution_factor: float = _factor(2.0)
    mixture_factor: float = _factor(1.7)
    unnamed_framework_factor: float = _factor(1.5)


@dataclass(frozen=True, slots=True)
class CostSettings:
    """Energy and carbon; prices have files of their own.

    Attributes:
        carbon_grams_per_kilowatt_hour: Carbon dioxide equivalents at the GPUs' site; unset for no
            carbon estimate.
        serving_power_ratio: Power of serving, from idle to limit.
            Source: decoding waits for memory and stays below the limit, prompts reach it; assumed
        training_power_ratio: The same for training.
            Source: large products run at the limit, steps end in communication; assumed
        power_error_factor: 90% error factor of that power; never above the limit.
            Source: assumed
        hours_per_month: Hours per month that rented or owned GPUs are available.
    """

    carbon_grams_per_kilowatt_hour: float | None = setting(None, within=(0.0, 3000.0))
    serving_power_ratio: float = setting(0.6)
    training_power_ratio: float = setting(0.85)
    power_error_factor: float = _factor(1.3)
    hours_per_month: float = setting(730.0, within=(1.0, 744.0))


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Limits of a plan's search.

    Attributes:
        gpu_maximum: Maximum GPUs of a candidate; a given layout may have more.
        layouts_per_gpu: Fitting layouts compared per kind of GPU.
        alternatives: Best candidates for which other formats and slices are tried.
        growth_candidates: Best candidates evaluated again for each month of growth.
        switch_saving_ratio: Minimum saving, as a share of the cost of the remaining growth, to
            recommend another kind of GPU.
            Source: assumed: what moving a service takes
    """

    gpu_maximum: int = _count(512)
    layouts_per_gpu: int = _count(3)
    alternatives: int = setting(3, within=(0, None))
    growth_candidates: int = _count(5)
    switch_saving_ratio: float = setting(0.1)


@dataclass(frozen=True, slots=True)
class SizingSettings:
    """Assumptions of plans and projections besides facts and prices."""

    plan: PlanSettings = field(default_factory=PlanSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    serving: ServingModelSettings = field(default_factory=ServingModelSettings)
    samples: SampleSettings = field(default_factory=SampleSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    cost: CostSettings = field(default_factory=CostSettings)
