"""Classification of kernels by name, with real, shortened names."""

import pytest

from rightsizer.model.profile import CopyKind, HostMemory, KernelFamily, SpanKind
from rightsizer.profiles.names import (
    copy_kind,
    host_memory,
    is_collective,
    kernel_family,
    python_span,
    span_kind,
    uses_tensor_cores,
)

MATRIX_UNITS = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute",
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(Params)",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x6_tn_align8>",
    "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_f32_nhwckrsc_g1_tensor16x8x8_execute_kernel",
    "volta_h884gemm_256x128_ldg8_tn",
    "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
    "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128>>",
    "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN",
    "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention)",
    "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64_MI16x16x1_SN_LDSB1",
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x64x16_wt16x16x4",
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu",
)
OTHER_UNITS = (
    "volta_sgemm_64x64_nt",
    "ampere_sgemm_32x32_sliced1x4_tn",
    "ampere_gcgemm_64x64_nt",
    "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
    "void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>",
    "void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>",
    "void gemv2T_kernel_val<int, int, double, double, double, double, (int)128>",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
    "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>",
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>",
    "triton_poi_fused__to_copy_1",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
)
UNTOLD = (
    "attn_fwd",
    "add_one(const float *, float *, int)",
    "kernel_unified_attention_2d",
    "triton_tem_fused_mm_3",
    "",
)
COLLECTIVES = (
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
    "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(RankData*, RankSignals, int)",
    "two_shot_all_reduce_kernel",
)


@pytest.mark.parametrize("name", MATRIX_UNITS)
def test_kernels_of_matrix_units_are_recognized_by_name(name: str) -> None:
    """The instruction, the operator's class, or the library decides."""
    assert uses_tensor_cores(name) is True


@pytest.mark.parametrize("name", OTHER_UNITS)
def test_kernels_of_other_units_are_recognized_by_name(name: str) -> None:
    """Covers single precision on ordinary units, and kernels that multiply no matrices."""
    assert uses_tensor_cores(name) is False


@pytest.mark.parametrize("name", UNTOLD)
def test_a_name_that_does_not_tell_is_left_open(name: str) -> None:
    """Either answer would be a guess."""
    assert uses_tensor_cores(name) is None


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_are_recognized_by_name(name: str) -> None:
    """Covers NCCL, RCCL, and replacements within a node."""
    assert is_collective(name)


@pytest.mark.parametrize("name", [*MATRIX_UNITS, *UNTOLD, "reduce_segments"])
def test_other_kernels_are_no_collectives(name: str) -> None:
    """A reduction within a device is not one."""
    assert not is_collective(name)


@pytest.mark.parametrize(
    ("name", "kind", "memory"),
    [
        ("Memcpy HtoD (Pageable -> Device)", CopyKind.HOST_TO_DEVICE, HostMemory.PAGEABLE),
        ("Memcpy HtoD (Pinned -> Device)", CopyKind.HOST_TO_DEVICE, HostMemory.PINNED),
        ("Memcpy HtoD (Host -> Device)", CopyKind.HOST_TO_DEVICE, HostMemory.UNKNOWN),
        ("Memcpy DtoH (Device -> Pinned)", CopyKind.DEVICE_TO_HOST, HostMemory.PINNED),
        ("Memcpy DtoD (Device -> Device)", CopyKind.DEVICE_TO_DEVICE, HostMemory.UNKNOWN),
        ("Memcpy PtoP (Device -> Device)", CopyKind.PEER, HostMemory.UNKNOWN),
        ("MemcpyD2H", CopyKind.DEVICE_TO_HOST, HostMemory.UNKNOWN),
        ("Memcpy", CopyKind.OTHER, HostMemory.UNKNOWN),
    ],
)
def test_copies_are_recognized_by_name(name: str, kind: CopyKind, memory: HostMemory) -> None:
    """Source, target and the kind of host memory are known."""
    assert (copy_kind(name), host_memory(name)) == (kind, memory)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", SpanKind.LOADER),
        ("[pl][profile][_TrainingEpochLoop].train_dataloader_next", SpanKind.LOADER),
        ("## wait_for_batch ##", SpanKind.LOADER),
        ("save_checkpoint", SpanKind.CHECKPOINT),
        ("torch.save", SpanKind.CHECKPOINT),
        ("activation checkpoint recompute", SpanKind.ANNOTATION),
        ("CheckpointFunctionBackward", SpanKind.ANNOTATION),
        ("Optimizer.step#SGD.step", SpanKind.ANNOTATION),
        ("torch.cuda.synchronize", SpanKind.SYNCHRONIZATION),
    ],
)
def test_spans_of_the_host_are_recognized_by_name(name: str, kind: SpanKind) -> None:
    """Recomputed activations are not a checkpoint on disk."""
    assert span_kind(name) is kind


def test_frames_of_python_are_named_without_folders() -> None:
    """Installation folders are private."""
    assert python_span("/home/me/lib/torch/serialization.py(850): save") == (
        SpanKind.CHECKPOINT,
        "torch.save",
    )
    assert python_span("/home/me/train.py(12): save") is None
    assert python_span("torch/nn/modules/module.py(1739): _wrapped_call_impl") is None


_F = KernelFamily


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", _F.COLLECTIVE),
        ("triton_poi_fused_add_softmax_3", _F.FUSED),
        ("loop_add_fusion_12", _F.FUSED),
        ("triton_tem_fused_mm_3", _F.MATRIX_PRODUCT),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>", _F.ATTENTION),
        ("attn_fwd", _F.ATTENTION),
        ("volta_scudnn_128x128_stridedB_splitK_medium_nn_v1", _F.CONVOLUTION),
        ("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_f32_nhwckrsc", _F.CONVOLUTION),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", _F.MATRIX_PRODUCT),
        ("Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64", _F.MATRIX_PRODUCT),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel", _F.NORMALIZATION),
        ("void cudnn::bn_fw_tr_1C11_singleread_spec<float, 512>", _F.NORMALIZATION),
        ("void (anonymous namespace)::softmax_warp_forward<c10::BFloat16>", _F.SOFTMAX),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<Adam>", _F.OPTIMIZER),
        ("void at::native::(anonymous namespace)::indexSelectLargeIndex<float>", _F.LOOKUP),
        ("void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda>", _F.COPY),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<half>", _F.COPY),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", _F.REDUCTION),
        ("void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add>", _F.ELEMENTWISE),
        ("void at::native::elementwise_kernel<128, 2, {lambda(int)#1}>", _F.ELEMENTWISE),
        ("void at::native::vectorized_elementwise_kernel<4, normal_distribution>", _F.ELEMENTWISE),
        ("void split_embedding_backward_adagrad_kernel<float>(fbgemm_gpu::Tensor)", _F.LOOKUP),
        ("my_stencil(float*, int)", _F.OTHER),
    ],
)
def test_a_kernels_family_is_recognized_by_its_name(name: str, family: KernelFamily) -> None:
    """A functor within an elementwise kernel indicates a copy, not the optimizer."""
    assert kernel_family(name) is family
