"""Sizing: memory model, roofline, ratios between GPUs, projection, cost; pure arithmetic.

Unsupported or contradictory input is a `RequirementError` with the key and a remedy.
"""
