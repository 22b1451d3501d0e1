"""Sizing: memory model, roofline, ratios between GPUs, projection, cost; pure arithmetic.

What cannot be sized, or contradicts itself, is a `RequirementError` with the key and a remedy.
"""
