"""NVML through the nvidia-ml-py bindings; no other package knows of pynvml."""
