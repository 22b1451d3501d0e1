"""What a kernel's name tells of it."""

import re
from typing import Final

__all__ = ["is_collective", "uses_tensor_cores"]

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
