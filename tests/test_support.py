"""What tests share is listed where it lies."""

import ast
import os
import subprocess
import sys
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


WORKERS: Final = """\
import pytest
from forked_workers import ForkedWorkers
def pytest_configure(config):
    config.pluginmanager.register(ForkedWorkers(2))
@pytest.fixture(scope="session")
def ended(tmp_path_factory):
    yield
    print("the session's fixture ends", file=open("ended", "a"))
"""
DIES: Final = """\
import os
def test_passes(): pass
def test_dies(): os._exit(3)
def test_comes_after(): pass
"""
LIVES: Final = """\
import sys
def test_fails(tmp_path, ended):
    print("said before")
    assert tmp_path.parent.name.startswith("worker-"), tmp_path
    assert sys.argv == 1
def test_passes(): pass
"""


def test_nothing_that_a_worker_leaves_undone_passes(tmp_path: Path) -> None:
    """A failure brings its output, a process that ends brings the rest of its file, once each."""
    for name, text in {
        "conftest.py": WORKERS,
        "dies/conftest.py": "",
        **{f"dies/test_dies_{number}.py": DIES for number in range(3)},
        "test_lives.py": LIVES,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider", "-rf"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SUPPORT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "7 failed, 4 passed" in done.stdout
    assert "said before" in done.stdout
    for file in (f"dies/test_dies_{number}.py" for number in range(3)):
        assert f"FAILED {file}::test_dies - its process ended with 3" in done.stdout
        assert f"FAILED {file}::test_comes_after" in done.stdout
    assert (tmp_path / "ended").read_text() == "the session's fixture ends\n"
