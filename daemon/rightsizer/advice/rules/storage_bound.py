"""Rule: GPUs that wait for disks or file systems, to read data or to write checkpoints."""

from typing import Annotated, Final

from rightsizer.advice.instructions import dump_stacks, instructions
from rightsizer.advice.observation import Bottleneck, BottleneckSettings
from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Case,
    Device,
    Finding,
    Measure,
    Reason,
    Signal,
    Spec,
    State,
    WorkloadClass,
)

_STORAGE: Final = Bottleneck(
    State.STORAGE_BOUND,
    Reason.STORAGE_BOUND,
    "held up by storage",
    signals=(Signal.IO_PRESSURE,),
)


class StorageBoundSettings(BottleneckSettings, frozen=True):
    """Thresholds for storage limits, and for checkpoints as their cause.

    Attributes:
        working_ratio: Mean utilization from which five minutes count as work.
            Source: docs/definitions.md, states: above it nothing waits for storage
        bursts_ratio: Share of five-minute blocks at work, and as many waiting, from which waits are
            bursts, as of checkpoints.
            Source: a loader that is too slow is so all the time
    """

    working_ratio: Annotated[float, CONSTANT] = 0.7
    bursts_ratio: Annotated[float, Spec(within=(0, 0.5)), CONSTANT] = 0.2


def judge(subject: CaseSubject, settings: StorageBoundSettings) -> Finding:
    """Whether a GPU of the workload waits for storage, for data or for checkpoints."""
    case = subject.case
    seen = _STORAGE.find(subject, settings)
    if isinstance(seen, Finding):
        return seen
    working = _working_share(case, seen.devices, settings.working_ratio)
    is_serving = case.workload_class is WorkloadClass.SERVING
    least = settings.bursts_ratio
    # Work and waits alternate, each for longer than five minutes.
    if in_bursts := not is_serving and working is not None and least <= working <= 1.0 - least:
        pattern = "in bursts between stretches of full work, as checkpoints are"
    elif working is None:
        pattern = "for what it reads or for checkpoints that it writes"
    else:
        pattern = "without stretches of full work between, as when data is read too slowly"
    remedies = [] if in_bursts else ["read_ahead"]
    remedies += ["write_checkpoints_aside"] if in_bursts or working is None else []
    return _STORAGE.find_problem(
        seen,
        f", {pattern}",
        action=Action.FIX_CHECKPOINTING if in_bursts else Action.FIX_INPUT_PIPELINE,
        instructions=(
            dump_stacks(seen.devices, "Check what is read or written"),
            *instructions("find_busy_disk", *(["keep_reads_near"] if is_serving else remedies)),
        ),
        evidence={"working_blocks_ratio": working},
    )


def _working_share(case: Case, devices: tuple[Device, ...], working_ratio: float) -> float | None:
    """Share of five-minute blocks at work; `None` without blocks."""
    uuids = {device.uuid for device in devices}
    means = [
        block.mean
        for window in case.windows
        if window.uuid in uuids
        for block in window.blocks.of(Measure.BUSY)
    ]
    if not means:
        return None
    return round(sum(mean >= working_ratio for mean in means) / len(means), 4)


RULE: Final = Rule("storage_bound", StorageBoundSettings(), judge, _STORAGE.screen)
