"""Syncs of files that hang at will, in processes started with a preloaded library."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

__all__ = ["SlowSync"]

_SOURCE: Final = Path(__file__).with_suffix(".c")


class SlowSync(Struct, frozen=True):
    """A library, and the file whose presence makes syncs hang."""

    library: Path
    hang: Path

    @classmethod
    def built_in(cls, folder: Path) -> "SlowSync":
        """Compile it; skip the test where there is no compiler."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("no C compiler to make a slow disk with")
        library = folder / "slow_sync.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"], check=True)
        return cls(library, folder / "hang")

    @property
    def prefix(self) -> tuple[str, ...]:
        """Start of a command line whose process has it."""
        return ("env", f"LD_PRELOAD={self.library}", f"SLOW_SYNC={self.hang}")

    @property
    def is_hit(self) -> bool:
        """Whether a sync hangs, or has hung."""
        return self.hang.with_name("hang.hit").exists()

    def begin(self) -> None:
        """Let the next syncs hang."""
        self.hang.touch()

    def end(self) -> None:
        """Let them end."""
        self.hang.unlink()
