"""Steps of a compiled function on the CPU, recorded by JAX's own profiler.

Run by the environment that tests/profilers/recorders.txt describes: `record_jax.py FOLDER` writes
what `jax.profiler.trace` does, with the trace viewer's form beside it.
"""

import sys
import time

import jax
import jax.numpy as jnp

STEPS = 5
LOADER_SECONDS = 0.03


@jax.jit
def planted_step(weights: jax.Array, batch: jax.Array) -> jax.Array:
    """A step of training without its gradient."""
    return jnp.tanh(batch @ weights).sum()


def planted_loader() -> jax.Array:
    """A batch, after a while."""
    time.sleep(LOADER_SECONDS)
    return jnp.ones((64, 64))


def main(folder: str) -> None:
    """Warm up, then record."""
    weights = jnp.ones((64, 64))
    planted_step(weights, planted_loader()).block_until_ready()
    with jax.profiler.trace(folder, create_perfetto_trace=False):
        for number in range(STEPS):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                with jax.profiler.TraceAnnotation("load_batch"):
                    batch = planted_loader()
                planted_step(weights, batch).block_until_ready()


if __name__ == "__main__":
    main(sys.argv[1])
