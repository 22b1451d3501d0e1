"""Models whose layers keep a state of a request: state spaces and hybrids, by `model_type`."""

from collections.abc import Mapping
from typing import Final

from rightsizer.planner.models.configuration import ConfigReader
from rightsizer.planner.models.recurrent import gated, mamba

RECURRENT: Final[Mapping[str, ConfigReader]] = {
    "bamba": mamba.read_bamba,
    "falcon_h1": mamba.read_falcon_h1,
    "falcon_mamba": mamba.read_mamba,
    "granitemoehybrid": mamba.read_granite_hybrid,
    "jamba": mamba.read_jamba,
    "lfm2": gated.read_lfm2,
    "lfm2_moe": gated.read_lfm2_mixture,
    "mamba": mamba.read_mamba,
    "mamba2": mamba.read_mamba2,
    "nemotron_h": mamba.read_nemotron_h,
    "recurrent_gemma": gated.read_recurrent_gemma,
    "zamba2": mamba.read_zamba2,
}
"""Each as its class in transformers has it; the tests hold them against published counts."""
