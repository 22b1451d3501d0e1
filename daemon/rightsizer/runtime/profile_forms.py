"""The answer of `rightsizer profile` in JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rightsizer.domain.errors import UsageError
from rightsizer.publish.json_form import finding_form
from rightsizer.publish.profile_form import profile_form
from rightsizer.runtime.profile_answer import ProfiledWorkload
from rightsizer.runtime.profile_change import changes

__all__ = ["answer_form"]


def answer_form(
    found: Sequence[ProfiledWorkload], against: Sequence[ProfiledWorkload] = ()
) -> dict[str, Any]:
    """Every workload, and what became of it since an earlier profile.

    Raises:
        UsageError: there are not as many earlier workloads as there are later ones.
    """
    if against and len(against) != len(found):
        raise UsageError(
            f"--against: {len(against)} workloads against {len(found)}; name one earlier profile "
            "for each, in the same order"
        )
    earlier = against or (None,) * len(found)
    return {
        "workloads": [_workload(each, before) for each, before in zip(found, earlier, strict=True)]
    }


def _workload(found: ProfiledWorkload, before: ProfiledWorkload | None) -> dict[str, Any]:
    form: dict[str, Any] = {
        "workload": found.name,
        "profiles": [profile_form(each) for each in found.profiles],
        "findings": [finding_form(each) for each in found.findings],
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
