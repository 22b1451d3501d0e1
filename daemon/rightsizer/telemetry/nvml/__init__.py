"""NVML through the nvidia-ml-py bindings; the only importer of pynvml."""
