"""Planted waste of the fleet, and further findings that are not wrong."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from estate.layout import JOBS, Layout
from rightsizer.model.finding import Reason

__all__ = ["PLANTED", "Metrics", "Planted", "Score", "planted_in", "score"]


class Metrics(StrEnum):
    """Metrics in the fleet's store."""

    OWN = "own"
    """Our agents' metrics, as scraped."""
    RULES = "rules"
    """Results of our recording rules, and a day of scrapes."""
    DCGM = "dcgm"
    """Those of dcgm-exporter alone."""


class Planted(Struct, frozen=True):
    """A planted fault."""

    what: str
    subjects: tuple[str, ...]
    """Names of jobs, or `pool/NAME`, with a verdict that may report it."""
    reasons: frozenset[Reason]
    """Any of them reports it."""
    needs: frozenset[Metrics] = frozenset(Metrics)
    """Metrics that show it."""


_AGENT: Final = frozenset({Metrics.OWN, Metrics.RULES})
_SHARING: Final = frozenset(
    {
        Reason.SHARING_CANDIDATE_MIG,
        Reason.SHARING_CANDIDATE_MPS,
        Reason.SHARING_CANDIDATE_TIME_SLICE,
    }
)
_TOO_LARGE: Final = _SHARING | {Reason.GPU_OVERPROVISIONED, Reason.GPU_MEMORY_OVERPROVISIONED}


def _planted(
    what: str, subjects: str, *reasons: Reason, needs: frozenset[Metrics] = frozenset(Metrics)
) -> Planted:
    return Planted(what, tuple(subjects.split()), frozenset(reasons), needs)


PLANTED: Final = (
    _planted("a training job over two nodes that hangs", "stall", Reason.HIDDEN_STALL),
    _planted("a node that the others wait for", "skew", Reason.RANK_IMBALANCE),
    _planted("a loader at its CPU quota", "loader", Reason.HOST_BOUND, needs=_AGENT),
    _planted("tiny kernels", "launch", Reason.LAUNCH_BOUND, needs=_AGENT),
    _planted("a forgotten notebook", "notebook-ana", Reason.IDLE_HELD),
    _planted("a notebook on an expensive board", "notebook-lab", *_TOO_LARGE),
    _planted("a small service on expensive boards", "embed-svc", *_TOO_LARGE),
    _planted("replicas that sleep at night", "chat-api", Reason.DIURNAL_AUTOSCALE),
    # Without profiling, an exporter cannot show that replicas do not communicate.
    _planted(
        "more replicas than are needed",
        "search-rank",
        Reason.GPU_COUNT_OVERPROVISIONED,
        needs=_AGENT,
    ),
    _planted("small services with a GPU each", "asr ocr tts pool/dev", *_SHARING),
    _planted("a job over more nodes than it needs", "scattered", Reason.NVLINK_ABSENT),
    _planted("free GPUs on too many nodes", "pool/batch", Reason.CAPACITY_FRAGMENTED),
    _planted(
        "an unused pool",
        "pool/spare",
        Reason.IDLE_EMPTY,
        Reason.ALLOCATED_WITHOUT_PROCESS,
        Reason.GPU_COUNT_OVERPROVISIONED,
    ),
    _planted("a pool that is soon full", "pool/tenants", Reason.EXHAUSTION_FORECAST),
)

