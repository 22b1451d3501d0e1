"""What the training model takes for granted of frameworks, beside what the catalogue knows."""

from dataclasses import dataclass

from rightsizer.domain.settings import setting

__all__ = ["TrainingSettings"]

_FITTED = "fitted on 81 runs of MPT, 1 to 70 billion parameters, PyTorch FSDP on A100 (llm-foundry)"


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Figures of training frameworks; a site that has measured its own sets them."""

    linear_ratio: float = setting(
        0.87,
        help="What a layer's products reach of the speed of large matrix products.",
        unit="ratio",
        minimum=0.01,
        maximum=1.0,
        source=_FITTED,
    )
    hopper_ratio: float = setting(
        0.82,
        help="What long runs on Hopper hold of short products: its clocks fall at the power limit.",
        unit="ratio",
        minimum=0.01,
        maximum=1.0,
        source="published median MFU of FSDP in bf16: 0.41 on H100 SXM, 0.565 on A100 80 GB",
    )
    attention_ratio: float = setting(
        0.56,
        help="The same of attention, counted as if nothing were masked.",
        unit="ratio",
        minimum=0.01,
        source=_FITTED,
    )
    element_traffic: float = setting(
        280.0,
        help="Bytes moved for each element of a layer's width and each token: norms, activations, "
        "residuals, casts, forward and backward.",
        minimum=0.0,
        source=_FITTED,
    )
    fused_traffic_ratio: float = setting(
        0.25,
        help="What is left of that traffic where kernels are fused, as in Megatron.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source="published MFU of Megatron runs in fp8, half again as much as that of FSDP",
    )
    recompute_ratio: float = setting(
        0.18,
        help="What full recomputation adds to a step; less than the third of a forward pass, as it "
        "leaves room for larger micro batches.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source=_FITTED,
    )
    fused_recompute_ratio: float = setting(
        0.33,
        help="The same where kernels are fused: the forward pass once more.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source="counted; 29 to 32 % over selective recomputation in arXiv:2205.05198, table 5",
    )
    selective_ratio: float = setting(
        0.04,
        help="The same of selective recomputation.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source="arXiv:2205.05198, table 4: 4 % over no recomputation",
    )
    score_traffic: float = setting(
        32.0,
        help="Bytes moved for each score of attention that is written out, forward and backward: "
        "without flash attention.",
        minimum=0.0,
        source="counted: products, softmax and dropout each read and write 16 bits",
    )
    chunk_layers: float = setting(
        2.0,
        help="Layers of a chunk of a pipeline whose stages take turns (interleaved); as many as "
        "there are for one that is not.",
        minimum=1.0,
        source="1 to 4 in arXiv:2104.04473, 2205.05198 and 2407.21783",
    )
    exposed_ratio: float = setting(
        0.53,
        help="The part of what replicas tell each other that does not hide behind computation.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source=_FITTED,
    )
    node_gpus: int = setting(8, help="GPUs of a usual server, which its own links join.", minimum=1)
    network_ratio: float = setting(
        0.5,
        help="Bandwidth of sums beyond a server, of those within.",
        unit="ratio",
        minimum=0.01,
        maximum=1.0,
        source="eight adapters of 200 Gbit/s beside NVLink 3; assumed of others",
    )
    expert_ratio: float = setting(
        0.45,
        help="What products with experts reach of plain ones: each sees few tokens.",
        unit="ratio",
        minimum=0.01,
        maximum=1.0,
        source="published MFU of mixtures of experts and of dense models in fp8, alike GPUs",
    )
    layer_seconds: float = setting(
        4e-4,
        help="The least that one layer takes forward and backward: starting its kernels.",
        unit="seconds",
        minimum=0.0,
        source="about a hundred kernels of 4 us; assumed",
    )
    unpacking_traffic: float = setting(
        8.0,
        help="Bytes moved for each weight of 4 bits to unpack it, in each pass (QLoRA); to read it "
        "and write it once would be 2.5.",
        minimum=0.0,
        source="Llama 2 7B on an A100: 2.79 h with QLoRA, 1.85 h with LoRA, over 50,000 micro "
        "batches (S. Raschka, Practical Tips for Finetuning LLMs Using LoRA)",
    )
    known_error_factor: float = setting(
        1.17,
        help="How far off runs like the fitted ones are either way, with a probability of 90 %.",
        minimum=1.0,
        source="rows of other models and of the other GPU left out of the fit",
    )
    error_factor: float = setting(
        1.5,
        help="How far off all others are either way, with a probability of 90 %.",
        minimum=1.0,
        source="published MFU by GPU and format, whose medians are within a fifth",
    )
