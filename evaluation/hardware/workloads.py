"""Programs of known bottleneck for a real GPU; each needs PyTorch alone, some CuPy.

A program prepares what it needs on the GPU and returns one step, which the recorder repeats.
"""

import contextlib
import hashlib
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

Step = Callable[[], object]
Prepare = Callable[[Any], Step]
"""Takes the module `torch`, returns the step."""

_GIB: Final = 2**30
_SPIN_CYCLES: Final = 200_000_000
"""A tenth of a second at the highest clock of a Hopper board."""
_WAITING_BLOCKS: Final = 24
"""As many as a collective's channels."""


class Workload(Struct, frozen=True):
    """A program and how a specialist calls its seconds."""

    name: str
    states: Sequence[str]
    """States that are right; empty where phases alternate and no state is expected."""
    prepare: Prepare
    conditions: Sequence[str] = ()
    """Conditions that must hold."""


def _context(torch: Any) -> Step:
    held = torch.zeros(2 * _GIB, dtype=torch.uint8, device="cuda")

    def step() -> None:
        held.data_ptr()
        time.sleep(0.1)

    return step


def _one_thread(torch: Any) -> Step:
    def step() -> None:
        torch.cuda._sleep(_SPIN_CYCLES)
        torch.cuda.synchronize()

    return step


def _waiting_blocks(torch: Any) -> Step:
    import cupy  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - one workload's.

    kernel = cupy.RawKernel(
        """extern "C" __global__ void wait(volatile int* flag, long long cycles) {
            long long start = clock64();
            while (*flag == 0 && clock64() - start < cycles) { }
        }""",
        "wait",
    )
    flag = torch.zeros(1, dtype=torch.int32, device="cuda")

    def step() -> None:
        kernel((_WAITING_BLOCKS,), (512,), (flag.data_ptr(), cupy.int64(_SPIN_CYCLES)))
        cupy.cuda.get_current_stream().synchronize()

    return step


def _copy(torch: Any, *, to_device: bool) -> Step:
    host = torch.empty(_GIB, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(_GIB, dtype=torch.uint8, device="cuda")
    source, target = (host, device) if to_device else (device, host)

    def step() -> None:
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()

    return step


def _to_device(torch: Any) -> Step:
    return _copy(torch, to_device=True)


def _to_host(torch: Any) -> Step:
    return _copy(torch, to_device=False)


def _stream(torch: Any) -> Step:
    one = torch.ones(_GIB, dtype=torch.float32, device="cuda")
    other = torch.empty_like(one)

    def step() -> None:
        for _ in range(20):
            torch.mul(one, 1.5, out=other)
        torch.cuda.synchronize()

    return step


def _product(torch: Any, dtype: str, size: int, repeats: int) -> Step:
    torch.backends.cuda.matmul.allow_tf32 = False
    one = torch.randn(size, size, device="cuda").to(getattr(torch, dtype))
    other = torch.randn(size, size, device="cuda").to(getattr(torch, dtype))
    result = torch.empty_like(one)

    def step() -> None:
        for _ in range(repeats):
            torch.matmul(one, other, out=result)
        torch.cuda.synchronize()

    return step


def _bfloat16(torch: Any) -> Step:
    return _product(torch, "bfloat16", 8192, 40)


def _float32(torch: Any) -> Step:
    return _product(torch, "float32", 8192, 4)


def _float64(torch: Any) -> Step:
    return _product(torch, "float64", 8192, 4)


def _launches(torch: Any) -> Step:
    small = torch.ones(256, device="cuda")

    def step() -> None:
        for _ in range(5000):
            small.add_(1.0)
        torch.cuda.synchronize()

    return step


class Transformer:
    """A decoder of GPT-2 medium's kind with random weights, and its optimizer."""

    def __init__(self, torch: Any, layers: int = 16, width: int = 1024) -> None:
        layer = torch.nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        encoder = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.torch = torch
        self.width = width
        self.model = encoder.to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True)

    def step(self, rows: int, length: int, *, is_autocast: bool = True) -> None:
        """One step of training on random activations of rows x length."""
        torch = self.torch
        batch = torch.randn(rows, length, self.width, device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=is_autocast):
            loss = self.model(batch).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def _training(torch: Any) -> Step:
    transformer = Transformer(torch)
    return lambda: transformer.step(16, 1024)


