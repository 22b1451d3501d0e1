"""The engines that this program knows, in the order in which a page is held against them."""

from typing import Final

from rightsizer.telemetry.serving.engine import Engine
from rightsizer.telemetry.serving.sglang import SGLANG
from rightsizer.telemetry.serving.tgi import TGI
from rightsizer.telemetry.serving.triton import TRITON
from rightsizer.telemetry.serving.vllm import VLLM

__all__ = ["ENGINES"]

ENGINES: Final[tuple[Engine, ...]] = (TRITON, VLLM, SGLANG, TGI)
"""Triton before vLLM, whose metrics its backend writes on the same page."""
