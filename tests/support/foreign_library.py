"""A driver library that this project knows nothing of, compiled for a test."""

import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["foreign_library"]


def foreign_library(folder: Path) -> Path:
    """The folder with the library under the name that the bindings load."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to make a driver library with")
    source = Path(__file__).parents[1] / "endtoend" / "foreign_nvml.c"
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(source)]
    subprocess.run(command, check=True)
    return folder
