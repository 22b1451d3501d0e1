"""Settings of sizing: plans, memory, images and tables, cost, and all together."""

from typing import Annotated

from msgspec import Struct

from rightsizer.model.settings import CONSTANT, Spec
from rightsizer.model.units import GIB, MIB
from rightsizer.sizing.serving_settings import ServingModelSettings
from rightsizer.sizing.training_settings import TrainingSettings

_KIB = 2.0**10
_Count = Annotated[int, Spec(within=(1, None))]
_Factor = Annotated[float, Spec(within=(1.0, None))]
_Part = Annotated[float, Spec(within=(0.01, 1.0))]
_Amount = Annotated[float, Spec(within=(0.0, None))]


class MemorySettings(Struct, frozen=True):
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
        cached_ratio: Further memory that nvidia-smi shows of a training in PyTorch: blocks of other
            sizes that its allocator keeps, as long as memory does not run out.
            Source: median of published runs, 1.10 to 1.58 of the estimate; allocated and reserved
            were 1.12 to 1.24 apart in one run (fsdp_qlora)
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

    context_bytes: Annotated[float, CONSTANT] = 307.0 * MIB
    driver_reserved_bytes: float = 410.0 * MIB
    communication_pair_bytes: Annotated[float, CONSTANT] = 342.0 * MIB
    communication_group_bytes: Annotated[float, CONSTANT] = 392.0 * MIB
    graph_bytes: Annotated[float, CONSTANT] = 154.0 * _KIB
    graph_batch_maximum: Annotated[int, Spec(within=(0, None)), CONSTANT] = 512
    batched_tokens: Annotated[_Count, CONSTANT] = 8192
    sampled_rows: Annotated[_Count, CONSTANT] = 256
    fragmentation_ratio: Annotated[float, CONSTANT] = 0.05
    cached_ratio: Annotated[float, CONSTANT] = 0.3
    convolution_workspace_bytes: Annotated[float, CONSTANT] = 1.0 * GIB
    inference_headroom_ratio: Annotated[float, Spec(within=(0, 0.9))] = 0.1
    training_headroom_ratio: Annotated[float, Spec(within=(0, 0.9))] = 0.05
    headroom_minimum_bytes: Annotated[float, CONSTANT] = 1.0 * GIB
    several_gpus_error_factor: Annotated[_Factor, CONSTANT] = 1.4
    unpacked_error_factor: Annotated[_Factor, CONSTANT] = 1.2


class SampleSettings(Struct, frozen=True):
    """Performance of image and table models; override with measured values.

    Attributes:
        convolution_ratio: Speed of TensorRT's convolutions, as a share of the dense peak. PyTorch's
            are as fast as large products.
            Source: with the traffic below, ResNet-50 in int8 (MLPerf, Offline) comes out 5 to 21%
            low on the T4, A10, A30, A100 and H100, a third low on L4 and L40S
        convolution_idle_images: Images of a pass whose time convolutions lose on any batch: few do
            not fill their tiles.
            Source: fitted, with the time of a pass, on YOLOv8 on an A100 and YOLO11 on a T4 in
            TensorRT, one image at a time: x1.10 and x1.12 off on the board that is left out, x1.55
            and x1.25 without both; x1.07 on 17 later figures of a T4, x1.32 without
        product_ratio: Speed of products in denoisers, relative to large ones.
            Source: assumed
        table_product_ratio: The same for recommenders.
            Source: assumed
        table_read_ratio: Bandwidth of table row reads, as a share of the memory bandwidth.
            Source: assumed
        output_passes: How often fused kernels of TensorRT move each layer's output, whose elements
            are counted.
            Source: counted; the same runs of MLPerf
        compiled_output_passes: The same in PyTorch with `torch.compile`.
        eager_output_passes: The same in PyTorch, kernel by kernel.
        fused_transformer_output_passes: The same of transformers over patches, compiled or in
            TensorRT: norms, activations and sums are few beside their products' outputs.
        eager_transformer_output_passes: The same of transformers, kernel by kernel.
            Source: all four fitted on 1,350 networks on RTX 3090 and 4090 (pytorch-image-models,
            PyTorch 2.4): x1.12 off for families and for boards left out, nine in ten within x1.5;
            x1.12 and x1.39 on 52 figures of other software and boards
        cached_bytes: L2 cache size beyond which more saves traffic, by its square root.
            Source: Ampere's 40 MB beside Ada's 48 to 128 MB in MLPerf
        element_traffic: Bytes moved per element of a layer's width and token, forward, with fused
            kernels.
            Source: counted
        video_attention_ratio: Speed of attention over all tokens of an image or video, relative to
            products, on Hopper, data center Blackwell and CDNA 3 and 4; on others both are alike.
            Source: flash attention 2 beside 3 on an H20, 84 and 126 TFLOPS (its issue 1310);
            CogVideoX, HunyuanVideo and Wan on A100, H100, H20, L20 and RTX 4090: x1.27 off, and
            x1.54 at most
        decoder_pixel_flops: Operations per pixel decoded from latents.
            Source: about 2.5 TFLOP for 512 by 512 pixels
        pass_seconds: Time per pass beyond computation and traffic: launching its kernels.
            Source: as of `convolution_idle_images`
        denoiser_step_seconds: The same per step of a diffusion model.
            Source: counted: 600 kernels of 4 us, by the blocks of Stable Diffusion 1.5 (22 residual
            ones of 9, 16 transformers of 25)
        exposed_ratio: Share of sums over replicas not hidden behind computation.
            Source: as of transformers
        error_factor: 90% error factor of rates.
            Source: assumed: a shape's kernels are known by their operations alone
        image_error_factor: The same of served image networks.
            Source: covers nine in ten of those networks, their families left out, with some room
            for other boards
    """

    convolution_ratio: _Part = 0.6
    convolution_idle_images: _Amount = 0.4
    product_ratio: _Part = 0.8
    table_product_ratio: _Part = 0.5
    table_read_ratio: _Part = 0.5
    output_passes: _Amount = 1.2
    compiled_output_passes: _Amount = 3.0
    eager_output_passes: _Amount = 7.2
    fused_transformer_output_passes: _Amount = 1.5
    eager_transformer_output_passes: _Amount = 2.8
    cached_bytes: Annotated[float, Spec(within=(1e6, None))] = 40e6
    element_traffic: _Amount = 60.0
    video_attention_ratio: _Part = 0.6
    decoder_pixel_flops: _Amount = 9.5e6
    pass_seconds: _Amount = 8e-4
    denoiser_step_seconds: _Amount = 2.4e-3
    exposed_ratio: float = 0.41
    error_factor: _Factor = 1.8
    image_error_factor: _Factor = 1.6


