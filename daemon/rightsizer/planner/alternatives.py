"""Alternatives: narrower formats, more tensor parallelism, MIG slices, shorter contexts."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
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
    Training,
)

_NARROWER: Final = (NumberFormat.FP8, NumberFormat.INT4)
_OTHER_TASK: Final = "task"
_ANSWERS: Final = "answers change a little: compare them on data of your own"
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


def alternatives(
    requirement: Requirement, leading: _Leading, search: SearchFactory
) -> Iterator[Alternative]:
    """Yield all alternatives worth considering."""
    open_layout = replace(requirement, parallel=None)
    boards = [board for board, _ in leading]
    for change in _changes(open_layout):
        best = min(map(search(change.apply(open_layout)).best, boards), key=preference)
        if best.fits:
            yield Alternative(change.kind, change.change, best, change.caution)
    board, first = leading[0]
    for candidate in search(open_layout).all(board):
        if candidate.fits and candidate.layout != first.layout:
            spread = str(candidate.layout)
            yield Alternative("layout", f"{spread} parallel" if spread else "one GPU", candidate)
    yield from _slices(leading, search(open_layout))


class _Change(Struct, frozen=True):
    kind: str
    change: str
    caution: str
    apply: Callable[[Requirement], Requirement]


def _changes(requirement: Requirement) -> Iterator[_Change]:
    """Yield changes that need less memory, cheapest in speed and quality first."""
    if requirement.task.trains:
        yield from _training_changes(requirement)
    elif isinstance(requirement.model, Transformer):
        now = requirement.precision.weights.bytes_per_parameter
        for each in _NARROWER:
            if each.bytes_per_parameter < now:
                apply = _with("precision", weights=each)
                yield _Change("quantization", f"weights in {each}", _ANSWERS, apply)


def _training_changes(requirement: Requirement) -> Iterator[_Change]:
    training = requirement.training
    trains_all = requirement.task is ModelTask.TRAINING
    if training.recompute is not Recompute.FULL:
        change = "activations computed again (recompute: full)"
        caution = "a third more operations"
        yield _training_change(change, caution, recompute=Recompute.FULL)
    if trains_all and not training.is_fully_sharded:
        change = f"state sharded over all GPUs (zero_stage: {FULL_SHARDING})"
        caution = "half as much traffic again between GPUs"
        yield _training_change(change, caution, zero_stage=FULL_SHARDING)
    if trains_all and training.optimizer is Optimizer.ADAMW:
        change = "optimizer states in 8 bits (optimizer: adamw-8bit)"
        caution = "compare the first thousand steps' loss with adamw"
        yield _training_change(change, caution, optimizer=Optimizer.ADAMW_8BIT)


def _remedies(requirement: Requirement) -> Iterator[_Change]:
    """Yield further changes if nothing fits, at the cost of speed or of what is learned."""
    training = requirement.training
    load = requirement.load
    task = requirement.task
    if requirement.parallel is not None:
        change = "the layout left open (no layout or parallel)"
        yield _Change("layout", change, "", partial(replace, parallel=None))
    if requirement.tensor is not None:
        change = "tensor parallelism left open (no tp)"
        yield _Change("layout", change, "", partial(replace, tensor=None))
    yield from _changes(requirement)
    if not task.trains:
        if load.concurrency is not None or load.has_targets:
            limits = dict.fromkeys(("concurrency", "ttft_ms", "tpot_ms", "latency_ms"))
            change = "as many requests at once as fit, with no limit on latencies"
            yield _Change("load", change, "users wait longer", _with("load", **limits))
        return
    if training.micro_batch > 1:
        change = "one sequence at a time (micro_batch: 1)"
        caution = "smaller products are slower"
        yield _training_change(change, caution, micro_batch=1)
    if isinstance(requirement.model, Transformer):
        yield from _transformer_remedies(training, task)


def _transformer_remedies(training: Training, task: ModelTask) -> Iterator[_Change]:
    if not training.has_chunked_loss:
        yield _training_change("logits and loss in chunks (fused_loss: true)", "", fused_loss=True)
    for offload, caution in _OFFLOADED.items() if training.offload is Offload.NONE else ():
        change = f"{offload} in the memory of the host (offload: {offload})"
        yield _training_change(change, caution, offload=offload)
    lora = ModelTask.FINETUNE_LORA
    qlora = ModelTask.FINETUNE_QLORA
    if task is ModelTask.TRAINING:
        caution = "adapters alone learn; what a model knows changes little"
        yield _Change(_OTHER_TASK, "LoRA (train: lora)", caution, partial(replace, task=lora))
    if task is not qlora:
        caution = "the same, beside weights of 4 bits"
        yield _Change(_OTHER_TASK, "QLoRA (train: qlora)", caution, partial(replace, task=qlora))


def _training_change(change: str, caution: str, **changes: Any) -> _Change:
    return _Change("training", change, caution, _with("training", **changes))


def _with(part: str, **changes: Any) -> Callable[[Requirement], Requirement]:
    return lambda requirement: replace(
        requirement, **{part: replace(getattr(requirement, part), **changes)}
    )


def remedies(
    requirement: Requirement, boards: Sequence[Board], search: SearchFactory
) -> Iterator[Alternative]:
    """Yield what would help if nothing fits on some boards: each change sufficient by itself.

    Otherwise, the cheapest changes that suffice together; another task is not combined, as it
    gives another model.
    """

    def best(changed: Requirement) -> PlanCandidate:
        return min(map(search(changed).best, boards), key=preference)

    changes = tuple(_remedies(requirement))
    is_enough = False
    for each in changes:
        candidate = best(each.apply(requirement))
        if candidate.fits:
            is_enough = is_enough or each.kind != _OTHER_TASK
            yield Alternative(each.kind, each.change, candidate, each.caution)
    together = requirement
    done = list[_Change]()
    for each in changes:
        if is_enough or each.kind == _OTHER_TASK:
            continue
        together = each.apply(together)
        done.append(each)
        if len(done) > 1 and (candidate := best(together)).fits:
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
