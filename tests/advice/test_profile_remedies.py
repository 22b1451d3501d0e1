"""Remedies that know what is already so: collectives, their sizes and streams, loaders, copies."""

import pytest
from msgspec.structs import replace

from profile_calls import NCCL, recorded
from profiles_built import copies, device, kernel, profile, span, time_use
from rightsizer.model.finding import Finding
from rightsizer.model.profile import (
    CollectiveUse,
    DeviceProfile,
    FrameUse,
    HostMemory,
    KernelFamily,
    Profile,
    SpanKind,
)
from rightsizer.profiler.rules import (
    communication_bound,
    host_bound,
    kernels_unfused,
    launch_bound,
    pcie_bound,
)

COMMUNICATES = replace(time_use(), collective_seconds=0.5, exposed_collective_seconds=0.4)
SEND = kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage)", 100, 0.5, is_collective=True)
REDUCE = kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 100, 0.5, is_collective=True)
GATHER = kernel("ncclDevKernel_AllGather_RING_LL", 100, 0.5, is_collective=True)


def _device(*kernels: object, **changes: object) -> DeviceProfile:
    return device(kernels=(kernel(), *kernels), time=COMMUNICATES, **changes)


def _text(found: Profile) -> str:
    finding: Finding = communication_bound.RULE.judge([found])
    return "\n".join(
        f"{instruction.title}: {instruction.text}" for instruction in finding.instructions
    )


def test_each_collective_has_its_own_remedy() -> None:
    """Buckets are of sums, prefetching is of shards."""
    assert "bucket_cap_mb" in _text(profile(_device(REDUCE)))
    gathers = _text(profile(_device(GATHER)))
    assert "forward_prefetch" in gathers
    assert "bucket_cap_mb" not in gathers


def test_an_exchange_gets_no_buckets() -> None:
    """NCCL's kernel is the same for exchanges and pipelines; the host's call tells them apart."""
    calls = (span(SpanKind.COLLECTIVE, "nccl:all_to_all", 0.1),)
    exchanged = _text(profile(_device(SEND), host_spans=calls))
    assert "TrainPipelineSparseDist" in exchanged
    assert "bucket" not in exchanged
    assert "micro-batches" in _text(profile(_device(SEND)))


@pytest.mark.parametrize(("size", "count", "joins"), [(1e4, 100, 1), (1e4, 7, 0), (1e8, 100, 0)])
def test_many_small_messages_are_to_be_joined(size: float, count: int, joins: int) -> None:
    """A few, or large ones, are not."""
    sums = CollectiveUse("all_reduce", 8, count, size, 0.4, 1e9, 2e9)
    text = _text(profile(_device(REDUCE, collectives=(sums,))))
    assert ("Join small messages" in text) is bool(joins)


def test_collectives_on_the_kernels_stream_are_told_so() -> None:
    """Nothing runs beside them there."""
    assert "a stream of their own" in _text(profile(_device(REDUCE, inline_collective_seconds=0.5)))
    assert "a stream of their own" not in _text(profile(_device(REDUCE)))


def test_sums_of_inference_are_not_of_gradients() -> None:
    """The next layer needs each at once; a loader, backward pass or optimizer tells training."""
    layers = kernel("sm90_xmma_gemm", family=KernelFamily.MATRIX_PRODUCT)
    served = _text(profile(_device(layers, REDUCE, inline_collective_seconds=0.5)))
    assert served.startswith("Make the sums within layers cheaper")
    assert "stream of their own" not in served
    backward = kernel("flash_bwd_kernel", family=KernelFamily.ATTENTION)
    assert "bucket_cap_mb" in _text(profile(_device(layers, backward, REDUCE)))
    steps = (span(SpanKind.ANNOTATION, "Optimizer.step#AdamW.step", 0.1),)
    assert "bucket_cap_mb" in _text(profile(_device(layers, REDUCE), host_spans=steps))
    loads = (span(SpanKind.LOADER, "enumerate(DataLoader)", 0.1),)
    assert "bucket_cap_mb" in _text(profile(_device(layers, REDUCE), host_spans=loads))


