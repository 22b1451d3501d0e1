"""Rows under a header, in columns."""

from collections.abc import Collection, Sequence


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[str]
) -> list[str]:
    """A line each, the header first.

    Args:
        header: Names of the columns.
        rows: As many cells each.
        left: Columns that begin at their left edge; numbers end at their right one.
    """
    every = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if name in left else cell.rjust(width)
            for cell, width, name in zip(row, widths, header, strict=True)
        ).rstrip()
        for row in every
    ]
