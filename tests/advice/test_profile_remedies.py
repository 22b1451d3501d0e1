"""Remedies that know what is already so: collectives, their sizes and streams, loaders, copies."""

import pytest
from msgspec.structs import replace

from profile_calls import NCCL, recorded
from profiles_built import copies, device, kernel, profile, span, time_use
from rightsizer.model.finding import Finding
from rightsizer.model.profile import CollectiveUse, DeviceProfile, HostMemory, Profile, SpanKind
from rightsizer.profiler.rules import communication_bound, host_bound, pcie_bound

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
