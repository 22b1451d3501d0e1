"""What has to be said of parts of a plan that its task makes no use of."""

from collections.abc import Iterator, Mapping
from typing import Any

from rightsizer.sizing.requirement import Requirement, Task

__all__ = ["unread_notes"]


def unread_notes(requirement: Requirement, given: Mapping[Any, Any]) -> Iterator[str]:
    """A sentence for each part that is given and changes nothing.

    Args:
        requirement: What was read.
        given: The mapping that it was read from.
    """
    task, load = requirement.task, requirement.load
    if given.get("training") and not task.trains:
        yield f"training is given and not looked at: the task is {task}; take task: {Task.TRAINING}"
    if given.get("lora") and task not in {Task.FINETUNE_LORA, Task.FINETUNE_QLORA}:
        yield f"lora is given and not looked at: the task is {task}; take task: finetune-lora"
    if given.get("load") and task.trains:
        yield f"load is given and not looked at: the task is {task}; take task: {Task.INFERENCE}"
    if not requirement.growth.months or not requirement.growth.per_month_ratio:
        return
    if task.trains:
        yield f"growth is given and not looked at: the task is {task}, which has no load to grow"
    elif load.concurrency is None and load.tokens_per_second is None:
        yield (
            "growth is given and there is nothing to grow: give load.tokens_per_second or"
            " load.concurrency"
        )
