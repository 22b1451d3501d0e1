"""Simulated node: one physical model, a double of the driver library, and a source of snapshots."""
