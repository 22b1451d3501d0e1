"""What a reference and an explanation say of a setting."""

from dataclasses import dataclass

from rightsizer.config.settings_help import settings_help
from rightsizer.model.settings import setting


@dataclass(frozen=True, slots=True)
class Described:
    """Settings that the file beside this module tells of."""

    gap_seconds: float = setting(1.0)
    name: str = setting("")
    shared_ratio: float = setting(0.5, help="How much.", source="assumed")


@dataclass(frozen=True, slots=True)
class DescribedAgain(Described):
    """The same, of which one is told otherwise."""

    name: str = setting("other")


def test_file_describes_settings() -> None:
    """What a class does not say, its base does; a field's own words come first."""
    gap = "How long it may be away; longer than a line of the file has room for."
    assert settings_help(Described) == {
        "gap_seconds": (gap, "a paper: the one on gaps"),
        "name": ("What it is called.", ""),
        "shared_ratio": ("How much.", "assumed"),
    }
    assert settings_help(DescribedAgain)["name"] == ("What else it is called.", "")
    assert settings_help(DescribedAgain)["gap_seconds"][0] == gap
