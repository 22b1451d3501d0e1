"""A training loop on the CPU with a slow loader, recorded by PyTorch's own profiler.

Runs in the environment described by tests/profilers/recorders.txt: `record_torch.py FOLDER` writes
the trace of one process into `alone/`, and those of two ranks over gloo into `ranks/`.
"""

import multiprocessing
import os
import sys
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

STEPS = 4
LOADER_SECONDS = 0.05
LATE_SECONDS = 0.1
WARM_UP = 2


class SlowSamples(torch.utils.data.Dataset):
    """Slow samples; each is one batch."""

    def __len__(self) -> int:
        """The number of steps."""
        return STEPS + WARM_UP

    def __getitem__(self, place: int) -> torch.Tensor:
        """Noise, after a wait."""
        time.sleep(LOADER_SECONDS)
        return torch.randn(32)


def train(folder: Path, rank: int, ranks: int) -> None:
    """All steps of one rank."""
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    if ranks > 1:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        store = f"file://{folder / 'store'}"
        distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    loader = torch.utils.data.DataLoader(SlowSamples(), batch_size=1)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=STEPS, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(str(folder / f"rank{rank}.json")),
        profile_memory=True,
    ) as profiler:
        for batch in loader:
            with record_function("my_forward"):
                loss = model(batch).square().mean()
            loss.backward()
            time.sleep(rank * LATE_SECONDS)  # The second rank is late to the sum.
            with record_function("Optimizer.step#by_hand"):
                update(model, ranks)
            if rank == 0:
                with record_function("save_checkpoint"):
                    torch.save(model.state_dict(), folder / "model.pt")
            profiler.step()
    if ranks > 1:
        distributed.destroy_process_group()


def update(model: nn.Module, ranks: int) -> None:
    """A gradient step of all ranks together; torch.optim takes seconds to import."""
    with torch.no_grad():
        for weights in model.parameters():
            if ranks > 1:
                distributed.all_reduce(weights.grad)
            weights.sub_(weights.grad, alpha=0.01)
            weights.grad = None


def main(folder: Path) -> None:
    """Record one process for each trace, forked so that torch is imported once."""
    import torch._inductor.config  # noqa: F401, PLC0415 - the profiler would, in each process.

    context = multiprocessing.get_context("fork")
    started = []
    for name, ranks in (("alone", 1), ("ranks", 2)):
        into = folder / name
        into.mkdir()
        started += [
            context.Process(target=train, args=(into, rank, ranks)) for rank in range(ranks)
        ]
    for each in started:
        each.start()
    for each in started:
        each.join()
    if any(each.exitcode for each in started):
        sys.exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
