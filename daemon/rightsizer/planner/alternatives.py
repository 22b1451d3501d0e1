"""What else could be done: narrower formats, more tensor parallelism, a MIG slice, less to keep."""

from collections.abc import Callable, Iterator, Sequence
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
_LAST_STAGE: Final = 3
"""Of ZeRO."""
_Leading = Sequence[tuple[Board, PlanCandidate]]
_Searches = Callable[[Requirement], Search]
_Price = Callable[[Board], float | None]


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
    requirement: Requirement, leading: _Leading, search: _Searches, price: _Price
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
    training, precision = requirement.training, requirement.precision
    now, caution = precision.weights, "answers change a little: compare them on data of your own"
    for each in _NARROWER:
        is_served = isinstance(requirement.model, Transformer) and not requirement.task.trains
        if is_served and each.bytes_per_parameter < now.bytes_per_parameter:
            changed = replace(requirement, precision=replace(precision, weights=each))
            yield "quantization", f"weights in {each}", caution, changed
    trains_all = requirement.task is ModelTask.TRAINING
    for is_open, change, caution, changes in (
        (
            requirement.task.trains and training.recompute is not Recompute.FULL,
            "activations computed again (recompute: full)",
            "a third more operations",
            {"recompute": Recompute.FULL},
        ),
        (
            trains_all and training.zero_stage < _LAST_STAGE,
            f"state sharded over all GPUs (zero_stage: {_LAST_STAGE})",
            "half as much traffic again between GPUs",
            {"zero_stage": _LAST_STAGE},
        ),
        (
            trains_all and training.optimizer is Optimizer.ADAMW,
            "optimizer states in 8 bits (optimizer: adamw-8bit)",
            "compare the first thousand steps' loss with adamw",
            {"optimizer": Optimizer.ADAMW_8BIT},
        ),
    ):
        if is_open:
            changed = replace(requirement, training=replace(training, **changes))
            yield "training", change, caution, changed


def _slices(
    requirement: Requirement, leading: _Leading, search: _Searches, price: _Price
) -> Iterator[Alternative]:
    """The smallest slice that does, of each leading board of which one is enough."""
    asked = search(requirement)
    for board in (board for board, candidate in leading if candidate.count == 1):
        for profile in sorted(board.mig_profiles, key=lambda each: each.memory_share):
            part = slice_board(board, profile)
            if profile.compute_share >= 1.0 or (found := asked.best(part, price(part))).count > 1:
                continue
            if found.fits:
                change = f"a slice {profile.name} of {board.key}"
                caution = "worth it if the other slices find their users"
                yield Alternative("mig", change, found, caution)
                break
