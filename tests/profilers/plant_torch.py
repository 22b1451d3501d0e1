"""Training loops on the CPU, each with one fault or none, recorded by PyTorch's own profiler.

Runs in the environment described by tests/profilers/recorders.txt: `plant_torch.py FOLDER LOOP...`
writes one trace for each loop, without names for all, and further ones for a name that comes again.
`sync_points`, `tiny_kernels` and `host_bound_step` have the fault in their name; the others have
none.
"""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

WARM_UP = 3
WIDTH = 1024
TEXT = "the quick brown fox jumps over the lazy dog and runs away " * 300


def layers(width: int, count: int) -> nn.Sequential:
    """Some layers of the same width."""
    blocks = [each for _ in range(count) for each in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*blocks)


def sync_points() -> Iterator[None]:
    """Each step reads the loss, each gradient's norm, and values selected by a mask."""
    model = layers(512, 4)
    batch = torch.randn(128, 512)
    parameters = list(model.parameters())
    while True:
        loss = model(batch).square().mean()
        loss.backward()
        for parameter in parameters:
            norm = parameter.grad.norm().item()
            scale = 0.01 / max(1.0, norm)
            with torch.no_grad():
                parameter.sub_(parameter.grad, alpha=scale)
            parameter.grad = None
        with torch.no_grad():
            bad = torch.nonzero(~torch.isfinite(parameters[0]))
        if len(bad) or loss.item() > 1e9:
            raise RuntimeError
        yield


def tiny_kernels() -> Iterator[None]:
    """A hand-written recurrent cell and Adam, of single operators."""
    width = 32
    weights = [torch.randn(width, width, requires_grad=True) for _ in range(6)]
    moments = [(torch.zeros(width, width), torch.zeros(width, width)) for _ in weights]
    batch = torch.randn(3, 8, width)
    while True:
        hidden = torch.zeros(8, width)
        for moment in batch:
            reset = torch.sigmoid(moment @ weights[0] + hidden @ weights[1])
            update = torch.sigmoid(moment @ weights[2] + hidden @ weights[3])
            fresh = torch.tanh(moment @ weights[4] + (reset * hidden) @ weights[5])
            hidden = (1 - update) * hidden + update * fresh
        hidden.square().mean().backward()
        with torch.no_grad():
            for weight, (mean, square) in zip(weights, moments, strict=True):
                mean.mul_(0.9).add_(weight.grad, alpha=0.1)
                square.mul_(0.999).addcmul_(weight.grad, weight.grad, value=0.001)
                weight.sub_(mean / (square.sqrt() + 1e-8), alpha=1e-3)
                weight.grad = None
        yield


def tokenized(text: str) -> torch.Tensor:
    """Word counts, computed in Python."""
    words = text.split() * 20
    known = dict(zip(sorted(set(words)), range(64), strict=False))
    return torch.tensor([known[word] for word in words][:2048])


def augmented(batch: np.ndarray) -> np.ndarray:
    """Noise and a sort in NumPy."""
    noise = np.random.default_rng(0).normal(size=(600, batch.shape[1]))
    return np.sort(batch + noise[: len(batch)], axis=0).astype(np.float32)


def host_bound_step() -> Iterator[None]:
    """Tokenizing, NumPy and logging between the operators of each step."""
    model = layers(256, 2)
    table = nn.Embedding(64, 256)
    optimizer = torch.optim.SGD([*model.parameters(), *table.parameters()], lr=0.01)
    while True:
        numbers = tokenized(TEXT)
        embedded = table(numbers[:64])
        noise = torch.from_numpy(augmented(np.ones((64, 256), dtype=np.float32)))
        loss = model(embedded + noise).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        log = "\n".join([f"{each}: {each**0.5:.6f}" for each in range(8000)])
        Path("/dev/null").write_text(log, encoding="utf-8")
        yield


def large_products() -> Iterator[None]:
    """Products of large matrices, trained by SGD; nothing is read back."""
    model = layers(WIDTH, 3)
    batch = torch.randn(256, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def rare_log() -> Iterator[None]:
    """The same with Adam and clipping, the loss read and logged at each hundredth step."""
    model = layers(WIDTH, 2)
    batch = torch.randn(256, WIDTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    step = 100 - WARM_UP - 4
    while True:
        loss = model(batch).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            Path("/dev/null").write_text(f"{loss.item()}\n", encoding="utf-8")
            time.sleep(0.02)
        step += 1
        yield


def evaluation() -> Iterator[None]:
    """Correct predictions are counted on the device; the sum is read at the end."""
    model = layers(WIDTH, 3)
    batch = torch.randn(512, WIDTH)
    wanted = torch.randint(WIDTH, (512,))
    right = torch.zeros((), dtype=torch.int64)
    model.eval()
    while True:
        with torch.inference_mode():
            right += (model(batch).argmax(-1) == wanted).sum()
        yield


LOOPS: dict[str, tuple[Callable[[], Iterator[None]], int, bool]] = {
    "sync_points": (sync_points, 8, True),
    "tiny_kernels": (tiny_kernels, 12, False),
    "host_bound_step": (host_bound_step, 8, True),
    "large_products": (large_products, 8, False),
    "rare_log": (rare_log, 8, True),
    "evaluation": (evaluation, 8, False),
}
"""Loop, number of recorded steps, and whether Python stacks are recorded."""


def record(loop: Iterator[None], steps: int, into: Path, *, with_stack: bool) -> None:
    """Record some steps of a loop after its first ones."""
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=WARM_UP, active=steps, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(str(into)),
        with_stack=with_stack,
    ) as profiler:
        for _ in range(WARM_UP + steps):
            with record_function("train_step"):
                next(loop)
            profiler.step()


def main(folder: Path, names: list[str]) -> None:
    """Record each loop into a file of its own."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for number, name in enumerate(names or LOOPS):
        loop, steps, with_stack = LOOPS[name]
        into = folder / f"torch_{name}.json"
        if into.exists():
            into = folder / f"torch_{name}_{number}.json"
        record(loop(), steps, into, with_stack=with_stack)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
