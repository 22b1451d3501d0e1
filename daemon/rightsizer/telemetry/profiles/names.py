"""What names of kernels, copies, host spans and ranges tell."""

import re
from typing import Final

from rightsizer.model.profile import CopyKind, HostMemory, KernelFamily, SpanKind

_COLLECTIVE: Final = re.compile(
    r"nccl|rccl|msccl"
    r"|cross_device_reduce_[12]stage"
    r"|(?:one|two)_?shot_?all_?reduce"
    r"|multimem_(?:all|one)_",
    re.IGNORECASE,
)

_MATRIX_UNITS: Final = re.compile(
    # CUTLASS and what is built of it: the class of its operator, or the shape of a CuTe atom.
    r"tensorop|MmaTensorOp|OpClassWmma"
    r"|GMMA::|SM(?:70|75|80|89|90|100|120)_\d+x\d+x\d+_"
    # The instruction in cuBLAS's and cuDNN's names: s884, h1688, s16816, i16832, d884.
    r"|(?:^|_)[shid](?:884|1688|8816|16816|16832|16864|161616)(?![0-9])"
    r"|(?<![a-z])(?:[hibdq]mma|[hibq]gmma|wgmma|wmma|mfma|utc[a-z]{0,4}mma|tcgen05)(?![a-z])"
    r"|xmma_\w*(?:tensor\d+x\d+x\d+|warpgroupsize)"
    r"|\bnvjet_"
    # AMD's: a matrix instruction in Tensile's names, XDL in those of Composable Kernel.
    r"|Cijk_\w*_MI(?:4|16|32)x|[_<]xdl(?:ops)?_|_xdl\b|igemm_\w*_gtcx"
    # Attention that is written for matrix units alone.
    r"|\bflash_(?:fwd|bwd)_\w*kernel|Flash_(?:fwd|bwd)_kernel|FlashAttn(?:Fwd|Bwd)Sm"
    r"|fmha_cutlass[FB]_b?f16_\w*sm(?:7|8|9|10)|fmha_v2_\w*(?:fp16|bf16|e4m3)"
    r"|cudnn_generated_\w*sdpa"
    r"|\bdeep_gemm::|\bmarlin\w*::Marlin|_matmul_ogs_\w*(?:bf16|fp16|fp8|mxfp4)"
)

