"""Sizing: memory model, roofline, ratios between GPUs, projection, cost; pure arithmetic."""
