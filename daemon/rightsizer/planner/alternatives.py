"""What else could be done: narrower formats, more tensor parallelism, a MIG slice, less to keep."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.model.frozen import dataclass, replace
from rightsizer.planner.candidate import PlanCandidate, preference
from rightsizer.planner.search import Search
from rightsizer.sizing.mig import slice_board
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import ModelTask, Optimizer, Recompute, Requirement

_NARROWER: Final = (NumberFormat.FP8, NumberFormat.INT4)
_Leading = Sequence[tuple[Board, PlanCandidate]]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A change of the requirement, or of how it is met, and what would come of it."""

    kind: str
    """`quantization`, `training`, `layout`, `mig`."""
    change: str
    candidate: PlanCandidate
    caution: str = ""
    """What has to be looked at before it is done."""


def alternatives(
    requirement: Requirement,
    leading: _Leading,
    search: Callable[[Requirement], Search],
    price: Callable[[Board], float | None],
) -> Iterator[Alternative]:
    """All that is worth a look."""
    open_layout = replace(requirement, parallel=None)
    for kind, change, caution, changed in _changes(open_layout):
        asked = search(changed)
        found = [asked.best(board, price(board)) for board, _ in leading]
        fitting = [each for each in found if each.fits]
        if fitting:
            yield Alternative(kind, change, min(fitting, key=preference), caution)
    board, best = leading[0]
    for each in search(open_layout).all(board, price(board)):
        if each.fits and each.layout != best.layout:
            spread = str(each.layout)
            yield Alternative("layout", f"{spread} parallel" if spread else "one GPU", each)
    yield from _slices(open_layout, leading, search, price)


def _changes(requirement: Requirement) -> Iterator[tuple[str, str, str, Requirement]]:
    """Kind, change, caution, and the requirement so changed."""
    if requirement.task.trains:
        yield from _training_changes(requirement)
        return
    if not isinstance(requirement.model, Transformer):
        return
    now = requirement.precision.weights
    for narrower in _NARROWER:
        if narrower.bytes_per_parameter < now.bytes_per_parameter:
            precision = replace(requirement.precision, weights=narrower)
            yield (
                "quantization",
                f"weights in {narrower}",
                "answers change a little: compare them on data of your own",
                replace(requirement, precision=precision),
            )


def _training_changes(requirement: Requirement) -> Iterator[tuple[str, str, str, Requirement]]:
    training = requirement.training
    if training.recompute is not Recompute.FULL:
        changed = replace(training, recompute=Recompute.FULL)
        yield (
            "training",
            "activations computed again (recompute: full)",
            "a third more operations",
            replace(requirement, training=changed),
        )
    if requirement.task is not ModelTask.TRAINING:
        return
    if training.zero_stage < 3:  # noqa: PLR2004 - the last of ZeRO's stages.
        changed = replace(training, zero_stage=3)
        yield (
            "training",
            "state sharded over all GPUs (zero_stage: 3)",
            "half as much traffic again between GPUs",
            replace(requirement, training=changed),
        )
    if training.optimizer is Optimizer.ADAMW:
        changed = replace(training, optimizer=Optimizer.ADAMW_8BIT)
        yield (
            "training",
            "optimizer states in 8 bits (optimizer: adamw-8bit)",
            "compare the first thousand steps' loss with adamw",
            replace(requirement, training=changed),
        )


def _slices(
    requirement: Requirement,
    leading: _Leading,
    search: Callable[[Requirement], Search],
    price: Callable[[Board], float | None],
) -> Iterator[Alternative]:
    """The smallest slice that does, of each leading board of which one is enough."""
    asked = search(requirement)
    for board, candidate in leading:
        if candidate.count > 1:
            continue
        boards = (
            slice_board(board, each)
            for each in sorted(board.mig_profiles, key=lambda each: each.memory_share)
            if each.compute_share < 1.0
        )
        found = _first_fitting(asked, boards, price)
        if found is not None:
            change = f"a slice {found.gpu.partition(':')[2]} of {board.key}"
            yield Alternative("mig", change, found, "worth it if the other slices find their users")


def _first_fitting(
    search: Search, boards: Iterable[Board], price: Callable[[Board], float | None]
) -> PlanCandidate | None:
    for board in boards:
        found = search.best(board, price(board))
        if found.fits and found.count == 1:
            return found
    return None
