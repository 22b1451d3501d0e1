"""What tests share is listed where it lies."""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from code_trees import tree_of

SUPPORT: Final = Path(__file__).parent / "support"
HEAD: Final = """\
# What tests share

<!-- Generated from the first line of each module; change it there and run `make golden`. -->

Look here before you write a helper.

"""


def test_each_shared_module_has_a_line(golden: Callable[[str | Path, str], None]) -> None:
    """tests/support/README.md is generated from what the modules say; `make golden` writes it."""
    golden(SUPPORT / "README.md", HEAD + "".join(lines()))


def lines() -> Iterator[str]:
    """Item of each module: its path, and the first line of its text."""
    for file in sorted(SUPPORT.rglob("*.py")):
        text = ast.get_docstring(tree_of(file)) or ""
        yield f"- `{file.relative_to(SUPPORT)}`: {text.partition(chr(10))[0]}\n"


def test_files_of_tests_have_names_of_their_own() -> None:
    """Folders of tests are no packages, so that two files of a name cannot be collected."""
    folder = Path(__file__).parent
    names = Counter(path.name for path in folder.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
