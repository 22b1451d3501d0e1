"""Planner: from requirements to the GPU that fits, before anything is bought."""
