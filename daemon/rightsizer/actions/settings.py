"""Settings of actions and placeholders in their arguments; no action runs unless named."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.advice.policy import PolicyMatch
from rightsizer.config.spelling import filled, names_in, unknown_placeholders
from rightsizer.io.http_settings import ServerSettings
from rightsizer.model.values import CONSTANT, Reason, Risk, Spec

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?")
_LONGEST_NAME: Final = 40
PLACEHOLDERS: Final[Mapping[str, str]] = {
    "id": "the recommendation's id",
    "reason": "its first reason",
    "workload": "the workload's name",
    "namespace": "the workload's namespace",
    "devices": "the uuids of its GPUs, separated by commas",
    "action": "what is advised, like scale_to_zero",
    "target": "the target of the first option: a board, a MIG profile or a count",
}
_TAME: Final = re.compile(r"[A-Za-z0-9._:/@,+-]+")
"""Characters without special meaning in a shell, in case a program passes words on to one."""
_SHELLS: Final = frozenset(
    {"sh", "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "tcsh", "zsh"}
)
_RUNS_TEXT: Final = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_LONGEST: Final = 1024
_ABOVE: Final = frozenset({".", ".."})
"""Path components that leave a folder."""


class ActionMode(StrEnum):
    """Who approves an action."""

    DRY_RUN = "dry_run"
    """Nobody: only reports what would be done."""
    APPROVE = "approve"
    """A user, by claiming the advice."""
    AUTOMATIC = "automatic"
    """The agent, within the limits."""


class ActionLimits(Struct, frozen=True):
    """Limits for all actions of a machine together, and suspension after failures.

    Attributes:
        pause_seconds: Minimum time between actions of any kind.
        at_most_per_day: Maximum actions of all kinds in any 24 hours.
        suspended_above_ratio: Share of failures among an action's results above which it is
            suspended.
            Source: more than one of three
        minimum_results: Minimum results of an action for it to be suspended.
        results_within_seconds: How long a result counts; a suspension ends once its failures are
            older.
            Source: as long as the history
    """

    pause_seconds: Annotated[float, Spec(within=(0.0, 86400.0))] = 300.0
    at_most_per_day: Annotated[int, Spec(within=(1, 1000))] = 4
    suspended_above_ratio: float = 0.34
    minimum_results: Annotated[int, Spec(within=(1, 100)), CONSTANT] = 2
    results_within_seconds: Annotated[float, Spec(within=(86400.0, 366 * 86400.0)), CONSTANT] = (
        30 * 86400.0
    )


def arguments(words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Substitute placeholders; each word remains one word, regardless of its value.

    Raises:
        ValueError: a value is empty, too long, or unsafe as an argument.
    """
    return tuple(_filled(word, values) for word in words)


def placeholder_in_script(words: Sequence[str]) -> str | None:
    """First placeholder in text that a shell among the words would run, or `None`."""
    names = [word.rpartition("/")[2] for word in words]
    begin = next((at for at, name in enumerate(names) if name in _SHELLS), len(words))
    behind = list(words[begin + 1 :])
    option = next((at for at, word in enumerate(behind) if _RUNS_TEXT.fullmatch(word)), len(behind))
    # Further options may precede the text after -c.
    text = next((word for word in behind[option + 1 :] if word[:1] not in ("-", "+")), "")
    return next(iter(names_in(text)), None)


def _filled(word: str, values: Mapping[str, str]) -> str:
    for name in names_in(word):
        _check(name, values[name])
    (text,) = filled((word,), values)
    if text.startswith("-") and not word.startswith("-"):
        raise ValueError(f"'{word}' would be an option: what it stands for begins with -")
    return text


def _check(name: str, value: str) -> None:
    if not value:
        raise ValueError(f"{{{name}}} stands for nothing here")
    if len(value) > _LONGEST:
        raise ValueError(f"{{{name}}} stands for more than {_LONGEST} characters")
    if not _TAME.fullmatch(value):
        raise ValueError(f"{{{name}}} stands for characters beside letters, digits and ._:/@,+-")
    if not _ABOVE.isdisjoint(value.split("/")):
        raise ValueError(f"{{{name}}} stands for a path that leads elsewhere")


class ActionWebhookSettings(ServerSettings, frozen=True):
    """Receiver of JSON over HTTP that performs the action.

    Attributes:
        ca_file: PEM file with the certificate authorities to trust; empty for the system's.
    """

    ca_file: str = ""


