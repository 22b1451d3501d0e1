"""Traces of training loops on this machine's GPU, each with a planted fault or none.

`python evaluation/hardware/record_profiles.py FOLDER` writes a Chrome trace of PyTorch's profiler
for each loop; `labels.yaml` beside the committed ones says what is planted.
"""

import gzip
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from evaluation.hardware.workloads import Transformer

Loop = Callable[[], object]
_STEPS: Final = 4
_WARM_UP_STEPS: Final = 3


def _loops(torch: Any) -> Mapping[str, Callable[[], Loop]]:
    """Loops by name, each prepared when it is called."""
    four = Transformer(torch, layers=4)

    def small() -> Loop:
        narrow = Transformer(torch, layers=6, width=256)
        return lambda: narrow.step(2, 32)

    def float32() -> Loop:
        torch.backends.cuda.matmul.allow_tf32 = False
        return lambda: four.step(8, 512, is_autocast=False)

    def slow_loader() -> None:
        time.sleep(0.06)
        four.step(8, 512)

    def pageable_copies() -> Loop:
        host = torch.randn(16, 1024, 1024)

        def step() -> None:
            for _ in range(4):
                host.to("cuda")
            four.step(4, 512)

        return step

    def allocator_churn() -> None:
        sizes = [2**28 + 2**20 * number for number in range(8)]
        buffers = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
        buffers.clear()
        torch.cuda.empty_cache()
        four.step(8, 512)

    return {
        "training": lambda: lambda: four.step(16, 1024),
        "graph_inference": lambda: _graph_inference(torch),
        "float32": float32,
        "small_kernels": small,
        "slow_loader": lambda: slow_loader,
        "pageable_copies": pageable_copies,
        "allocator_churn": lambda: allocator_churn,
    }


def _graph_inference(torch: Any) -> Loop:
    model = Transformer(torch, layers=4).model.bfloat16().eval()
    batch = torch.randn(8, 512, 1024, device="cuda").bfloat16()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        with torch.cuda.stream(torch.cuda.Stream()):
            model(batch)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            model(batch)
    return lambda: [graph.replay() for _ in range(3)]


def main(arguments: Sequence[str]) -> int:
    """Record all loops into the folder."""
    import torch  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - not to check.

    (folder,) = map(Path, arguments)
    folder.mkdir(parents=True, exist_ok=True)
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    for name, prepare in _loops(torch).items():
        step = prepare()
        for _ in range(_WARM_UP_STEPS):
            step()
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=kinds) as trace:
            for number in range(_STEPS):
                with torch.profiler.record_function(f"ProfilerStep#{number}"):
                    step()
            torch.cuda.synchronize()
        plain = folder / f"{name}.json"
        trace.export_chrome_trace(str(plain))
        (folder / f"{name}.json.gz").write_bytes(gzip.compress(plain.read_bytes(), 9, mtime=0))
        plain.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
