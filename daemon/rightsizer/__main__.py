"""`python -m rightsizer` is the command `rightsizer`."""

from rightsizer.cli.main import entry_point

entry_point()
