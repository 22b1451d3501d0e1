"""The tree of settings: every rule in it, and the documents that are made from it."""

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

Made from the settings themselves by `make golden`; `config/rightsizer.yaml` is the same as a file
to start from, and `config/rightsizer.schema.json` tells an editor.

## Where a value comes from

A flag of the command line goes before the environment, the environment before the file, the file
before the defaults. Every key that is not in a list has a variable: `RIGHTSIZER_`, then the key
in capitals with two underscores for each dot.

```
RIGHTSIZER_LOG__LEVEL=debug
RIGHTSIZER_RECOMMENDER__INTERVAL=5m
RIGHTSIZER_WEB__LISTEN_ADDRESSES="['127.0.0.1:19400']"
RIGHTSIZER_POLICIES="[{match: {namespace: 'serving-*'}, class: serving}]"
```

Text stands as it is; everything else is written as the file would have it, lists as YAML or JSON,
and a list replaces the file's. Values are checked as in the file, and a fault names the variable.
One that has two underscores and no key of its own is refused; what Kubernetes adds for a service
of the same name, like `RIGHTSIZER_PORT`, is passed over.

## Before it starts

`rightsizer check-config FILE` finds every fault of the file and of the environment at once, and
then looks at what they name: the web configuration with its certificates, the files of boards and
prices, a scenario, tokens, addresses and authorities in files of their own. It exits with 78
where anything is wrong, so that it can stand before the agent (`ExecStartPre=`, an init
container). Run it as the agent's own user, for whom the files have to be readable.

## While it runs

`SIGHUP` (`systemctl reload rightsizer`), and `POST /-/reload` where `web.enable_lifecycle` is on,
read file, environment, flags and all that they name again. The column *takes effect* says what
follows: `reload` is in force from the next sample, scrape or run of the recommender on; `restart`
stays as it was, and the log names the keys (`restart_needed`). What `web.config_file` holds is
read again at every change, and tokens each time they are used.

A reload that finds a fault anywhere changes nothing: the log has every fault with its place
(`reload_failed`), `rightsizer_config_last_reload_successful` is 0 until one succeeds, and
`/-/reload` answers with the faults. Boards and prices are read again for advice; what the driver
is compared with, and what a scenario is made of, is read when the agent starts.

## Keys

"""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_has_its_settings_under_its_name(rule: Rule[Any]) -> None:
    """A rule that is added without them would run with its defaults, whatever the file says."""
    assert isinstance(getattr(RuleTree(), rule.name), type(rule.settings))
    assert getattr(RuleTree(), rule.name) == rule.settings


def test_no_settings_are_there_for_a_rule_that_is_not() -> None:
    """A key that does nothing is a trap."""
    assert [each.name for each in fields(RuleTree)] == [rule.name for rule in RULES]


def test_the_rules_run_with_what_the_operator_set() -> None:
    """And the order stays."""
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
    """`class` is a word of Python's, not of the file's."""
    text = "policies: [{match: {owner: 'chat-*'}, class: serving, allocator: preallocating}]"

    assert load(Settings, text, "test.yaml").policies == (
        Policy(PolicyMatch(owner="chat-*"), WorkloadClass.SERVING, Allocator.PREALLOCATING),
    )


def test_the_example_is_what_the_settings_say(golden: Golden) -> None:
    """Every key with its default, its bounds and its source."""
    golden(CONFIG / "rightsizer.yaml", example(WholeSettings))


def test_the_example_stands_for_the_defaults() -> None:
    """The one who starts from it starts from where an agent without a file is."""
    assert load_file(WholeSettings, CONFIG / "rightsizer.yaml") == WholeSettings()
    # An agent passes over what is the fleet's.
    assert load_sections(Settings, CONFIG / "rightsizer.yaml") == Settings()


def test_the_schema_is_what_the_settings_say(golden: Golden) -> None:
    """Editors complete and check what the agent does."""
    golden(CONFIG / "rightsizer.schema.json", json.dumps(schema(WholeSettings), indent=1) + "\n")


def test_the_reference_is_what_the_settings_say(golden: Golden) -> None:
    """The documentation cannot fall behind."""
    golden(ROOT / "docs" / "configuration.md", _PREFACE + reference(WholeSettings))


def test_the_names_of_all_sections_are_known_without_their_settings() -> None:
    """A command passes over those that it does not read, and refuses what is none."""
    assert {each.name for each in fields(WholeSettings)} == SECTIONS
