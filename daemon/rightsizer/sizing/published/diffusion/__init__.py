"""Diffusion models as Hugging Face's diffusers write them."""
