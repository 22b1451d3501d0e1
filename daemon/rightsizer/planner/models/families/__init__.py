"""Families of transformers by their `model_type`."""
