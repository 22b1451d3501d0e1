"""Learned file: what engines of a site were measured to do beside their predictions."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.io.codec import decode, encode
from rightsizer.io.files import (
    file_bytes,
    is_closed,
    locked_folder,
    private_folder,
    whole_file,
)
from rightsizer.model.errors import RightsizerError, UsageError
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.plan_check import FigureComparison
from rightsizer.sizing.requirement import Requirement
from rightsizer.sizing.serving import site_subject
from rightsizer.sizing.site import (
    LEAST_DEVIATION,
    MOST_LOG,
    SiteFigure,
    SiteLoad,
    SiteResidual,
    SiteResiduals,
    log_deviation,
)

VERSION: Final = 1
_WHAT: Final = "file of learned measurements"
_REMEDY: Final = "start again with 'rightsizer served --forget'"
_ACCESS_REMEDY: Final = "join group rightsizer, or ask with sudo"


class LearnedDocument(Struct, frozen=True):
    """Content of the file."""

    version: int = VERSION
    residuals: tuple[SiteResidual, ...] = ()


def read_learned(path: str | Path) -> SiteResiduals | None:
    """Return what a site has learned; `None` without a file, or if it is closed to this user.

    Raises:
        RightsizerError: it cannot be understood.
    """
    if not str(path):
        return None
    try:
        document = decode(file_bytes(Path(path)), LearnedDocument)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (OSError, ValueError) as error:
        raise RightsizerError(f"{_WHAT} '{path}': {error}; {_REMEDY}") from None
    if document.version != VERSION:
        fault = f"is of version {document.version}, and this one reads {VERSION}"
        raise RightsizerError(f"{_WHAT} '{path}' {fault}; {_REMEDY}")
    return SiteResiduals(document.residuals)


def closed_note(path: str | Path) -> str:
    """Return that this user may not read what a site has learned, if anything; empty if he may."""
    if not str(path) or not is_closed(Path(path)):
        return ""
    fault = f"what this site may have learned is in '{path}', which you may not read"
    return f"{fault}: nothing is adjusted by it; {_ACCESS_REMEDY}"


def learn(path: str | Path, residuals: Sequence[SiteResidual]) -> SiteResiduals:
    """Add to the file, to which others may add meanwhile; return what it then holds.

    Raises:
        RightsizerError: it cannot be read, understood, or written.
    """
    if not str(path):
        raise UsageError("--learn: sizing.learned_file is empty; name a file there")
    file = Path(path)
    with suppress(OSError):  # Then the file itself cannot be written, which is told.
        private_folder(file.parent)
    with whole_file(file, _WHAT, locks_folder=True) as out:
        if is_closed(file):  # It would be replaced by one that holds only this.
            raise RightsizerError(f"{_WHAT} '{path}': you may not read it; {_ACCESS_REMEDY}")
        site = (read_learned(file) or SiteResiduals()).with_(residuals)
        out.write(encode(LearnedDocument(residuals=site.residuals)))
    return site


def forget(path: Path) -> bool:
    """Remove the file, if there is one; return whether there was.

    Raises:
        RightsizerError: another process keeps its folder locked.
        OSError: it cannot be removed.
    """
    try:
        with locked_folder(path.parent):
            path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def residuals_of(
    requirement: Requirement, candidate: PlanCandidate, comparisons: Iterable[FigureComparison]
) -> Iterator[SiteResidual]:
    """Yield the residuals of means; the candidate must be predicted without corrections.

    A model without a name is not told from others, and teaches nothing.
    """
    if not requirement.model.name:
        return
    load = requirement.load
    in_flight = (candidate.rate.concurrency or 1.0) / candidate.layout.data
    where = SiteLoad.of(in_flight, load.input_tokens, load.output_tokens)
    subject = site_subject(requirement, candidate.layout, candidate.gpu)
    for comparison in comparisons:
        predicted = comparison.predicted
        ratio = comparison.ratio
        if comparison.what not in set(SiteFigure) or comparison.is_quantile:
            continue
        if predicted is None or not ratio or min(predicted.low, predicted.value) <= 0.0:
            continue
        deviation = log_deviation(predicted.value / predicted.low, predicted.high / predicted.value)
        log_ratio = math.log(ratio)
        if abs(log_ratio) > MOST_LOG or not LEAST_DEVIATION <= deviation <= MOST_LOG:
            continue
        figure = SiteFigure(comparison.what)
        yield SiteResidual(subject, where, figure, log_ratio, deviation)