_OTHER_UNITS: Final = re.compile(
    r"simt|MmaSimt"
    # cuBLAS and cuDNN in single or double precision on the ordinary units.
    r"|(?:maxwell|pascal|volta|turing|ampere)_(?:g?[sdcz]gemm|scudnn|dcudnn)"
    r"|^maxwell_|ffma|convolve_[sd]gemm|gemv|gemmk1|dot_kernel|reduce_1Block"
    r"|(?:wgrad_alg\d|dgrad)_engine<(?:float|double)|winograd_nonfused|fft\dd_[rc]2[rc]"
    # No products of matrices in them.
    r"|elementwise_kernel|reduce_kernel|multi_tensor_apply|\bcub::|softmax_?warp|SoftMaxForward"
    r"|layer_norm|rms_?norm|batch_?norm|\bbn_[fb]w_|splitKreduce|ToN[hc][wh][cw]Kernel"
    r"|CatArrayBatchedCopy|indexSelect|index_kernel|embedding_\w*kernel|fused_dropout"
    r"|distribution_|OffsetsKernel|triton_(?:poi|per|red)_|Memcpy|Memset|vectorized_gather"
    r"|_pool_(?:for|back)ward|average_pool|ReduceSplitK|epilogue::impl|fbgemm_gpu::\S*permute"
    r"|cupy_(?:add|copy|multiply|subtract|true_divide|sqrt|fill)",
    re.IGNORECASE,
)
_FAMILIES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), family)
    for family, pattern in (
        # What a compiler made, but its templates of products; XLA's own are called fusions.
        (KernelFamily.FUSED, r"^triton_(?:poi|per|red|for)_|(?:^|_)fusion(?:_|$)"),
        (KernelFamily.ATTENTION, r"attention|attn|flash_(?:fwd|bwd)|fmha|sdpa|\bmha_"),
        (
            KernelFamily.CONVOLUTION,
            r"convol|conv\d?d|wgrad|dgrad|fprop|scudnn|winograd|igemm_\w*gtcx|depthwise",
        ),
        (
            KernelFamily.MATRIX_PRODUCT,
            # FBGEMM's own namespace is about lookups of embeddings mostly.
            r"(?<!fb)gemm|gemv|nvjet|matmul|Cijk_|cutlass|\bdot_kernel|split_?k|marlin|^triton_tem_\w*mm",
        ),
        (KernelFamily.OPTIMIZER, r"multi_tensor_apply|adamw?\b|\bsgd|\blamb(?!da)"),
        (KernelFamily.SOFTMAX, r"softmax"),
        (KernelFamily.NORMALIZATION, r"norm(?!al)|\bbn_[fb]w"),
        (KernelFamily.LOOKUP, r"embedding|index|gather|scatter"),
        (KernelFamily.COPY, r"copy|CatArray|transpose|permute|n[hc]\w{2}ToN|\bfill|FillFunctor"),
        (KernelFamily.REDUCTION, r"reduce|\bcub::|scan|sort|topk|argm(?:ax|in)"),
        (
            KernelFamily.ELEMENTWISE,
            r"elementwise|pointwise|EigenMetaKernel|dropout|gelu|silu|relu|act_and_mul|^cupy_",
        ),
    )
)
"""The first that fits: a fused kernel's name lists its operators, and one that is written for
all kinds of operators, such as elementwise ones, its functor."""
# M is what Intel's tracer calls memory that the device's driver did not allocate: the host's.
_KINDS: Final = (
    (re.compile(r"HtoD|[HM]2D|Host[- ]?to[- ]?Device", re.IGNORECASE), CopyKind.HOST_TO_DEVICE),
    (re.compile(r"DtoH|D2[HM]|Device[- ]?to[- ]?Host", re.IGNORECASE), CopyKind.DEVICE_TO_HOST),
    (re.compile(r"PtoP|P2P|Peer", re.IGNORECASE), CopyKind.PEER),
    (re.compile(r"DtoD|D2D|Device[- ]?to[- ]?Device", re.IGNORECASE), CopyKind.DEVICE_TO_DEVICE),
)
_MEMORIES: Final = (
    (re.compile(r"pageable", re.IGNORECASE), HostMemory.PAGEABLE),
    (re.compile(r"pinned", re.IGNORECASE), HostMemory.PINNED),
    (re.compile(r"managed|unified", re.IGNORECASE), HostMemory.MANAGED),
)
_WAIT_CALL: Final = re.compile(
    r"(?:cuda|cu|hip)(?:\w*Synchronize|Memcpy(?!\w*Async)|(?:Free|Malloc|MemAlloc|MemFree)"
    r"(?:_v\d+)?$)"
)
"""Memory is taken and given back on an idle device."""
_LOADER: Final = re.compile(
    r"dataloader|data_?load(?:er|ing)?\b|(?:load|get|next|wait_for)_batch\b|batch_loading",
    re.IGNORECASE,
)
_CHECKPOINT: Final = re.compile(
    r"torch\.save|(?:save|write|async_save|store)_?checkpoint|checkpoint_?(?:save|write|saving)"
    r"|\bcheckpoint(?:ing)?\b",
    re.IGNORECASE,
)
_RECOMPUTATION: Final = re.compile(r"CheckpointFunction|activation|recompute", re.IGNORECASE)
_SYNCHRONIZATION: Final = re.compile(r"synchronize", re.IGNORECASE)
_PYTHON: Final = (
    (re.compile(r"torch/serialization\.py\(\d+\): save$"), SpanKind.CHECKPOINT, "torch.save"),
    (
        re.compile(r"torch/distributed/checkpoint/\w+\.py\(\d+\): (?:async_)?save$"),
        SpanKind.CHECKPOINT,
        "torch.distributed.checkpoint.save",
    ),
)
_COUNTED: Final = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = .*", re.DOTALL)
"""What PyTorch's `emit_nvtx` appends, by which every range would have a name of its own."""
_PATH: Final = re.compile(r"(?:[A-Za-z]:)?(?:[/\\][^\s/\\,;:'\"()\[\]]+){2,}")
_STEP: Final = re.compile(
    r"(?:(?:train|training|eval|evaluation|inference|global|profiler|decode|engine|model)"
    r"[ _\-.:/]*)?(?:step|iteration|iter|batch)(?:[ _\-#:=.(\[]*\d.*)?",
    re.IGNORECASE,
)
_LOADER_RANGE: Final = re.compile(
    r"data[ _\-.]?load|data[ _\-.]?(?:fetch|wait|time|iter)|dataloader"
    r"|(?:load|get|next|fetch|fetching|read)[ _\-.]?(?:the )?(?:next )?"
    r"(?:batch|data|inputs?|samples?)\b"
    r"|batch[ _\-.]?(?:load|fetch|generat)|input[ _\-.]?pipeline|prefetch",
    re.IGNORECASE,
)
_CHECKPOINT_RANGE: Final = re.compile(
    r"check[ _\-]?point|ckpt|torch\.save|(?:save|saving|restore|restoring)[ _\-.]?"
    r"(?:the )?(?:model|state|weights|optimizer)",
    re.IGNORECASE,
)
_RECOMPUTATION_RANGE: Final = re.compile(
    r"checkpoint_?(?:function|wrap)|activation|recomput|gradient[ _\-]?check|checkpointed",
    re.IGNORECASE,
)
"""Checkpoints of activations are computation and never reach a disk."""
_SYNCHRONIZATION_RANGE: Final = re.compile(r"synchroni[sz]|\bbarrier\b", re.IGNORECASE)


