"""Settings of serving language models: times of engines, errors."""

from typing import Annotated, Final

from msgspec import Struct

from rightsizer.model.settings import CONSTANT, Spec

_Factor = Annotated[float, Spec(within=(1.0, None))]
_Part = Annotated[float, Spec(within=(0.01, 1.0))]
_Amount = Annotated[float, Spec(within=(0.0, None))]
_EXPERTS: Final = (
    "kernels of vLLM, SGLang and TensorRT-LLM on seven boards (aiconfigurator-core 0.12.0); on a "
    "board left out x1.17 off, and x1.60 nine in ten"
)


class ServingErrorSettings(Struct, frozen=True, gc=False):
    """Error factors of serving estimates, each covering 90%.

    What applies adds in squares. The evaluation prints what each covers of what is known, and what
    the rest of it says with a model, board or source left out.

    Attributes:
        step_factor: Error of times between tokens and of rates, for dense models on boards with
            measured efficiencies.
            Source: 247 rows of vLLM, TensorRT-LLM and MLPerf (make eval)
        prompts_factor: How much less prompts beside a step may cost: engines reuse shared ones.
            Source: 21 rows of a server that cannot have computed all its prompts
        first_token_factor: Error of times to first token, beside that of the order in which prompts
            arrive: each at random, or all at once.
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
            Source: 39 rows of the same, beside the order of arrivals
        servers_factor: Further error if one model spans several servers, by experts or stages.
            Source: assumed
        other_kind_factor: Further error for kinds of models without measurements: encoders,
            recurrent mixers, sparse attention.
            Source: assumed; BERT in TensorRT's own figures lies within
        assumed_shape_factor: Further error if layers or widths are assumed.
            Source: assumed
    """

    step_factor: _Factor = 1.17
    prompts_factor: _Factor = 1.7
    first_token_factor: _Factor = 1.9
    assumed_board_factor: _Factor = 1.4
    other_vendor_factor: _Factor = 2.0
    slow_link_factor: _Factor = 1.6
    unpacked_factor: _Factor = 1.2
    small_model_factor: _Factor = 1.6
    small_model_parameters: Annotated[float, Spec(within=(0.0, None))] = 3e9
    encoder_decoder_factor: _Factor = 5.0
    experts_below_factor: _Factor = 1.2
    experts_above_factor: _Factor = 1.5
    experts_first_token_factor: _Factor = 1.8
    servers_factor: _Factor = 1.4
    other_kind_factor: _Factor = 1.4
    assumed_shape_factor: _Factor = 1.1


