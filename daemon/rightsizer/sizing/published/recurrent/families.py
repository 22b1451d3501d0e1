"""The families of Hugging Face models with recurrent layers, by `model_type`."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.sizing.models import Transformer
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.recurrent.bamba import read_bamba, read_granite_hybrid
from rightsizer.sizing.published.recurrent.falcon_h1 import read_falcon_h1
from rightsizer.sizing.published.recurrent.jamba import read_jamba
from rightsizer.sizing.published.recurrent.lfm2 import read_lfm2, read_lfm2_mixture
from rightsizer.sizing.published.recurrent.mamba import read_mamba, read_mamba2
from rightsizer.sizing.published.recurrent.nemotron_h import read_nemotron_h
from rightsizer.sizing.published.recurrent.recurrent_gemma import read_recurrent_gemma
from rightsizer.sizing.published.recurrent.zamba2 import read_zamba2

__all__ = ["RECURRENT_FAMILIES"]

RECURRENT_FAMILIES: Final[Mapping[str, Callable[[Configuration, str], Transformer]]] = (
    MappingProxyType(
        {
            "bamba": read_bamba,
            "falcon_h1": read_falcon_h1,
            "falcon_mamba": read_mamba,
            "granitemoehybrid": read_granite_hybrid,
            "jamba": read_jamba,
            "lfm2": read_lfm2,
            "lfm2_moe": read_lfm2_mixture,
            "mamba": read_mamba,
            "mamba2": read_mamba2,
            "nemotron_h": read_nemotron_h,
            "recurrent_gemma": read_recurrent_gemma,
            "zamba2": read_zamba2,
        }
    )
)
"""Each as its class in transformers has it; the tests hold them against published counts."""
