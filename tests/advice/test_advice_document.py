"""docs/advice.md: examples load, commands exist, states and factors are complete."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from cli_reference import all_commands
from rightsizer.agent.settings import Settings
from rightsizer.config.loader import load
from rightsizer.model.advice import AdviceEventKind, AdviceState
from rightsizer.model.finding import Reason, Severity
from rightsizer.model.metric import METRICS
from rightsizer.model.workload import Allocator, WorkloadClass
from rightsizer.notify.webhook.settings import WebhookFormat

PAGE: Final = (Path(__file__).parents[2] / "docs" / "advice.md").read_text(encoding="utf-8")
BLOCKS: Final = re.findall(r"```(\w*)\n(.*?)```", PAGE, flags=re.DOTALL)
YAML: Final = [text for language, text in BLOCKS if language == "yaml"]


@pytest.mark.parametrize("text", YAML, ids=lambda text: text.split(":")[0])
def test_every_example_is_a_configuration(text: str) -> None:
    """It loads unchanged, and changes something."""
    assert load(Settings, text, "docs/advice.md") != Settings()


def test_the_policies_say_what_the_page_says_of_them() -> None:
    """The first match decides; an exclusion is for a reason and until a day."""
    (text,) = (text for text in YAML if "policies:" in text)
    settings = load(Settings, text, "docs/advice.md")
    chat, nightly, *others = settings.policies_here

    assert (chat.class_, chat.allocator) == (WorkloadClass.SERVING, Allocator.GROWING)
    assert chat.thresholds.idle.serving_seconds == 4 * 3600.0
    assert nightly.ignore[0].reasons == (Reason.IDLE_HELD, Reason.IDLE_EMPTY)
    assert [each.class_ for each in others] == [WorkloadClass.STANDBY, WorkloadClass.SERVING]


def test_every_command_is_one_of_ours() -> None:
    """The lines of a shell block can be typed."""
    shell = "\n".join(text for language, text in BLOCKS if language == "sh")
    known = {command.name for command in all_commands()}

    assert set(re.findall(r"(?m)^rightsizer (\S+)", shell)) >= {"advise", "explain", "dismiss"}
    assert set(re.findall(r"rightsizer ([a-z][\w-]+)", PAGE)) <= known


def test_every_metric_is_exported() -> None:
    """Names of metrics are whole names."""
    # Without the part before a wildcard, as in `rightsizer_webhook*`.
    named = set(re.findall(r"\brightsizer_\w+\b(?!\*)", PAGE))

    assert named - METRICS.keys() == set()


def test_the_shortened_bodies_are_json() -> None:
    """A receiver can be tested with them."""
    change, alert = (json.loads(text) for language, text in BLOCKS if language == "json")

    assert change["advice"]["id"] == alert["labels"]["advice"]


def test_no_word_goes_untold() -> None:
    """States, severities, changes announced as a point, formats: all are on the page."""
    regions = {AdviceEventKind.OPENED, AdviceEventKind.CLOSED, AdviceEventKind.DECIDED}
    points = set(AdviceEventKind) - regions
    words = {*AdviceState, *Severity, *points, *WebhookFormat}
    documented = set(re.findall(r"`([\w-]+)`", PAGE))

    assert {str(word) for word in words} - documented == set()
