"""What is done on advice, and within which bounds; nothing unless an operator names it."""

from dataclasses import dataclass, field

from rightsizer.advice.action_settings import ActingLimits, ActionTerms
from rightsizer.domain.settings import setting
from rightsizer.edge.http import checked_url
from rightsizer.runtime.actions.placeholders import PLACEHOLDERS, placeholder_in_script
from rightsizer.runtime.placeholders import unknown_placeholders
from rightsizer.runtime.policy import Match

__all__ = ["ActingSettings", "ActionSettings", "ActionWebhookSettings"]


@dataclass(frozen=True, slots=True)
class ActionWebhookSettings:
    """Whoever takes JSON over HTTP and does it.

    Raises:
        ValueError: the address is none that a client can use.
    """

    url: str = setting("", help="Where to post to.")
    token_file: str = setting("", help="A file with a bearer token; empty for none.")
    ca_file: str = setting(
        "", help="A PEM file with the authorities to trust; empty for the system's own."
    )

    def __post_init__(self) -> None:
        """Refuse what can never be posted to."""
        if self.url:
            checked_url(self.url)


@dataclass(frozen=True, slots=True)
class ActionSettings(ActionTerms):
    """One action: on which advice, what, and within which bounds.

    Raises:
        ValueError: there is nothing to do, or two things, or a word in braces means nothing.
    """

    match: Match = field(default_factory=Match)
    command: tuple[str, ...] = setting(
        (),
        help="The program and its arguments, one word each, without a shell; arguments may hold "
        + ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        + ".",
    )
    webhook: ActionWebhookSettings = field(default_factory=ActionWebhookSettings)
    timeout: float = setting(
        60.0,
        help="How long it may take, before a program is ended with all that it has started; an "
        "answer over HTTP is waited for no longer than a minute.",
        unit="seconds",
        minimum=1.0,
        maximum=3600.0,
    )

    def __post_init__(self) -> None:
        """Refuse what could never be done, and what is two things."""
        # A dataclass with slots is another class than the one that `super()` knows.
        ActionTerms.__post_init__(self)
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
        """How it is done, in a word."""
        return "command" if self.command else "webhook"


@dataclass(frozen=True, slots=True)
class ActingSettings:
    """What all actions of this machine share."""

    interval: float = setting(
        30.0,
        help="Time between two looks at what is to be done; a claim waits as long at most.",
        unit="seconds",
        minimum=1.0,
        maximum=3600.0,
    )
    audit_file: str = setting(
        "",
        help="A file that gains a line of JSON for each thing that was done, would have been, or "
        "was refused, as a whole path; empty for the history alone.",
    )
    approvers: tuple[str, ...] = setting(
        (),
        help="Users whose claim approves an action, beside root and the agent's own: names, as the "
        "kernel tells over the local socket, or what is proved over HTTP, as `user:ana` or "
        "`certificate:ana`.",
    )
    limits: ActingLimits = field(default_factory=ActingLimits)

    def __post_init__(self) -> None:
        """Refuse a file that depends on where the agent was started, and users without a name."""
        if self.audit_file and not self.audit_file.startswith("/"):
            raise ValueError(f"audit_file: '{self.audit_file}' is no whole path; begin it with /")
        if "" in self.approvers:
            raise ValueError("approvers: a name is empty; leave it out, or write it like 'ana'")
