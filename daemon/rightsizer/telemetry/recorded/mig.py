"""MIG instances by what logs call them."""

import re
from typing import Final

__all__ = ["mig_profile", "whole_name"]

_PROFILE: Final = re.compile(r"\s+MIG\s+(\d+(?:c\.\d+)?g\.\d+gb\S*)", re.IGNORECASE)


def mig_profile(name: str | None) -> str | None:
    """The profile in a name like `NVIDIA A100-SXM4-80GB MIG 1g.10gb`."""
    found = _PROFILE.search(name or "")
    return found[1] if found else None


def whole_name(name: str) -> str:
    """The name of the GPU that an instance's name is made of."""
    return _PROFILE.sub("", name)