class ServingModelSettings(Struct, frozen=True, gc=False):
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
        encoder_decoder_layer_seconds: The same as `layer_seconds` per decoder layer and step of
            encoder-decoder models, whose kernels are launched one by one, and of all layers of
            libraries that hear one sound at a time.
            Source: 0.31 ms for two parts of a layer in transformers, measured with tensors 8 wide
            in PyTorch 2.13, and a half more for cross attention
        request_layer_seconds: Time per attention layer of a step and request in flight in vLLM;
            other engines take 0.3 of it.
            Source: below the 0.3 to 0.7 us that fit vLLM with a model left out, since mixtures take
            less; kernels of recurrent layers only read a state (aiconfigurator-core 0.12.0)
        indexer_layer_seconds: Further time per layer and step to pick tokens in sparse attention
            (DeepSeek-V3.2, GLM-5): more kernels.
            Source: layers with and without, 1 to 256 requests on six boards: 85 us in vLLM 0.24, 57
            in TensorRT-LLM 1.3, 27 in SGLang 0.5.14 (aiconfigurator-core 0.12.0)
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
        shared_expert_compute_ratio: The same for quantized experts that replicas share, in vLLM and
            SGLang: grouped kernels (DeepGEMM) are faster than the engines' mean for large products.
            Source: fitted on SGLang's kernels with even tokens on six boards (aiconfigurator-core
            0.12.0); 1.1 to 1.2 with a board left out, x1.09 to x1.15 off on it, x1.24 to x1.54 by
            0.53
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
            experts and the engine does not balance them (TensorRT-LLM): all wait for it.
            Source: fitted on TensorRT-LLM 1.0's throughput of Qwen3-235B-A22B on eight B200, H200,
            H100: x1.09 off, x1.41 without it; x1.05 to x1.14 on a board that is left out. Kernels
            alone take x1.2 to x1.6 with uneven tokens (aiconfigurator-core 0.12.0)
        network_bytes_per_second: Send rate of each GPU to other servers in serving: of tokens to
            experts, of its part of each sum, and of caches between prefill and decode;
            `sizing.training` has that of training.
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
        token_acceptance_ratio: Chance that a token proposed by a draft head is accepted if those
            before it are, for loads without an `acceptance_ratio`.
            Source: assumed, below the 0.85 to 0.9 of DeepSeek-V3's head (arXiv:2412.19437, section
            5.4.3)
        latency_headroom_ratio: Share of each latency target that a plan keeps free.
            Source: assumed
        chunk_tokens: Prompt tokens per pass; unset, the engine's default: vLLM 8192 on GPUs of 70
            GiB and more except A100, else 2048; SGLang 2048 to 16384 by memory; TensorRT-LLM 8192.
            Source: max_num_batched_tokens, max_num_tokens, chunked_prefill_size
        requests_maximum: Maximum concurrent requests of a replica; unset, the engine's default:
            vLLM 1024 on GPUs of 70 GiB and more except A100, else 256; others 2048.
            Source: max_num_seqs, max_running_requests, max_batch_size
    """

    layer_seconds: Annotated[float, CONSTANT] = 30e-6
    step_seconds: Annotated[float, CONSTANT] = 1e-3
    unpacking_layer_seconds: Annotated[float, CONSTANT] = 40e-6
    adapter_layer_seconds: Annotated[float, CONSTANT] = 62e-6
    encoder_decoder_layer_seconds: Annotated[float, CONSTANT] = 0.45e-3
    request_layer_seconds: Annotated[float, CONSTANT] = 0.25e-6
    indexer_layer_seconds: Annotated[float, CONSTANT] = 85e-6
    expert_layer_seconds: Annotated[float, Spec(source=_EXPERTS), CONSTANT] = 40e-6
    expert_prompt_layer_seconds: Annotated[float, CONSTANT] = 0.45e-3
    expert_compute_ratio: Annotated[_Part, Spec(source=_EXPERTS), CONSTANT] = 0.65
    unpacked_expert_compute_ratio: Annotated[_Part, CONSTANT] = 0.31
    shared_expert_compute_ratio: Annotated[float, Spec(within=(0.01, 3.0)), CONSTANT] = 1.2
    expert_passes: Annotated[_Amount, Spec(source=_EXPERTS), CONSTANT] = 4.2
    expert_choice_ratio: Annotated[_Part, CONSTANT] = 0.65
    other_vendor_experts_ratio: Annotated[_Part, CONSTANT] = 0.69
    expert_imbalance_ratio: Annotated[float, Spec(within=(1.0, 10.0)), CONSTANT] = 1.8
    network_bytes_per_second: Annotated[float, Spec(within=(1e8, None))] = 50e9
    attention_compute_ratio: Annotated[_Part, CONSTANT] = 0.65
    bunching_ratio: Annotated[_Amount, CONSTANT] = 0.85
    burstiness: Annotated[_Amount, CONSTANT] = 4.0
    token_acceptance_ratio: Annotated[float, Spec(within=(0.0, 0.99)), CONSTANT] = 0.75
    latency_headroom_ratio: Annotated[float, Spec(within=(0.0, 0.9))] = 0.1
    chunk_tokens: Annotated[int | None, Spec(within=(1, None))] = None
    requests_maximum: Annotated[int | None, Spec(within=(1, None))] = None
    errors: Annotated[ServingErrorSettings, CONSTANT] = ServingErrorSettings()
