"""Live telemetry of GPUs: NVML, dcgm-exporter, serving engines; sources of snapshots."""
