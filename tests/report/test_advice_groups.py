"""Groups of recommendations: alternatives below the best one, similar ones folded."""

from typing import Final

from msgspec.structs import replace

from rightsizer.model.finding import Action, FindingKind
from rightsizer.report.advice_groups import ALIKE_FROM, GroupKey, advice_groups, to_do

IDLE: Final = GroupKey("a", None, FindingKind.IDLE, None, Action.RELEASE, ("IdleEmpty",))


def ids_of(*keys: GroupKey) -> list[list[str]]:
    """Groups by the IDs of their units."""
    groups = advice_groups(keys, lambda key: key)
    return [[" or ".join(key.id for key in unit) for unit in group] for group in groups]


def test_alternatives_stand_below_the_best_one() -> None:
    """This holds for any recommendations in between."""
    size = replace(IDLE, id="size", kind=FindingKind.OVERPROVISIONED, exclusive_group="g")
    share = replace(size, id="share")
    other = replace(size, id="other", exclusive_group=None)
    assert ids_of(size, other, share) == [["size or share"], ["other"]]


def test_alternatives_are_not_counted() -> None:
    """The first of each group stands for it, and what excludes nothing for itself."""
    pieces = [("g", "size"), (None, "other"), ("g", "share")]
    assert to_do(pieces, lambda piece: piece) == [("g", "size"), (None, "other")]


def test_idle_gpus_are_folded_with_their_alternatives() -> None:
    """This applies from three on; excluded alternatives stay with theirs."""
    idle = [replace(IDLE, id=f"i{number}") for number in range(ALIKE_FROM)]
    idle[1] = replace(idle[1], exclusive_group="g")
    share = replace(idle[1], id="share", kind=FindingKind.OVERPROVISIONED, action=Action.SHARE_MIG)
    assert ids_of(*idle, share) == [["i0", "i1 or share", "i2"]]
    assert ids_of(*idle[1:], share) == [["i1 or share"], ["i2"]]


def test_held_gpus_and_other_kinds_are_never_folded() -> None:
    """Readers must see the job, or the broken link."""
    held = [replace(IDLE, id=f"h{number}", workload="slurm/7") for number in range(4)]
    faults = [replace(IDLE, id=f"f{number}", kind=FindingKind.DEGRADED) for number in range(4)]
    assert len(ids_of(*held, *faults)) == 8
