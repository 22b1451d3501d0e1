"""The families of Hugging Face models that are read as one stack of layers."""

from typing import Final

from rightsizer.sizing.published.families.decoder_families import DECODERS
from rightsizer.sizing.published.families.encoder_families import ENCODERS
from rightsizer.sizing.published.families.mixture_families import MIXTURES

__all__ = ["FAMILIES"]

FAMILIES: Final = (*DECODERS, *MIXTURES, *ENCODERS)
"""All but models of an encoder and a decoder, and vision transformers, which are read apart."""