class ActionSettings(Struct, frozen=True):
    """One action: its recommendations, command or webhook, and limits.

    Raises:
        ValueError: it has no name that a metric can bear, is for no reason, has nothing to do, or
            two things, or a word in braces means nothing.

    Attributes:
        name: Name in log, metrics and audit log: lower-case letters, digits, - and _.
        reasons: Reasons of recommendations that it acts on; at least one.
        mode: `dry_run` reports what would be done, `approve` waits for `rightsizer claim`,
            `automatic` needs no approval.
        minimum_confidence_ratio: Minimum confidence of a recommendation to act on.
            Source: evaluation/RESULTS.md, advice on simulated nodes: seldom wrong above it
        maximum_risk: Maximum risk of a recommendation to act on; Unknown is above High.
        cool_down_seconds: Time after an action without another on the same workload.
            Source: a day shows the effect at every hour
        at_most_per_day: Maximum runs of this action in any 24 hours.
        at_most_per_workload_per_day: Maximum actions of any kind on one workload in any 24 hours.
        at_most_share_of_gpus: Maximum share of the machine's GPUs affected by all actions in 24
            hours; one GPU is always allowed.
        timeout: Time limit after which a program and its processes are killed; over HTTP at most a
            minute.
    """

    name: str = ""
    reasons: tuple[Reason, ...] = ()
    mode: ActionMode = ActionMode.DRY_RUN
    minimum_confidence_ratio: float = 0.9
    maximum_risk: Risk = Risk.LOW
    cool_down_seconds: Annotated[float, Spec(within=(60.0, 366 * 86400.0))] = 86400.0
    at_most_per_day: Annotated[int, Spec(within=(1, 1000))] = 1
    at_most_per_workload_per_day: Annotated[int, Spec(within=(1, 100))] = 1
    at_most_share_of_gpus: Annotated[float, Spec(unit="ratio", within=(0.0, 1.0))] = 0.25
    match: PolicyMatch = PolicyMatch()
    command: Annotated[
        tuple[str, ...],
        Spec(
            help="Program and arguments, one item each, without a shell; may contain "
            + ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            + "."
        ),
    ] = ()
    webhook: ActionWebhookSettings = ActionWebhookSettings()
    timeout: Annotated[float, Spec(unit="seconds", within=(1.0, 3600.0))] = 60.0

    def __post_init__(self) -> None:
        if len(self.name) > _LONGEST_NAME or not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name: '{self.name}' is no name of small letters, digits, - and _, of "
                f"{_LONGEST_NAME} at most; write it like 'scale-to-zero'"
            )
        if not self.reasons:
            raise ValueError("reasons: is empty; name each reason that it is done for")
        if bool(self.command) == bool(self.webhook.url):
            trouble = "both are set" if self.command else "neither is set"
            raise ValueError(f"command, webhook.url: {trouble}; name one of them")
        if unknown := unknown_placeholders(self.command, PLACEHOLDERS):
            raise ValueError(
                f"command: there is no {{{unknown[0]}}}; choose from "
                + ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            )
        if self.command and (not self.command[0] or "{" in self.command[0]):
            raise ValueError("command: its first word names the program, without braces")
        if (name := placeholder_in_script(self.command)) is not None:
            raise ValueError(
                f"command: a shell would run what {{{name}}} stands for; give it behind the text, "
                f"as in [sh, -c, 'scale \"$1\"', sh, '{{{name}}}']"
            )

    @property
    def way(self) -> str:
        """`command` or `webhook`."""
        return "command" if self.command else "webhook"


class ActionsSettings(Struct, frozen=True):
    """Settings common to all actions of this machine.

    Attributes:
        interval: Time between passes; the longest a claim waits.
        audit_file: Absolute path of a file with a JSON line per action, done or not; empty for the
            history alone.
        approvers: Users whose claim approves an action, besides root and the agent's: local names,
            or `user:ana`, `certificate:ana` over HTTP.
    """

    interval: Annotated[float, Spec(unit="seconds", within=(1.0, 3600.0))] = 30.0
    audit_file: str = ""
    approvers: tuple[str, ...] = ()
    limits: ActionLimits = ActionLimits()

    def __post_init__(self) -> None:
        if self.audit_file and not self.audit_file.startswith("/"):
            raise ValueError(f"audit_file: '{self.audit_file}' is no whole path; begin it with /")
        if "" in self.approvers:
            raise ValueError("approvers: a name is empty; leave it out, or write it like 'ana'")
