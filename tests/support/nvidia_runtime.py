"""A runtime of containers that hands in a driver library, as NVIDIA's toolkit does.

It rewrites the bundle that the engine made, as NVIDIA's runtime does, and goes on as runc.
"""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any, Final

LIBRARIES: Final = "/usr/lib/x86_64-linux-gnu"
"""Where the toolkit mounts libraries in a Debian: a folder that the loader searches."""
DEVICES: Final = {"/dev/nvidiactl": 255, "/dev/nvidia0": 0, "/dev/nvidia1": 1}
MAJOR: Final = 195


def main(driver: Path, arguments: list[str]) -> None:
    """Become runc, with the bundle of a new container rewritten."""
    if "create" in arguments:
        bundle = Path(arguments[arguments.index("--bundle") + 1])
        file = bundle / "config.json"
        file.write_text(json.dumps(with_driver(json.loads(file.read_text()), driver)))
    os.execvp("runc", ["runc", *arguments])


def with_driver(bundle: dict[str, Any], driver: Path) -> dict[str, Any]:
    """A container's specification, with driver and devices if its environment asks for them."""
    variables = dict(each.split("=", 1) for each in bundle["process"]["env"])
    if variables.get("NVIDIA_VISIBLE_DEVICES", "void") == "void":
        return bundle
    assert "utility" in variables["NVIDIA_DRIVER_CAPABILITIES"].split(",")
    for library in driver.glob("*.so*"):
        mount = {"type": "bind", "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"]}
        place = {"source": str(library), "destination": f"{LIBRARIES}/{library.name}"}
        bundle["mounts"].append({**mount, **place})
    kind = {"type": "c", "major": MAJOR, "fileMode": stat.S_IFCHR | 0o666, "uid": 0, "gid": 0}
    linux = bundle["linux"]
    for path, minor in DEVICES.items():
        linux.setdefault("devices", []).append({**kind, "path": path, "minor": minor})
        rule = {"allow": True, "type": "c", "major": MAJOR, "minor": minor, "access": "rw"}
        linux["resources"].setdefault("devices", []).append(rule)
    return bundle


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
