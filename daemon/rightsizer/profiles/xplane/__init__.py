"""XSpace of TensorFlow, JAX and XLA: planes, lines, events."""
