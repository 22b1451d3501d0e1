"""Telemetry of GPUs: NVML, dcgm-exporter, serving engines, recordings; sources of snapshots."""