class CostSettings(Struct, frozen=True):
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

    carbon_grams_per_kilowatt_hour: Annotated[float | None, Spec(within=(0.0, 3000.0))] = None
    serving_power_ratio: Annotated[float, CONSTANT] = 0.6
    training_power_ratio: Annotated[float, CONSTANT] = 0.85
    power_error_factor: Annotated[_Factor, CONSTANT] = 1.3
    hours_per_month: Annotated[float, Spec(within=(1.0, 744.0)), CONSTANT] = 730.0


class PlanSettings(Struct, frozen=True):
    """Limits of a plan's search.

    Attributes:
        gpu_maximum: Maximum GPUs of a candidate; a given layout may have more.
        sure_ratio: Probability with which memory, each latency and the rate must hold: it decides
            the number of GPUs. What cannot reach it ranks behind.
            Source: assumed: one plan in ten may need another replica
        layouts_per_gpu: Layouts compared per kind of GPU; more until one fits.
        alternatives: Best candidates for which other formats and slices are tried.
        growth_candidates: Best candidates evaluated again for each month of growth.
        switch_saving_ratio: Minimum saving, as a share of the cost of the remaining growth, to
            recommend another kind of GPU.
            Source: assumed: what moving a service takes
    """

    gpu_maximum: _Count = 512
    sure_ratio: Annotated[float, Spec(within=(0.5, 0.999))] = 0.9
    layouts_per_gpu: Annotated[_Count, CONSTANT] = 4
    alternatives: Annotated[int, Spec(within=(0, None))] = 3
    growth_candidates: Annotated[_Count, CONSTANT] = 5
    switch_saving_ratio: Annotated[float, CONSTANT] = 0.1


class SizingSettings(Struct, frozen=True):
    """Assumptions of plans and projections besides facts and prices.

    Attributes:
        learned_file: File of what engines of this site were measured to do beside their
            predictions, which shifts and narrows the intervals of plans; as nothing if absent.
            An agent that reads engines (sources.serving.endpoints) adds to it each hour. Empty:
            nothing is learned.
    """

    learned_file: str = "/var/lib/rightsizer/learned.json"
    plan: PlanSettings = PlanSettings()
    memory: MemorySettings = MemorySettings()
    serving: ServingModelSettings = ServingModelSettings()
    samples: Annotated[SampleSettings, CONSTANT] = SampleSettings()
    training: TrainingSettings = TrainingSettings()
    cost: CostSettings = CostSettings()
