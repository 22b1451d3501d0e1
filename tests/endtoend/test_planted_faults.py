"""What `make reliability` plants: each mechanism once, and one row from its start to its end."""

import errno
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from benchmarks.reliability import shim
from benchmarks.reliability.call_faults import struck_at_start
from benchmarks.reliability.control_group import ControlGroup
from benchmarks.reliability.fault import Group
from benchmarks.reliability.log_faults import Stream
from benchmarks.reliability.node import Node
from benchmarks.reliability.owner_faults import Holder
from benchmarks.reliability.trial import attempt

needs_compiler: Final = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
needs_control_groups: Final = pytest.mark.skipif(
    not os.access("/sys/fs/cgroup", os.W_OK), reason="control groups may not be written"
)


def output(node: Node, program: str) -> str:
    """What a Python program prints below the shim."""
    done = subprocess.run(
        [sys.executable, "-IS", "-c", program],
        cwd=node.folder,
        env={**os.environ, **node.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def shimmed(folder: Path, *rules: str) -> Node:
    """A node whose programs run below the shim, with rules."""
    node = Node(folder, 0)
    shim.load(node)
    shim.strike(*rules)(node)
    return node


_OPENED: Final = "import os, time; file = os.open('kept', os.O_WRONLY | os.O_CREAT)"


@needs_compiler
@pytest.mark.parametrize(
    ("rule", "program", "printed"),
    [
        (
            f"write */kept 2 1 errno {errno.ENOSPC}",
            f"""{_OPENED}
os.write(file, b'a')
try:
    os.write(file, b'b')
except OSError as error:
    print(error.errno, os.write(file, b'c'))
""",
            f"{errno.ENOSPC} 1",
        ),
        ("write */kept 1 0 short 2", f"{_OPENED}; print(os.write(file, b'abcdef'))", "2"),
        (
            f"open *kept 1 0 errno {errno.EMFILE}",
            f"""
try:
    {_OPENED}
except OSError as error:
    print(error.errno)
""",
            str(errno.EMFILE),
        ),
        (
            "fsync */kept 1 0 delay 300",
            f"""{_OPENED}
start = time.monotonic()
os.fsync(file)
print(time.monotonic() - start >= .3)
""",
            "True",
        ),
        (
            "clock * 1 0 shift -86400",
            f"{_OPENED}; print(os.fstat(file).st_mtime - time.time() > 80000)",
            "True",
        ),
    ],
)
def test_shim_strikes_the_chosen_call(
    rule: str, program: str, printed: str, tmp_path: Path
) -> None:
    """By function, path and number; it counts what it struck."""
    node = shimmed(tmp_path, rule)

    assert output(node, program) == printed
    assert shim.was_struck(node)


@needs_compiler
def test_shim_without_a_matching_call_has_struck_nothing(tmp_path: Path) -> None:
    """A row whose fault meets nothing proves nothing."""
    node = shimmed(tmp_path, f"write */other 1 0 errno {errno.EIO}")

    assert output(node, "print(1)") == "1"
    assert not shim.was_struck(node)


@needs_compiler
def test_rules_of_the_shim_may_change_meanwhile(tmp_path: Path) -> None:
    """The file is read again when it changes."""
    node = shimmed(tmp_path)
    program = (
        "import os, time\nfile = os.open('kept', os.O_WRONLY | os.O_CREAT)\nos.write(file, b'a')\n"
        f"open('rules.new', 'w').write('write */kept 1 0 errno {errno.EIO}\\n')\n"
        "os.replace('rules.new', os.environ['RIGHTSIZER_SHIM'])\n"
        "deadline = time.monotonic() + 20\n"
        "try:\n    while time.monotonic() < deadline:\n        os.write(file, b'a')\n"
        "except OSError as error:\n    print(error.errno)"
    )

    assert output(node, program) == str(errno.EIO)


def test_full_pipe_blocks_its_writer_until_it_is_read() -> None:
    """As an agent's log does that nobody reads."""
    stream = Stream(*os.pipe())
    with closing(stream):
        stream.fill()
        os.set_blocking(stream.writer, False)
        with pytest.raises(BlockingIOError):
            os.write(stream.writer, b"a")
        os.read(stream.reader, 65536)

        assert os.write(stream.writer, b"a") == 1


@needs_control_groups
def test_control_group_refuses_further_tasks() -> None:
    """By the kernel's own limit."""
    with closing(ControlGroup.create("tasks")) as group:
        group.limit(1)
        words = [*group.joining, sys.executable, "-IS", "-c", "import os; os.fork()"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)

        assert "BlockingIOError" in done.stderr


@needs_control_groups
def test_pretended_owner_is_a_real_process_in_a_group_of_its_user() -> None:
    """It runs as an ordinary user, and the kernel shows the path that it pretends."""
    path = "user.slice/user-1000.slice/user@1000.service/test/uid_0/job_4242/step_0"
    with closing(Holder.start(path, 1000)) as holder:
        process = Path(f"/proc/{holder.process.pid}")

        assert f"/{path}" in (process / "cgroup").read_text("ascii")
        assert process.stat().st_uid == 1000
        for place in holder.places:
            assert {folder.stat().st_uid for folder in (place, *place.parents[:4])} == {1000}
    assert not any(place.exists() for place in holder.places)


@needs_compiler
def test_trial_tells_what_a_fault_did() -> None:
    """A history on a full disk: every scrape is answered, the failure counted, nothing lost."""
    fault = struck_at_start(
        Group.CALLS, "no space", f"write */history.db* 1 0 errno {errno.ENOSPC}", seconds=3.0
    )

    outcome = attempt(fault)

    assert outcome.troubles == ()
    assert outcome.scrapes > 0
    assert outcome.unanswered == 0
    assert "history_not_written" in outcome.logged
