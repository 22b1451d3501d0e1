"""What TensorFlow, JAX and XLA write: an `XSpace` of planes, lines and events."""
