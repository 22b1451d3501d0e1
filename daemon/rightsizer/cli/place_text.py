"""A choice of GPUs, or why there is none, for people and for shells; from its JSON form alone."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rightsizer.cli.aligned import aligned
from rightsizer.cli.wrapped import wrapped
from rightsizer.domain.units import format_duration

__all__ = ["export_text", "place_text", "refused_export_text"]

_GIBIBYTE: Final = 1 << 30
_NOTHING: Final = "-"
_LOOK: Final = (
    "No agent was asked: this knows the states of this moment alone, not for how long a GPU has "
    "been idle, what was measured before, nor what is lent."
)


def place_text(form: Any, *, is_explained: bool) -> str:
    """What was chosen and why, or why nothing was.

    Args:
        form: The answer as JSON has it.
        is_explained: Whether other sets and other GPUs are told of too; where nothing was chosen
            they are in any case.
    """
    lines = list(_chosen(form)) if form["is_met"] else ["Nothing fits."]
    lines += ["", "Why", *(line for each in form["reasons"] for line in _bullet(each))]
    if not form["is_exact"]:
        lines += _bullet("There are too many sets to look at all: a better one may exist.")
    if is_explained and form["is_met"]:
        lines += ["", "Other sets", *_rejected(form["rejected"])]
    if is_explained or not form["is_met"]:
        lines += ["", "Cannot be given", *_occupied(form["occupied"])]
    return "\n".join([*lines, "", *wrapped(_source(form), hanging=0)])


def export_text(form: Any) -> str:
    """The choice for a shell: `CUDA_VISIBLE_DEVICES`, and how to bind to CPUs and memory."""
    nodes = _nodes(form)
    bind = f"numactl --cpunodebind={nodes} --membind={nodes}" if nodes else ""
    values = {
        "CUDA_VISIBLE_DEVICES": form["cuda_visible_devices"],
        "RIGHTSIZER_CPUS": form["cpus"] or "",
        "RIGHTSIZER_MEMORY_NODES": nodes,
        "RIGHTSIZER_BIND": bind,
    }
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())


def refused_export_text() -> str:
    """What lets a shell see no GPU at all, and ends what it was about to start."""
    return "export CUDA_VISIBLE_DEVICES=''\nfalse"


def _chosen(form: Any) -> Iterator[str]:
    yield f"CUDA_VISIBLE_DEVICES={form['cuda_visible_devices']}"
    yield f"CPUs: {form['cpus'] or 'nobody tells which are near'}"
    yield f"Memory node: {_nodes(form) or 'nobody tells which is near'}"
    yield ""
    rows = [
        [
            seat["label"],
            seat["name"] or _NOTHING,
            _NOTHING if seat["numa_node"] is None else str(seat["numa_node"]),
            _size(seat["memory_left_bytes"]),
            "yes" if seat["is_shared"] else "no",
            seat["uuid"],
        ]
        for seat in form["seats"]
    ]
    header = ["", "model", "NUMA", "memory left", "shared", "uuid"]
    yield from aligned(header, rows, left=header)


def _nodes(form: Any) -> str:
    """The NUMA nodes, if that of each seat is known; to bind by some would keep the rest far."""
    if any(seat["numa_node"] is None for seat in form["seats"]):
        return ""
    return ",".join(map(str, form["numa_nodes"]))


def _rejected(rejected: Sequence[Any]) -> Iterator[str]:
    if not rejected:
        yield "  There is no other that is different."
    for each in rejected:
        labels = ", ".join(seat["label"] for seat in each["seats"])
        yield from _bullet(f"{labels}: {each['why']}")


def _occupied(occupied: Sequence[Any]) -> Iterator[str]:
    if not occupied:
        yield "  Nothing: all can."
    for each in occupied:
        yield from _bullet(f"{each['label']}: {each['why']}")


def _bullet(text: str) -> list[str]:
    return wrapped(text, indent=2)


def _size(amount_bytes: float | None) -> str:
    return _NOTHING if amount_bytes is None else f"{amount_bytes / _GIBIBYTE:.1f} GiB"


def _source(form: Any) -> str:
    if form["source"] == "agent":
        watched = format_duration(form["watched_seconds"])
        return f"By the agent of this node, which has watched for {watched}."
    return _LOOK
