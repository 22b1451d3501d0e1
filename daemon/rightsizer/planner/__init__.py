"""Planner: from requirements to suitable GPUs, before a purchase.

A fault in a file, a model or a requirement is a `RequirementError`: all faults, one line each that
begins with its key or its place in a file, and ends with the remedy.
"""
