"""Models from their published files: config.json of Hugging Face's transformers and diffusers.

What cannot be read, counted or true is refused: a `RequirementError` with the key and a remedy.
"""
