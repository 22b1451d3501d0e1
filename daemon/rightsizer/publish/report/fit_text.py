"""How well a device fits, in words."""

from rightsizer.domain.state import Resource
from rightsizer.publish.report.figures import percent
from rightsizer.publish.report.model import DeviceRow
from rightsizer.publish.report.words import RESOURCES

__all__ = ["fit_text", "verdict", "verdict_kind"]


def fit_text(row: DeviceRow, resource: Resource) -> str:
    """`63 %`, or why there is none."""
    fit = next((each for each in row.fits if each.resource == resource), None)
    if fit is not None and fit.need is not None:
        return percent(fit.need)
    if resource is Resource.MEMORY and row.memory_is_preallocated:
        return "preallocated: tells no need"
    return "not known"


def verdict(row: DeviceRow) -> str:
    """The device as a whole."""
    if row.is_underprovisioned:
        short = [
            RESOURCES[Resource(fit.resource)]
            for fit in row.fits
            if fit.underprovisioned is not None and fit.underprovisioned == row.underprovisioned
        ]
        share = percent(row.underprovisioned)
        return f"too small: short of {', '.join(short) or 'a resource'} {share} of the time"
    if row.overprovisioned is None:
        return "not enough is known"
    if row.overprovisioned > 0:
        return f"{percent(row.overprovisioned)} more than is needed"
    return "needed as it is"


def verdict_kind(row: DeviceRow) -> str:
    """A class of the style sheet."""
    if row.is_underprovisioned:
        return "under"
    return "over" if row.overprovisioned else ""
