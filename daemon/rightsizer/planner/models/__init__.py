"""Models from their published files: config.json of Hugging Face's transformers and diffusers."""
