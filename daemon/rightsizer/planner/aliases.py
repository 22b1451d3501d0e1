"""Aliases in plans: names of other tools, hosts and clouds for our own."""

from rightsizer.model.table import table_rows


def aliases_of(subject: str) -> dict[str, str]:
    """Return our name for each alias of a key, a format, a cloud or a framework."""
    rows = table_rows(__file__, "aliases.csv")
    return {row["alias"]: row["name"] for row in rows if row["subject"] == subject}