def test_concatenation_is_not_fused_but_avoided() -> None:
    """It copies what was there before."""
    joins = kernel("at::native::CatArrayBatchedCopy<...>", family=KernelFamily.COPY, seconds=0.6)
    adds = kernel("vectorized_elementwise_kernel", family=KernelFamily.ELEMENTWISE, seconds=0.2)
    for kernels, remedy in (((joins, adds), "concatenating"), ((adds,), "Fuse them")):
        finding = kernels_unfused.RULE.judge([profile(device(kernels=kernels))])
        assert remedy in finding.instructions[0].title


def test_what_the_host_does_has_its_remedy() -> None:
    """By the name of the frame; where it may be a model's pass, looking is all that helps."""
    waits = device(time=time_use(kernel=0.2, host=0.8))
    for name, remedy in (
        ("torch.distributed.ddp.reducer::search_unused_parameters", "unused parameters"),
        ("tokenization_utils_base.py(2881): __call__", "Prepare the next batch"),
        ("DataCollatorWithPadding", "Prepare the next batch"),
        ("data.py(9): transform", "Prepare the next batch"),
        ("train.py(9): log", "Prepare the next batch"),
        ("train.py(9): log_metrics", "Prepare the next batch"),
        ("train.py(9): step", "Check what the host does"),
        ("TransformerEncoder", "Check what the host does"),
        ("transformer.py(911): forward", "Check what the host does"),
        ("encoder_block.py(9): forward", "Check what the host does"),
        ("decoder.py(9): __call__", "Check what the host does"),
        ("generate.py(9): decode", "Check what the host does"),
        ("logits.py(9): sample", "Check what the host does"),
        ("sample.py(9): log_softmax", "Check what the host does"),
    ):
        pauses = (span(SpanKind.PAUSE, name, 0.7),)
        finding = host_bound.RULE.judge([profile(waits, host_spans=pauses)])
        assert remedy in finding.instructions[0].title
        assert name in finding.summary


def test_an_optimizer_of_many_kernels_is_named() -> None:
    """Most launches are within its step."""
    waits = time_use(kernel=0.2, host=0.8, dispatch_wait_seconds=0.8)
    short = kernel("tiny", count=40_000, seconds=0.2)
    for count, title in ((30_000, "few kernels"), (10_000, "CUDA graphs")):
        frames = (FrameUse("Optimizer.step#AdamW.step", None, 0.1, 0.1, count),)
        finding = launch_bound.RULE.judge(
            [profile(device(time=waits, kernels=(short,), frames=frames))]
        )
        assert title in finding.instructions[0].title
        assert ("of the optimizer" in finding.summary) is (count == 30_000)


@pytest.mark.parametrize(("streams", "inline"), [(("a", "a"), 20), (("a", "b"), 0), (("", ""), 0)])
def test_streams_of_collectives_are_read(streams: tuple[str, str], inline: int) -> None:
    """Without streams it is not known."""
    recorder = recorded()
    for place, name in enumerate(("gemm", NCCL)):
        recorder.kernel("0", (10 * place, 10 + 20 * place), name, stream=streams[place])
    (found,) = recorder.devices()
    assert found.inline_collective_seconds == pytest.approx(inline * 1e-9)


@pytest.mark.parametrize(
    ("loader", "says"),
    [
        (
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            "in processes of their own",
        ),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "do not keep up"),
    ],
)
def test_a_loader_with_workers_is_not_told_to_have_some(loader: str, says: str) -> None:
    """It has them; they are too slow."""
    waits = replace(time_use(0.5, 0.5), loader_wait_seconds=0.5)
    spans = (span(SpanKind.LOADER, loader, 0.5),)
    finding = host_bound.RULE.judge([profile(device(time=waits), host_spans=spans)])
    assert says in finding.options[0].description


def test_few_pageable_copies_do_not_ask_for_pinned_memory() -> None:
    """Nearly all of what is copied is pinned already."""
    time = replace(time_use(kernel=0.6), exposed_copy_seconds=0.2, copy_seconds=0.2)
    moved = (copies(HostMemory.PINNED, 0.19), copies(HostMemory.PAGEABLE, 0.01))
    finding = pcie_bound.RULE.judge([profile(device(time=time, copies=moved))])
    assert "pin_memory" not in finding.instructions[0].text
