"""A simulated node: one physical model, a driver library below the bindings, and a source."""
