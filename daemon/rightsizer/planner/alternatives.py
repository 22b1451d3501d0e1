"""Alternatives: narrower formats, more tensor parallelism, MIG slices, shorter contexts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.planner.candidate import PlanCandidate, preference
from rightsizer.planner.search import Search, SearchFactory
from rightsizer.sizing.mig import slice_board
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import (
    FULL_SHARDING,
    ModelTask,
    Offload,
    Optimizer,
    Recompute,
    Requirement,
)

_OTHER_TASK: Final = "task"
_OFFLOADED: Final = {
    Offload.ACTIVATIONS: "as fast as PCIe brings them back",
    Offload.OPTIMIZER: "the host updates all weights each step: take a large global batch",
}
_Leading = Sequence[tuple[Board, PlanCandidate]]


class Alternative(Struct, frozen=True):
    """Change of the requirement, or of how it is met, with its result."""

    kind: str
    """`quantization`, `training`, `layout`, `mig`, `disaggregation`; if nothing fits also `load`,
    `task`, and `together` for several."""
    change: str
    candidate: PlanCandidate
    caution: str = ""
    """What to check before applying it."""
    prompts: PlanCandidate | None = None
    """GPUs for the prompts, if `candidate` computes the answers alone."""


class _Change(Struct, frozen=True):
    kind: str
    change: str
    part: str
    """Part of the requirement that changes; empty for itself."""
    values: Mapping[str, Any]
    applies: Callable[[Requirement], bool]
    caution: str = ""

    def apply(self, requirement: Requirement) -> Requirement:
        """Return the changed requirement."""
        if not self.part:
            return replace(requirement, **self.values)
        part = replace(getattr(requirement, self.part), **self.values)
        return replace(requirement, **{self.part: part})


def _is_wider(requirement: Requirement, than: NumberFormat) -> bool:
    """Whether a served model of tokens has wider weights."""
    now = requirement.precision.weights.bytes_per_parameter
    serves = _is_of_tokens(requirement) and not requirement.task.trains
    return serves and than.bytes_per_parameter < now


def _is_of_tokens(requirement: Requirement) -> bool:
    return isinstance(requirement.model, Transformer)


def _trains_all(requirement: Requirement) -> bool:
    return requirement.task is ModelTask.TRAINING


def _trains_tokens(requirement: Requirement) -> bool:
    return requirement.task.trains and _is_of_tokens(requirement)


_QUANTIZED: Final = tuple(
    _Change(
        "quantization",
        f"weights in {weights}",
        "precision",
        {"weights": weights},
        partial(_is_wider, than=weights),
        "answers change a little: compare them on data of your own",
    )
    for weights in (NumberFormat.FP8, NumberFormat.INT4)
)
_LIMITS: Final = ("concurrency", "ttft_ms", "tpot_ms", "latency_ms")
_CHANGES: Final = (
    _Change(
        "training",
        "activations computed again (recompute: full)",
        "training",
        {"recompute": Recompute.FULL},
        lambda asked: asked.task.trains and asked.training.recompute is not Recompute.FULL,
        "a third more operations",
    ),
    _Change(
        "training",
        f"state sharded over all GPUs (zero_stage: {FULL_SHARDING})",
        "training",
        {"zero_stage": FULL_SHARDING},
        lambda asked: _trains_all(asked) and not asked.training.is_fully_sharded,
        "half as much traffic again between GPUs",
    ),
    _Change(
        "training",
        "optimizer states in 8 bits (optimizer: adamw-8bit)",
        "training",
        {"optimizer": Optimizer.ADAMW_8BIT},
        lambda asked: _trains_all(asked) and asked.training.optimizer is Optimizer.ADAMW,
        "compare the first thousand steps' loss with adamw",
    ),
    *_QUANTIZED,
)
"""What needs less memory, cheapest in speed and quality first."""
_REMEDIES: Final = (
    _Change(
        "layout",
        "the layout left open (no layout or parallel)",
        "",
        {"parallel": None},
        lambda asked: asked.parallel is not None,
    ),
    _Change(
        "layout",
        "tensor parallelism left open (no tp)",
        "",
        {"tensor": None},
        lambda asked: asked.tensor is not None,
    ),
    *_CHANGES,
    _Change(
        "load",
        "as many requests at once as fit, with no limit on latencies",
        "load",
        dict.fromkeys(_LIMITS),
        lambda asked: (
            not asked.task.trains and (asked.load.concurrency is not None or asked.load.has_targets)
        ),
        "users wait longer",
    ),
    _Change(
        "training",
        "one sequence at a time (micro_batch: 1)",
        "training",
        {"micro_batch": 1},
        lambda asked: asked.task.trains and asked.training.micro_batch > 1,
        "smaller products are slower",
    ),
    _Change(
        "training",
        "logits and loss in chunks (fused_loss: true)",
        "training",
        {"fused_loss": True},
        lambda asked: _trains_tokens(asked) and not asked.training.has_chunked_loss,
    ),
    *(
        _Change(
            "training",
            f"{offload} in the memory of the host (offload: {offload})",
            "training",
            {"offload": offload},
            lambda asked: _trains_tokens(asked) and asked.training.offload is Offload.NONE,
            caution,
        )
        for offload, caution in _OFFLOADED.items()
    ),
    _Change(
        _OTHER_TASK,
        "LoRA (train: lora)",
        "",
        {"task": ModelTask.FINETUNE_LORA},
        lambda asked: _trains_all(asked) and _is_of_tokens(asked),
        "adapters alone learn; what a model knows changes little",
    ),
    _Change(
        _OTHER_TASK,
        "QLoRA (train: qlora)",
        "",
        {"task": ModelTask.FINETUNE_QLORA},
        lambda asked: _trains_tokens(asked) and asked.task is not ModelTask.FINETUNE_QLORA,
        "the same, beside weights of 4 bits",
    ),
)
"""What helps if nothing fits, also at the cost of speed or of what is learned."""


def alternatives(
    requirement: Requirement, leading: _Leading, search: SearchFactory
) -> Iterator[Alternative]:
    """Yield all alternatives worth considering."""
    open_layout = replace(requirement, parallel=None)
    boards = [board for board, _ in leading]
    for change in _CHANGES:
        if not change.applies(open_layout):
            continue
        best = min(map(search(change.apply(open_layout)).best, boards), key=preference)
        if best.fits:
            yield Alternative(change.kind, change.change, best, change.caution)
    board, first = leading[0]
    for candidate in search(open_layout).all(board):
        if candidate.fits and candidate.layout != first.layout:
            spread = str(candidate.layout)
            yield Alternative("layout", f"{spread} parallel" if spread else "one GPU", candidate)
    yield from _slices(leading, search(open_layout))


def remedies(
    requirement: Requirement, boards: Sequence[Board], search: SearchFactory, *, has_likely: bool
) -> Iterator[Alternative]:
    """Yield what would help if nothing fits on some boards: each change sufficient by itself.

    If the plan `has_likely` candidates, that fit less surely than asked, a change must hold surely.
    Otherwise, the cheapest changes that suffice together; another task is not combined, as it
    gives another model.
    """

    def best(changed: Requirement) -> PlanCandidate:
        return min(map(search(changed).best, boards), key=preference)

    helps = attrgetter("holds" if has_likely else "fits")
    changes = [change for change in _REMEDIES if change.applies(requirement)]
    is_enough = False
    for remedy in changes:
        candidate = best(remedy.apply(requirement))
        if helps(candidate):
            is_enough = is_enough or remedy.kind != _OTHER_TASK
            yield Alternative(remedy.kind, remedy.change, candidate, remedy.caution)
    together = requirement
    done = list[_Change]()
    for remedy in changes:
        if is_enough or remedy.kind == _OTHER_TASK:
            continue
        together = remedy.apply(together)
        done.append(remedy)
        if len(done) > 1 and helps(candidate := best(together)):
            change = "; ".join(part.change for part in done)
            yield Alternative("together", change, candidate, done[-1].caution)
            return


def _slices(leading: _Leading, search: Search) -> Iterator[Alternative]:
    """Yield the smallest sufficient slice of each leading board of which one is enough."""
    for board in (board for board, candidate in leading if candidate.count == 1):
        for profile in sorted(board.mig_profiles, key=lambda mig_profile: mig_profile.memory_share):
            part = slice_board(board, profile)
            if profile.compute_share >= 1.0 or (plan_candidate := search.best(part)).count > 1:
                continue
            if plan_candidate.fits:
                change = f"a slice {profile.name} of {board.key}"
                caution = "worth it if the other slices find their users"
                yield Alternative("mig", change, plan_candidate, caution)
                break
