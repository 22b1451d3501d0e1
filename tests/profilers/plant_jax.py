"""Loops on the CPU, each with one fault or none, recorded by JAX's own profiler."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

WARM_UP = 3


@jax.jit
def forward(weights: jax.Array, batch: jax.Array) -> jax.Array:
    """Two layers and their loss."""
    return jnp.square(jnp.tanh(batch @ weights) @ weights).mean()


@jax.jit
def train(weights: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A training step, compiled as a whole."""
    loss, gradient = jax.value_and_grad(forward)(weights, batch)
    return weights - 0.01 * gradient, loss


def sync_points() -> Iterator[None]:
    """Each step waits for the weights, and reads the loss and each row's norm."""
    weights = jnp.ones((512, 512)) / 512
    batch = jnp.ones((64, 512))
    while True:
        weights, loss = train(weights, batch)
        weights.block_until_ready()
        if float(loss) > 1e9:
            raise RuntimeError
        np.asarray(weights[:4])
        yield


def tiny_kernels() -> Iterator[None]:
    """A compiled forward pass, and a hand-written Adam without compilation."""
    large = jnp.ones((128, 128)) / 128
    batch = jnp.ones((32, 128))
    weights = [jnp.ones((32, 32)) for _ in range(4)]
    moments = [(jnp.zeros((32, 32)), jnp.zeros((32, 32))) for _ in weights]
    while True:
        forward(large, batch)
        for place, weight in enumerate(weights):
            mean, square = moments[place]
            gradient = weight * 0.1
            mean = mean * 0.9 + gradient * 0.1
            square = square * 0.999 + gradient * gradient * 0.001
            weights[place] = weight - mean / (jnp.sqrt(square) + 1e-8) * 1e-3
            moments[place] = mean, square
        yield


def host_bound_step() -> Iterator[None]:
    """NumPy and logging between the compiled steps."""
    weights = jnp.ones((512, 512)) / 512
    while True:
        batch = augmented(np.ones((64, 512), dtype=np.float32))
        weights, _ = train(weights, batch)
        write_log()
        yield


def augmented(batch: np.ndarray) -> np.ndarray:
    """Noise and a sort in NumPy."""
    noise = np.random.default_rng(0).normal(size=(2000, batch.shape[1]))
    return np.sort(batch + noise[: len(batch)], axis=0).astype(np.float32)


def write_log() -> None:
    """Some ten thousand lines, which take longer than products that wait for a busy core."""
    log = "\n".join([f"{each}: {each**0.5:.6f}" for each in range(80000)])
    Path("/dev/null").write_text(log, encoding="utf-8")


def large_products() -> Iterator[None]:
    """Compiled training steps in sequence; nothing is read back."""
    weights = jnp.ones((1024, 1024)) / 1024
    batch = jnp.ones((512, 1024))
    while True:
        weights, _ = train(weights, batch)
        yield


def rare_log() -> Iterator[None]:
    """The same, with the loss read and logged at each hundredth step."""
    weights = jnp.ones((1024, 1024)) / 1024
    batch = jnp.ones((512, 1024))
    step = 100 - WARM_UP - 4
    while True:
        weights, loss = train(weights, batch)
        if step % 100 == 0:
            Path("/dev/null").write_text(f"{float(loss)}\n", encoding="utf-8")
            time.sleep(0.02)
        step += 1
        yield


def evaluation() -> Iterator[None]:
    """Losses are summed on the device."""
    weights = jnp.ones((1024, 1024)) / 1024
    batch = jnp.ones((512, 1024))
    total = jnp.zeros(())
    while True:
        total += forward(weights, batch)
        yield


LOOPS: dict[str, tuple[Callable[[], Iterator[None]], int]] = {
    "sync_points": (sync_points, 6),
    "tiny_kernels": (tiny_kernels, 8),
    "host_bound_step": (host_bound_step, 6),
    "large_products": (large_products, 8),
    "rare_log": (rare_log, 8),
    "evaluation": (evaluation, 8),
}


def main(folder: Path, names: list[str]) -> None:
    """Record each loop, by default all, into a folder of its own."""
    for name in names or LOOPS:
        make, steps = LOOPS[name]
        loop = make()
        for _ in range(WARM_UP):
            next(loop)
        with jax.profiler.trace(str(folder / name), create_perfetto_trace=False):
            for number in range(steps):
                with jax.profiler.StepTraceAnnotation("train", step_num=number):
                    next(loop)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
