"""How much a finding matters: by how many GPUs' worth of time is lost, or at stake."""

from typing import Final

from rightsizer.domain.finding import Severity

__all__ = ["severity_of"]

_LEAST_GPUS: Final = ((4.0, Severity.CRITICAL), (1.0, Severity.HIGH), (0.25, Severity.MEDIUM))
"""A quarter of a GPU, a GPU, half of a node of eight: the steps at which people act."""


def severity_of(affected_gpus: float) -> Severity:
    """The severity of what concerns so many GPUs' worth of time."""
    return next((found for least, found in _LEAST_GPUS if affected_gpus >= least), Severity.LOW)
