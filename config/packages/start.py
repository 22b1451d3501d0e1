"""Puts the libraries that came with the package before Python's own, and runs the command."""  # noqa: INP001

import sys
from pathlib import Path

# They lie beside this file, wherever it was copied to.
sys.path.insert(0, str(Path(__file__).resolve().parent / "libraries"))

if sys.argv[1:2] == ["--compile"]:
    # For the package's own scripts: the service itself may write nothing there.
    import compileall

    sys.exit(not compileall.compile_dir(sys.path[0], quiet=2, workers=1))

from rightsizer.cli.main import entry_point

entry_point()
