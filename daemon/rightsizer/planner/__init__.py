"""Planner: from requirements to the GPU that fits, before anything is bought.

What a file, a model or a requirement has wrong is a `RequirementError`: all of it, a line each that
begins with its key, or with its place in a file, and ends with the remedy.
"""
