"""Traces of a program at work, long enough for every rule to have its say."""

from pathlib import Path

from profile_traces import SECRETS, KinetoTrace

__all__ = ["launch_bound_trace", "loader_bound_trace"]

_LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
_KERNELS = 30
_STEPS = 4
_OPERATORS = ("mm", "mul", "relu")
_SHAPES = {
    "Input Dims": [[512, 1024], [1024, 1024]],
    "Input type": ["c10::BFloat16", "c10::BFloat16"],
}


def launch_bound_trace(folder: Path, name: str = "eager.pt.trace.json", **top: object) -> Path:
    """Four steps of 3 ms; thirty kernels of 5 µs each, 100 µs apart, all with their launches."""
    return _write(folder, name, 3_000.0, 100.0, 5.0, 0.0, top)


def loader_bound_trace(folder: Path, name: str = "loader.pt.trace.json.gz", **top: object) -> Path:
    """Four steps of 6 ms, of which 3 ms are spent in the loader; kernels fill the rest."""
    return _write(folder, name, 6_000.0, 100.0, 95.0, 3_000.0, top)


def _write(  # noqa: PLR0913, PLR0917 - what differs between the two.
    folder: Path,
    name: str,
    step: float,
    apart: float,
    runs: float,
    loads: float,
    top: dict[str, object],
) -> Path:
    gpu = {"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 42_297_524_224}
    trace = KinetoTrace(**{"deviceProperties": [gpu], "metadata": SECRETS, **top})
    correlation = 0
    for number in range(_STEPS):
        begin = 1_000_000.0 + number * step
        trace.annotation(f"ProfilerStep#{number}", begin, step)
        trace.complete("python_function", "nn.Module: Tiny_0", begin + loads - 2.0, step - loads)
        if loads:
            trace.annotation(_LOADER, begin, loads)
        for each in range(_KERNELS):
            correlation += 1
            start = begin + loads + each * apart
            operator = _OPERATORS[each % len(_OPERATORS)]
            trace.complete("cpu_op", f"aten::{operator}", start - 1.0, 6.0, **_SHAPES)
            trace.launch(correlation, start, 3.0)
            trace.kernel("void tiny_kernel<float>()", start + 4.0, runs, correlation=correlation)
        copied = begin + loads + _KERNELS * apart - 30.0
        trace.complete(
            "gpu_memcpy",
            "Memcpy HtoD (Pageable -> Device)",
            copied,
            10.0,
            device=0,
            stream=7,
            bytes=1_000_000,
        )
    return trace.write(folder, name)
