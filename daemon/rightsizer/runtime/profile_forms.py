"""The answer of `rightsizer profile` in JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rightsizer.advice.profile_join import Join
from rightsizer.domain.errors import UsageError
from rightsizer.profiles.read_files import BrokenFile
from rightsizer.publish.json_form import finding_form
from rightsizer.publish.profile_form import profile_form
from rightsizer.runtime.profile_change import changes
from rightsizer.runtime.profile_join_form import join_form
from rightsizer.runtime.profiled_workload import ProfiledWorkload

__all__ = ["answer_form"]


def answer_form(
    found: Sequence[ProfiledWorkload],
    against: Sequence[ProfiledWorkload] = (),
    broken: Sequence[BrokenFile] = (),
    joins: Sequence[Join] = (),
) -> dict[str, Any]:
    """Every workload, and what became of it since an earlier profile.

    Args:
        found: What was read and judged.
        against: Earlier ones of the same workloads, in the same order.
        broken: Files of folders that could not be read.
        joins: Each workload beside a history; none where none was looked at.

    Raises:
        UsageError: there are not as many earlier workloads as there are later ones.
    """
    if against and len(against) != len(found):
        raise UsageError(
            f"--against: {len(against)} workloads against {len(found)}; name one earlier profile "
            "for each, in the same order"
        )
    nobody = (None,) * len(found)
    earlier = against or nobody
    return {
        "workloads": [
            _workload(each, before, joined)
            for each, before, joined in zip(found, earlier, joins or nobody, strict=True)
        ],
        "broken": [asdict(each) for each in broken],
    }


def _workload(
    found: ProfiledWorkload, before: ProfiledWorkload | None, joined: Join | None
) -> dict[str, Any]:
    form: dict[str, Any] = {
        "workload": found.name,
        "profiles": [profile_form(each) for each in found.profiles],
        "findings": [finding_form(each) for each in found.findings],
        "telemetry": None if joined is None else join_form(joined),
        "against": None,
    }
    if before is not None:
        form["against"] = {
            "workload": before.name,
            "changes": [
                {**asdict(each), "ratio": each.ratio}
                for each in changes(before.profiles, found.profiles)
            ],
        }
    return form
