"""Faults in scenario files: an invalid fault gets an error with its remedy."""

from pathlib import Path

import pytest

from rightsizer.model.errors import ScenarioError
from simulated_trouble import scenario_with


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("{kind: los, gpus: [0], after: 1}",
         "trouble.yaml:16:6: faults[1].kind: must be one of hang, answer"),
        ("{kind: loss, after: 1}", "befalls nothing; add 'gpus: [0]'"),
        ("{kind: loss, gpus: [9], after: 1}", "'9' is not a GPU of this node; it has 0 to 3"),
        ("{kind: loss, gpus: [0]}", "needs either 'at', a time of every day, or 'after'"),
        ("{kind: loss, gpus: [0], after: soon}", "'soon' is not a duration; write it like '10m'"),
        ("{kind: loss, gpus: [0], after: 1, for: 0}", "must be at least 1 (got 0)"),
        ("{kind: loss, gpus: [0], at: '10:00', every: 5m}", "'at' comes every day"),
        ("{kind: loss, gpus: [0], after: 1, every: 9, for: 20}", "make 'for' shorter than 'every'"),
        ("{kind: loss, gpus: [0], after: 1, until: 5}", "unknown key; known keys: gpus, at"),
        ("{kind: unload, after: 1}", "add 'for: 20s'"),
        ("{kind: unload, gpus: [0], after: 1, for: 5}", "leave 'gpus' out"),
        ("{kind: hang, gpus: [0], after: 1, function: power}", "'power' is not NVML's"),
        ("{kind: answer, gpus: [0], after: 1, code: oops}", "must be one of uninitialized"),
        ("{kind: mig, gpus: [0, 1], after: 1, profiles: []}", "is of one GPU"),
        ("{kind: mig, gpus: [3], after: 1, profiles: [1g.5gb]}", "known: none: it has no MIG"),
        ("{kind: throttle, gpus: [0], after: 1, reason: heat}", "(got 'heat')"),
        ("{kind: throttle, gpus: [0], after: 1, reason: power, power_limit_watts: 5}",
         "must be between 210 and 700"),
        ("{kind: nvlink, gpus: [0], after: 1}", "is on no link; add 'links: [0]'"),
        ("{kind: nvlink, gpus: [0], after: 1, links: [x]}", "links[0]: must be a whole number"),
        ("{kind: ecc, gpus: [0], after: 1, pending: 1}", "must be true or false (got 1)"),
        ("{kind: xid, gpus: [0], after: 1}", "code: is required (whole number)"),
    ],
)  # fmt: skip
def test_a_fault_that_makes_no_sense_is_named_with_its_remedy(
    tmp_path: Path, fault: str, message: str
) -> None:
    """The message starts with file, line and column."""
    with pytest.raises(ScenarioError) as caught:
        scenario_with(tmp_path, fault)
    assert str(caught.value).startswith("trouble.yaml:16:")
    assert message in str(caught.value)
