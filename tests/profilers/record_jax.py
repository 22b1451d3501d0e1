"""Steps of a compiled function on the CPU, recorded by JAX's own profiler.

Runs in the environment described by tests/profilers/recorders.txt: `record_jax.py FOLDER` writes
the output of `jax.profiler.trace`, with the trace viewer's form beside it.
"""

import sys
import time

import jax
import jax.numpy as jnp

STEPS = 5
LOADER_SECONDS = 0.03


@jax.jit
def planted_step(weights: jax.Array, batch: jax.Array) -> jax.Array:
    """A training step without its gradient."""
    return jnp.tanh(batch @ weights).sum()


def planted_loader() -> jax.Array:
    """A batch, after a wait."""
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