def _training_float32(torch: Any) -> Step:
    torch.backends.cuda.matmul.allow_tf32 = False
    transformer = Transformer(torch, layers=8)
    return lambda: transformer.step(8, 512, is_autocast=False)


def _decode(torch: Any) -> Step:
    """One token at a time through weights of 8 GB, as a served model of 4B parameters."""
    width = 8192
    weights = [torch.randn(width, width, device="cuda").bfloat16() for _ in range(64)]
    token = torch.randn(8, width, device="cuda").bfloat16()

    def forward() -> Any:
        hidden = token
        for weight in weights:
            hidden = torch.nn.functional.silu(hidden @ weight)
        return hidden

    return _graph(torch, forward, 20)


def _graph(torch: Any, forward: Callable[[], Any], repeats: int) -> Step:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        forward()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        forward()

    def step() -> None:
        for _ in range(repeats):
            graph.replay()
        torch.cuda.synchronize()

    return step


def _decode_eager(torch: Any) -> Step:
    """A small model at batch 1 without a graph: the GPU waits for launches."""
    forward = _eager_forward(torch)

    def step() -> None:
        for _ in range(10):
            forward()

    return step


def _eager_forward(torch: Any) -> Step:
    width = 768
    layer = torch.nn.TransformerEncoderLayer(width, 12, 4 * width, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).to("cuda").bfloat16()
    model.train()
    token = torch.randn(1, 1, width, device="cuda").bfloat16()

    def forward() -> None:
        with torch.no_grad():
            model(token).sum().item()

    return forward


def _starved(torch: Any, wait: Callable[[], object]) -> Step:
    transformer = Transformer(torch)

    def step() -> None:
        wait()
        transformer.step(8, 512)
        torch.cuda.synchronize()

    return step


def _slow_loader(torch: Any) -> Step:
    """A loader that answers slowly and uses no CPU: storage or network of others."""
    return _starved(torch, lambda: time.sleep(0.4))


def _burn(seconds: float) -> bytes:
    digest = b""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        digest = hashlib.sha256(digest * 64).digest()
    return digest


def _busy_loader(torch: Any) -> Step:
    """One thread decodes before each step."""
    return _starved(torch, lambda: _burn(0.4))


def _few_workers(torch: Any) -> Step:
    """Two processes decode batches; the trainer waits for the next one."""
    batches: Any = multiprocessing.Queue(4)
    for _ in range(2):
        multiprocessing.Process(target=_decode_batches, args=(batches,), daemon=True).start()
    return _starved(torch, batches.get)


def _decode_batches(batches: Any) -> None:
    while True:
        batches.put(_burn(0.8))


def _light_service(torch: Any) -> Step:
    """Ten requests a second at a model that could serve twenty times as many."""
    request = _eager_forward(torch)

    def step() -> None:
        request()
        time.sleep(0.1)

    return step


def _burn_for_ever() -> None:
    while True:
        _burn(1.0)


def _crowded_host(torch: Any) -> Step:
    """Three decoding processes a CPU: each step waits for one that waits for a CPU."""
    for _ in range(3 * (os.cpu_count() or 1)):
        multiprocessing.Process(target=_burn_for_ever, daemon=True).start()
    return _starved(torch, lambda: _burn(0.4))


def _folder() -> Path:
    return Path(os.environ.get("RIGHTSIZER_WORKLOAD_FOLDER", tempfile.gettempdir()))


