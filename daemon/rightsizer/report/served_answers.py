"""What `rightsizer served` says of loads, asked of this program in a process of its own."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rightsizer.io.codec import convert, decode, encode
from rightsizer.io.program import own_answer
from rightsizer.model.values import ServedLoad, ServedNeed

_LONGEST_SECONDS: Final = 600.0
"""Source: measured, .2 s an engine and three kinds of GPU on one core, so a thousand engines."""


def served_answers(
    loads: Sequence[ServedLoad],
    config_file: Path | None,
    boards: Sequence[str] = (),
    unlearned: Callable[[str], object] | None = None,
) -> list[dict[str, Any]]:
    """Return the answers about some loads, as in the JSON of the command; none without a load.

    The planner's memory is its process's, and with it given back. By default all kinds of GPU
    with a price are considered. With `unlearned` what the loads teach is kept; where it cannot be,
    that is told why.

    Raises:
        RightsizerError: the command failed, or took too long.
    """
    if not loads:
        return []
    words = ["served", "--json"]
    words += [] if config_file is None else [f"--config.file={config_file}"]
    words += [f"--boards={','.join(boards)}"] if boards else []
    words += ["--learn"] if unlearned else []
    words += ["/dev/stdin"]
    answer = own_answer(words, _LONGEST_SECONDS, unlearned, encode(list(loads)).decode())
    return decode(answer, list[dict[str, Any]])


def served_needs(answers: Iterable[Mapping[str, Any]]) -> tuple[ServedNeed, ...]:
    """Return what each engine would need, of those whose GPUs are known."""
    needs = []
    for answer in answers:
        load = convert(answer["load"], ServedLoad)
        short = answer.get("needs_short", "unknown")
        needed = answer.get("needs") or f"{short}: {answer['error']}"
        needs.append(ServedNeed(load.devices, load.title, short, needed, answer.get("saves", "")))
    return tuple(need for need in needs if need.devices)
