"""Diffusion models from files of Hugging Face's diffusers: denoisers and latent decoders."""
