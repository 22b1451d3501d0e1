"""The tree of settings: every rule in it, and the documents generated from it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from documentation_site import on_page_markdown, settings_page
from rightsizer.advice.policy import Policy, PolicyMatch, RuleTree
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.idle import IdleSettings
from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.service import configured_rules
from rightsizer.agent.settings import Settings
from rightsizer.cli.config import WholeSettings
from rightsizer.config.loader import SECTIONS, load, load_file, load_sections
from rightsizer.model.workload import Allocator, WorkloadClass
from rightsizer.profiler.rules.registry import PROFILE_RULES
from rightsizer.profiler.settings import ProfileRuleTree, ProfileSettings
from settings_documents import example, schema

ROOT: Final = Path(__file__).parent.parent.parent
CONFIG: Final = ROOT / "config"
Golden = Callable[[str | Path, str], None]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_has_its_settings_under_its_name(rule: Rule[Any]) -> None:
    """A rule added without them would run with its defaults, whatever the file says."""
    assert isinstance(getattr(RuleTree(), rule.name), type(rule.settings))
    assert getattr(RuleTree(), rule.name) == rule.settings


def test_no_settings_are_there_for_a_rule_that_is_not() -> None:
    """A key without effect is a trap."""
    assert list(RuleTree.__struct_fields__) == [rule.name for rule in RULES]


def test_the_rules_run_with_what_the_operator_set() -> None:
    """The order stays."""
    text = "recommender: {rules: {idle: {on_ratio: 0.7, notebook: 30m}}}"
    settings = load(Settings, text, "test.yaml")
    rules = configured_rules(settings)

    assert [rule.name for rule in rules] == [rule.name for rule in RULES]
    assert rules[0].settings == IdleSettings(on_ratio=0.7, notebook_seconds=1800.0)
    assert [rule.settings for rule in rules[1:]] == [rule.settings for rule in RULES[1:]]


def test_rules_over_profiles_run_with_other_constants(tmp_path: Path) -> None:
    """Each has its own under its name, and readers their limits."""
    constants = tmp_path / "constants.yaml"
    constants.write_text("""
    profiles:
      limits: {unpacked_maximum: 1GiB}
      time: {adjacent_maximum_nanoseconds: 50}
      rules: {profile_pcie_bound: {on_ratio: 0.2, steady: {kernels_minimum: 10}}}
      valid_for: 7d
    """)
    settings = load_sections(Settings, None, constants=constants).profiles
    changed = {judge.name: judge.settings for judge in settings.judges}

    assert list(ProfileRuleTree.__struct_fields__) == [rule.name for rule in PROFILE_RULES]
    assert [rule.settings for rule in PROFILE_RULES] == [
        rule.settings for rule in ProfileSettings().judges
    ]
    assert changed["profile_pcie_bound"].on_ratio == 0.2
    assert changed["profile_pcie_bound"].steady.kernels_minimum == 10
    assert changed["profile_host_bound"] == PROFILE_RULES[1].settings
    assert settings.valid_for == 7 * 86400.0
    assert settings.read_limits.unpacked_maximum_bytes == 2**30
    assert settings.read_limits.time.adjacent_maximum_nanoseconds == 50


def test_a_policy_reads_as_the_design_writes_it() -> None:
    """`class` is a keyword of Python, not of the file."""
    text = "policies: [{match: {owner: 'chat-*'}, class: serving, allocator: preallocating}]"

    assert load(Settings, text, "test.yaml").policies == (
        Policy(PolicyMatch(owner="chat-*"), WorkloadClass.SERVING, Allocator.PREALLOCATING),
    )


def test_the_example_is_what_the_settings_say(golden: Golden) -> None:
    """Every key with its default, its bounds and its source."""
    golden(CONFIG / "rightsizer.yaml", example(WholeSettings))


def test_the_example_stands_for_the_defaults() -> None:
    """A copy of it is equivalent to no file."""
    assert load_file(WholeSettings, CONFIG / "rightsizer.yaml") == WholeSettings()
    # An agent skips the fleet's sections.
    assert load_sections(Settings, CONFIG / "rightsizer.yaml") == Settings()


def test_the_schema_is_what_the_settings_say(golden: Golden) -> None:
    """Editors complete and check what the agent accepts."""
    golden(CONFIG / "rightsizer.schema.json", json.dumps(schema(WholeSettings), indent=1) + "\n")


def test_the_site_has_a_page_of_all_settings() -> None:
    """It is made with the site, and links to the file of all settings lead to it."""
    page = settings_page()

    assert all(
        f"## `{field}" in page for field in Settings.__struct_fields__ if field != "policies"
    )
    assert on_page_markdown("see [all](../config/rightsizer.yaml#L1)") == "see [all](settings.md)"


def test_the_names_of_all_sections_are_known_without_their_settings() -> None:
    """A command skips sections that it does not read, and refuses unknown ones."""
    assert set(WholeSettings.__struct_fields__) == SECTIONS
