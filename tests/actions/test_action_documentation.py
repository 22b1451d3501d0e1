"""The first example of the page on actions works as documented."""

import re
from pathlib import Path
from typing import Final

from msgspec.structs import replace

import rightsizer
from action_node import ActionNode
from rightsizer.actions.feature import actions_here
from rightsizer.actions.repository import ActionOutcome, ActionRepository, ActionVerdict
from rightsizer.actions.settings import ActionSettings
from rightsizer.advice.storage import Storage
from rightsizer.agent.settings import Settings
from rightsizer.config.loader import load
from rightsizer.model.finding import Risk
from rightsizer.model.workload import Workload, WorkloadKind

FLAGS: Final = re.MULTILINE | re.DOTALL
DOCS: Final = Path(__file__).parents[2] / "docs"
SCENARIO: Final = Path(rightsizer.__file__).parent / "simulator/scenarios/eight-gpu-node.yaml"
NOTEBOOK: Final = Workload(
    "kubernetes/notebooks/notebook-ana",
    WorkloadKind.KUBERNETES,
    "notebook-ana",
    namespace="notebooks",
    unproven="",
)
"""The notebook of the simulated node."""


def _example() -> ActionSettings:
    """The first YAML block of the page, as loaded by an agent."""
    block = re.search(r"^```yaml\n(.*?)^```", (DOCS / "actions.md").read_text("utf-8"), FLAGS)
    assert block is not None
    settings = load(Settings, block[1], "actions.md")
    (found,) = actions_here(settings.actions, settings.node.pool)
    return found


def _advised() -> tuple[float, Risk]:
    """Confidence and risk of releasing an idle GPU, as in the tutorial."""
    shown = re.search(
        r"^  Release the GPU\b.*?confidence >?(\d+)%, risk of the change ([a-z ]+)$",
        (DOCS / "tutorial.md").read_text("utf-8"),
        FLAGS,
    )
    assert shown is not None
    return int(shown[1]) / 100, Risk(shown[2].title().replace(" ", ""))


def test_the_example_would_release_the_idle_notebook() -> None:
    """Only its dry run prevents it; its placeholders can be filled in."""
    sure, risk = _advised()
    assert f"namespace: {NOTEBOOK.namespace}\n" in SCENARIO.read_text("utf-8")
    node = ActionNode(ActionRepository(Storage("").database), [NOTEBOOK])
    controller = node.controller(_example())
    node.advise(confidence=sure, risk=risk)
    node.run(controller)

    assert [proposal.verdict for proposal in controller.proposals] == [ActionVerdict.DRY_RUN]
    assert node.outcomes == [ActionOutcome.DRY_RUN]


def test_with_less_risk_the_example_would_be_refused() -> None:
    """The page shows the default."""
    sure, risk = _advised()
    node = ActionNode(ActionRepository(Storage("").database), [NOTEBOOK])
    controller = node.controller(replace(_example(), maximum_risk=Risk.VERY_LOW))
    node.advise(confidence=sure, risk=risk)
    node.run(controller)

    assert [proposal.verdict for proposal in controller.proposals] == [ActionVerdict.RISK]
    assert _example().maximum_risk is (
        ActionSettings(name="x", reasons=_example().reasons, command=("true",)).maximum_risk
    )