_TRUE_OF_ANY: Final = frozenset(
    {
        Reason.COMPUTE_SATURATED,
        Reason.POWER_CAP_OPPORTUNITY,
        Reason.POWER_THROTTLED,
        Reason.MEMORY_BANDWIDTH_BOUND,
        Reason.TENSOR_CORES_UNUSED,
    }
)
"""Physical limits of some jobs that were not planted."""
_ALSO: Final[Mapping[str, frozenset[Reason]]] = {
    "stall": frozenset({Reason.RANK_IMBALANCE}),
    "skew": frozenset({Reason.HIDDEN_STALL, Reason.STORAGE_BOUND, Reason.HOST_BOUND}),
    "loader": frozenset({Reason.GPU_MEMORY_OVERPROVISIONED, Reason.STORAGE_BOUND}),
    "launch": frozenset({Reason.GPU_MEMORY_OVERPROVISIONED}),
    # On more nodes than needed too, since others came before them.
    "render": frozenset({Reason.NVLINK_ABSENT}),
    "nightly": frozenset({Reason.NVLINK_ABSENT}),
    "search-rank": _TOO_LARGE | {Reason.DIURNAL_AUTOSCALE},
    "embed-svc": frozenset({Reason.GPU_COUNT_OVERPROVISIONED}),
    # No one works with them at midnight.
    "notebook-lab": frozenset({Reason.IDLE_HELD}),
    "notebook-bo": frozenset({Reason.IDLE_HELD}),
    "asr": _TOO_LARGE,
    "ocr": _TOO_LARGE,
    "tts": _TOO_LARGE,
    # Only policies identify a standby replica.
    "standby": _TOO_LARGE | {Reason.IDLE_HELD},
    "pool/batch": frozenset({Reason.DIURNAL_AUTOSCALE, Reason.GPU_COUNT_OVERPROVISIONED}),
    "pool/serve": _SHARING,
    "pool/train": frozenset({Reason.RANK_IMBALANCE}),
}


_POOL_RULES: Final = frozenset(
    {
        "idle_pool",
        "pool_autoscale",
        "pool_exhaustion",
        "fragmentation",
        "packing",
        "stragglers",
        "replica_consolidation",
    }
)


class Score(Struct, frozen=True):
    """Comparison with the truth."""

    found: tuple[Planted, ...]
    missed: tuple[Planted, ...]
    wrong: tuple[str, ...]
    """False findings: subject and reason."""


def planted_in(layout: Layout, metrics: Metrics) -> tuple[Planted, ...]:
    """Planted faults visible in a fleet."""
    names = {job.name for job in layout.jobs} | {
        f"pool/{machine.pool}" for machine in layout.machines
    }
    return tuple(
        each for each in PLANTED if metrics in each.needs and not names.isdisjoint(each.subjects)
    )


def score(layout: Layout, metrics: Metrics, findings: Iterable[Mapping[str, Any]]) -> Score:
    """Compare findings in the JSON of `rightsizer fleet` with the truth.

    Findings on devices without a holder are correct if they say so.
    """
    by_subject: dict[str, set[str]] = {}
    for finding in findings:
        by_subject.setdefault(_subject(finding), set()).update(finding["reasons"][:1])
    planted = planted_in(layout, metrics)
    found = tuple(
        each
        for each in planted
        if any(not by_subject.get(key, set()).isdisjoint(each.reasons) for key in each.subjects)
    )
    wrong = [
        f"{subject}: {reason}"
        for subject, reasons in sorted(by_subject.items())
        for reason in sorted(reasons - _allowed(subject))
    ]
    return Score(found, tuple(each for each in planted if each not in found), tuple(wrong))


def _subject(finding: Mapping[str, Any]) -> str:
    """A job's name, or the key of a pool, which begins the verdict's name."""
    if finding.get("rule") in _POOL_RULES:
        return f"pool/{finding['summary'].partition(':')[0]}"
    key = finding["workload"] or ""
    names = (name for name, job in JOBS.items() if key in (job.key, f"workload:{job.key}"))
    return next(names, key)


def _allowed(subject: str) -> frozenset[str]:
    reasons = set(_TRUE_OF_ANY) | _ALSO.get(subject, frozenset())
    for each in PLANTED:
        if subject in each.subjects:
            reasons |= each.reasons
    if subject not in JOBS and not subject.startswith("pool/"):
        reasons |= {Reason.IDLE_EMPTY}
    return frozenset(map(str, reasons))