def is_collective(name: str) -> bool:
    """Whether it moves data between devices on behalf of all of them."""
    return _COLLECTIVE.search(name) is not None


def uses_tensor_cores(name: str) -> bool | None:
    """Whether it works on matrix units; `None` where the name does not tell."""
    if is_collective(name):
        return False
    if _MATRIX_UNITS.search(name):
        return True
    return False if _OTHER_UNITS.search(name) else None


def kernel_family(name: str) -> KernelFamily:
    """What it is for."""
    if is_collective(name):
        return KernelFamily.COLLECTIVE
    found = (family for pattern, family in _FAMILIES if pattern.search(name))
    return next(found, KernelFamily.OTHER)


def copy_kind(name: str) -> CopyKind:
    """From where to where."""
    return next((kind for pattern, kind in _KINDS if pattern.search(name)), CopyKind.OTHER)


def host_memory(name: str) -> HostMemory:
    """What the host's side is; ROCm does not say."""
    found = (memory for pattern, memory in _MEMORIES if pattern.search(name))
    return next(found, HostMemory.UNKNOWN)


def is_wait_call(name: str) -> bool:
    """Whether a call of CUDA or HIP returns only when the device has done something."""
    return _WAIT_CALL.match(name) is not None


def span_kind(name: str) -> SpanKind:
    """What kind of span an annotation is."""
    if _LOADER.search(name):
        return SpanKind.LOADER
    if _CHECKPOINT.search(name) and not _RECOMPUTATION.search(name):
        return SpanKind.CHECKPOINT
    return SpanKind.SYNCHRONIZATION if _SYNCHRONIZATION.search(name) else SpanKind.ANNOTATION


def python_span(name: str) -> tuple[SpanKind, str] | None:
    """The kind of a frame of Python, and a name without folders; most frames have none."""
    if not name.endswith("save"):
        return None
    return next(((kind, said) for pattern, kind, said in _PYTHON if pattern.search(name)), None)


def range_name(text: str) -> str:
    """The name without what makes each range different, and without folders."""
    plain = _COUNTED.sub("", text)
    return _PATH.sub(lambda path: re.split(r"[/\\]", path[0])[-1], plain).strip()


def range_kind(name: str) -> SpanKind:
    """What a range of this name is about; an annotation where the name tells nothing more."""
    if _LOADER_RANGE.search(name):
        return SpanKind.LOADER
    if _CHECKPOINT_RANGE.search(name) and not _RECOMPUTATION_RANGE.search(name):
        return SpanKind.CHECKPOINT
    is_wait = _SYNCHRONIZATION_RANGE.search(name)
    return SpanKind.SYNCHRONIZATION if is_wait else SpanKind.ANNOTATION


def is_step(name: str) -> bool:
    """Whether a range of this name is one turn of the program's main loop."""
    return _STEP.fullmatch(name) is not None
