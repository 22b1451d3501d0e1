"""What the name of a pod tells of its owner.

Nobody on the node knows a pod's owner but by its name. A name that could be somebody's own is
left as it is: two workloads under one key are worse than one under two.
"""

import re
from dataclasses import dataclass
from typing import Final

from rightsizer.model.workload import WorkloadClass

# Kubernetes makes names up without vowels, and without the digits that look like letters.
_MADE_UP: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_CRON_JOB: Final = re.compile(rf"(.+?)-2\d{{7}}-{_MADE_UP}{{5}}")
_DEPLOYMENT: Final = re.compile(rf"(.+?)-{_MADE_UP}{{8,10}}-{_MADE_UP}{{5}}")
_TRAINING_JOB: Final = re.compile(r"(.+?)-(?:chief|evaluator|launcher|master|ps|worker)-\d{1,4}")
_GENERATED: Final = re.compile(rf"(.+?)-{_MADE_UP}{{5}}")


@dataclass(frozen=True, slots=True)
class PodOwner:
    """Whoever makes the next pod when this one ends."""

    name: str
    workload_class: WorkloadClass = WorkloadClass.UNKNOWN


def owner_of_pod(pod: str) -> PodOwner:
    """The owner that a pod's name tells, or the pod itself.

    `<deployment>-<hash>-<suffix>`, `<cron job>-<minute>-<suffix>`, `<job>-worker-<number>` and
    `<job or daemon set>-<suffix>` lose what changes from pod to pod. A stateful set's
    `<name>-<number>` stays: it survives the pod, and `llama-2` is no replica of `llama`.
    """
    for pattern, workload_class in (
        (_CRON_JOB, WorkloadClass.BATCH),
        (_DEPLOYMENT, WorkloadClass.SERVING),
        (_TRAINING_JOB, WorkloadClass.BATCH),
        (_GENERATED, WorkloadClass.UNKNOWN),
    ):
        if found := pattern.fullmatch(pod):
            return PodOwner(found[1], workload_class)
    return PodOwner(pod)
