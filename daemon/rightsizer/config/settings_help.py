"""What settings do and where their defaults come from, by the files beside their modules."""

import inspect
from configparser import ConfigParser
from functools import cache
from pathlib import Path

from rightsizer.model.frozen import fields


def settings_help(settings: type) -> dict[str, tuple[str, str]]:
    """What each setting of a class does, and where its default comes from, by the field's name.

    What a field says itself comes first, then what the files say of its class, then of its bases.
    """
    found: dict[str, tuple[str, str]] = {}
    for each in reversed(settings.__mro__[:-1]):
        texts = _catalog(Path(inspect.getfile(each)).parent)
        for name, text in texts[each.__name__].items() if each.__name__ in texts else ():
            does, _, source = " ".join(text.split()).partition(" Source: ")
            found[name] = does, source
    for declared in fields(settings):
        does, source = found.get(declared.name, ("", ""))
        own = declared.metadata
        found[declared.name] = own.get("help") or does, own.get("source") or source
    return found


@cache
def _catalog(folder: Path) -> ConfigParser:
    """The texts of a package's settings, by class; none where it has no file of them."""
    catalog = ConfigParser(delimiters=(":",), interpolation=None)
    catalog.read(folder / "settings_help.ini", encoding="utf-8")
    return catalog
