"""Classification of calls and ranges by name."""

import pytest

from rightsizer.model.profile import SpanKind
from rightsizer.profiles.names import (
    is_step,
    is_wait_call,
    range_kind,
    range_name,
    range_names,
)
from rightsizer.profiles.nsight_systems.activities import call_name, is_launch


@pytest.mark.parametrize(
    ("text", "name", "role"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel", "launch"),
        ("cudaLaunchKernelExC_v11060_ptsz", "cudaLaunchKernelExC", "launch"),
        ("cuLaunchKernelEx", "cuLaunchKernelEx", "launch"),
        ("cudaGraphLaunch_v10000", "cudaGraphLaunch", "launch"),
        ("cudaLaunchHostFunc_v10000", "cudaLaunchHostFunc", ""),
        ("cudaStreamGetCaptureInfo_v2_v11030", "cudaStreamGetCaptureInfo", ""),
        ("cuCtxSynchronize", "cuCtxSynchronize", "wait"),
        ("cudaMemcpy2D_v3020", "cudaMemcpy2D", "wait"),
        ("cudaMemcpyAsync_v3020", "cudaMemcpyAsync", ""),
        ("cuMemcpyDtoH_v2", "cuMemcpyDtoH", "wait"),
        ("pthread_cond_wait", "pthread_cond_wait", ""),
    ],
)
def test_calls_are_recognized_by_their_names(text: str, name: str, role: str) -> None:
    """Covers runtime and driver, in any version."""
    assert call_name(text) == name
    assert is_launch(name) is (role == "launch")
    assert is_wait_call(name) is (role == "wait")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", SpanKind.LOADER),
        ("[pl][profile][_TrainingEpochLoop].train_dataloader_next", SpanKind.LOADER),
        ("get_batch", SpanKind.LOADER),
        ("load batch", SpanKind.LOADER),
        ("load data", SpanKind.LOADER),
        ("save_checkpoint", SpanKind.CHECKPOINT),
        ("torch.save", SpanKind.CHECKPOINT),
        ("CheckpointFunction", SpanKind.ANNOTATION),
        ("activation checkpointing", SpanKind.ANNOTATION),
        ("cudaDeviceSynchronize", SpanKind.SYNCHRONIZATION),
        ("dist.barrier", SpanKind.SYNCHRONIZATION),
        ("forward", SpanKind.ANNOTATION),
        ("database update", SpanKind.ANNOTATION),
    ],
)
def test_ranges_are_recognized_by_the_names_that_people_give(name: str, kind: SpanKind) -> None:
    """Activation checkpoints never reach a disk."""
    assert range_kind(name) is kind


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("ProfilerStep#12", True),
        ("train_step", True),
        ("Step 90 to 100", True),
        ("iteration=7", True),
        ("iter_5", True),
        ("optimizer.step", False),
        ("stepping stone", False),
        ("batch_norm", False),
    ],
)
def test_steps_are_recognized_by_their_names(name: str, *, is_one: bool) -> None:
    """A step is one turn of the main loop, not a part of it."""
    assert is_step(name) is is_one


def test_names_of_ranges_lose_what_is_theirs_alone() -> None:
    """Counters of PyTorch and user's folders are removed."""
    assert range_name("aten::to, op_id = 990347") == "aten::to"
    assert range_name("read /home/alice/set/a.bin") == "read a.bin"
    assert range_name("mlp/dense") == "mlp/dense"
    assert range_names([]) == []