def _cold_reads(torch: Any) -> Step:
    """Read batches from a disk, its cache dropped each time."""
    file = _folder() / "workload-data"
    with file.open("wb") as data:
        for _ in range(16):
            data.write(os.urandom(2**26))
        data.flush()
        os.fsync(data.fileno())
    offset = 0

    def read() -> None:
        nonlocal offset
        with file.open("rb", buffering=0) as data:
            os.posix_fadvise(data.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(data.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            for _ in range(2000):
                offset = (offset + 37 * 2**20) % (_GIB - 4096)
                os.pread(data.fileno(), 4096, offset)

    return _starved(torch, read)


def _checkpoints(torch: Any) -> Step:
    """Three seconds of training, then its state to the disk, synchronously."""
    transformer = Transformer(torch)
    file = _folder() / "workload-checkpoint"

    def step() -> None:
        end = time.monotonic() + 3.0
        while time.monotonic() < end:
            transformer.step(16, 1024)
            torch.cuda.synchronize()
        torch.save([transformer.model.state_dict(), transformer.optimizer.state_dict()], file)
        with file.open("rb+") as written:
            os.fsync(written.fileno())

    return step


def _full_memory(torch: Any) -> Step:
    product = _product(torch, "bfloat16", 4096, 100)
    free, total = torch.cuda.mem_get_info()
    held = torch.empty(int(free - 0.03 * total), dtype=torch.uint8, device="cuda")

    def step() -> None:
        product()
        held.data_ptr()

    return step


def _two_processes(torch: Any) -> Step:
    """A second process holds and uses the same GPU half of the time."""
    context = multiprocessing.get_context("spawn")
    context.Process(target=_other_process, daemon=True).start()
    product = _product(torch, "bfloat16", 4096, 20)
    time.sleep(8)

    def step() -> None:
        product()
        time.sleep(0.02)

    return step


def _other_process() -> None:
    import torch  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - not here.

    product = _product(torch, "bfloat16", 4096, 20)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            product()
            time.sleep(0.02)


_BUSY: Final = ("productive", "compute_bound")
_STARVED: Final = ("host_bound", "storage_bound", "productive", "idle_held")
"""Between two steps the GPU is idle: a short reading sees that."""

WORKLOADS: Final[Sequence[Workload]] = (
    Workload("idle_with_context", ("idle_held",), _context),
    Workload("one_thread_spin", ("hidden_stall",), _one_thread),
    Workload("waiting_collective", ("hidden_stall",), _waiting_blocks),
    Workload("copies_to_device", ("pcie_bound",), _to_device),
    Workload("copies_to_host", ("pcie_bound",), _to_host),
    Workload("memory_stream", ("memory_bandwidth_bound",), _stream),
    Workload("bfloat16_product", ("compute_bound",), _bfloat16),
    Workload("float32_product", ("compute_bound",), _float32, ("no_tensor_cores",)),
    Workload("float64_product", ("compute_bound",), _float64),
    Workload("small_kernels", ("launch_bound",), _launches),
    Workload("training", (*_BUSY, "memory_bandwidth_bound"), _training),
    # Attention in FP32 uses tensor cores as well: .033, too much for `no_tensor_cores`.
    Workload("training_float32", _BUSY, _training_float32),
    Workload("decode", ("memory_bandwidth_bound",), _decode),
    Workload("eager_decode", ("launch_bound",), _decode_eager),
    Workload("slow_loader", _STARVED, _slow_loader),
    Workload("busy_loader", _STARVED, _busy_loader),
    Workload("few_workers", _STARVED, _few_workers),
    Workload("light_service", ("productive", "idle_held"), _light_service),
    Workload("crowded_host", ("host_bound", "idle_held"), _crowded_host),
    Workload("cold_reads", ("storage_bound", "idle_held"), _cold_reads),
    Workload("checkpoints", (), _checkpoints),
    Workload("full_memory", _BUSY, _full_memory, ("near_out_of_memory",)),
    Workload("two_processes", _BUSY, _two_processes),
)
