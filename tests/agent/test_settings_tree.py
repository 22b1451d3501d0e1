"""The tree of settings: every rule in it, and the documents generated from it."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest

from rightsizer.advice.policy import Policy, PolicyMatch, RuleTree
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.idle import IdleSettings
from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.service import configured_rules
from rightsizer.agent.settings import Settings
from rightsizer.cli.config import WholeSettings
from rightsizer.config.loader import SECTIONS, load, load_file, load_sections
from rightsizer.model.workload import Allocator, WorkloadClass
from rightsizer.profiler.rules import PROFILE_RULES
from rightsizer.profiler.settings import ProfileRuleTree, ProfileSettings
from settings_documents import example, reference, schema

ROOT: Final = Path(__file__).parent.parent.parent
CONFIG: Final = ROOT / "config"
Golden = Callable[[str | Path, str], None]

_PREFACE: Final = """\
# Configuration

Every setting. `rightsizer config init` writes a starter configuration, `config/rightsizer.yaml` has
every key with its default and where that is from, and `config/rightsizer.schema.json` is the schema
for editors.

## Where a value comes from

Command line, then environment, then file, then default. Every key outside of lists has an
environment variable: `RIGHTSIZER_` and the key in upper case, with two underscores for each dot.

```
RIGHTSIZER_LOG__LEVEL=debug
RIGHTSIZER_RECOMMENDER__INTERVAL=5m
RIGHTSIZER_WEB__LISTEN_ADDRESSES="['127.0.0.1:19400']"
RIGHTSIZER_POLICIES="[{match: {namespace: 'serving-*'}, class: serving}]"
```

Lists and mappings are YAML or JSON and replace the ones in the file. Unknown variables with two
underscores are rejected; a Kubernetes service's variables, such as `RIGHTSIZER_PORT`, are ignored.

## How do I check it?

`rightsizer check-config FILE` lists all errors in the file, the environment and the files that they
refer to (web configuration, certificates, boards, prices, scenario, credentials), and exits with 78
on any: use it in `ExecStartPre=` or an init container, as the agent's user.

## Reload

`SIGHUP` (`systemctl reload rightsizer`), or `POST /-/reload` with `web.enable_lifecycle`, applies
keys marked *reload*, and sections so marked with those below, from the next sample, scrape or run.
The others need a restart; a reload logs those that changed (`restart_needed`). `web.config_file`
and tokens are read again whenever they change. Boards and prices are reloaded for recommendations
only.

A reload with any error changes nothing: the error is logged (`reload_failed`) and returned by
`/-/reload`, and `rightsizer_config_last_reload_successful` is 0.

## Keys

After each key: default and bounds. Without bounds, a `_ratio` is from 0 to 1, other numbers,
durations and sizes at least 0. Durations are written like `90s` or `1h30m`, sizes like `512MiB`.
An empty text means none. [Rules](rules.md) are explained on a page of their own.

"""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_has_its_settings_under_its_name(rule: Rule[Any]) -> None:
    """A rule added without them would run with its defaults, whatever the file says."""
    assert isinstance(getattr(RuleTree(), rule.name), type(rule.settings))
    assert getattr(RuleTree(), rule.name) == rule.settings


def test_no_settings_are_there_for_a_rule_that_is_not() -> None:
    """A key without effect is a trap."""
    assert [each.name for each in fields(RuleTree)] == [rule.name for rule in RULES]


def test_the_rules_run_with_what_the_operator_set() -> None:
    """The order stays."""
    text = "recommender: {rules: {idle: {on_ratio: 0.7, notebook: 30m}}}"
    settings = load(Settings, text, "test.yaml")
    rules = configured_rules(settings)

    assert [rule.name for rule in rules] == [rule.name for rule in RULES]
    assert rules[0].settings == IdleSettings(on_ratio=0.7, notebook_seconds=1800.0)
    assert [rule.settings for rule in rules[1:]] == [rule.settings for rule in RULES[1:]]


def test_rules_over_profiles_run_with_what_the_operator_set() -> None:
    """Each has its settings under its name, and readers their limits."""
    text = """
    profiles:
      limits: {unpacked_maximum: 1GiB}
      time: {adjacent_maximum_nanoseconds: 50}
      rules: {profile_pcie_bound: {on_ratio: 0.2, steady: {kernels_minimum: 10}}}
      valid_for: 7d
    """
    settings = load(Settings, text, "test.yaml").profiles
    changed = {each.name: each.settings for each in settings.judges}

    assert [each.name for each in fields(ProfileRuleTree)] == [rule.name for rule in PROFILE_RULES]
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


def test_the_reference_is_what_the_settings_say(golden: Golden) -> None:
    """The documentation cannot fall behind."""
    golden(ROOT / "docs" / "configuration.md", _PREFACE + reference(WholeSettings))


def test_the_names_of_all_sections_are_known_without_their_settings() -> None:
    """A command skips sections that it does not read, and refuses unknown ones."""
    assert {each.name for each in fields(WholeSettings)} == SECTIONS
