"""Where a container's own control group is among the host's, for it sees all others from there."""

import os
import posixpath
from pathlib import Path

__all__ = ["namespace_root", "seen_from"]


def namespace_root(top: str, own: str) -> str:
    """The folder below `top` that is the root of our own namespace of control groups.

    A pod that is given the host's `/sys` has its own root at `/sys/fs/cgroup` still: one and the
    same folder, by another path.

    Args:
        top: Where the host's control groups of version 2 are mounted.
        own: Where our own namespace shows its root.

    Returns:
        Its path from `top`, without a slash at its ends; empty where the two are one, or have
        nothing to do with each other.
    """
    try:
        whole, root = Path(top).stat(), Path(own).stat()
    except OSError:
        return ""
    if whole.st_dev != root.st_dev or whole.st_ino == root.st_ino:
        return ""
    waiting = [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        continue
                    if entry.inode() == root.st_ino:
                        return posixpath.relpath(entry.path, top)
                    waiting.append(entry.path)
        except OSError:
            continue  # It has ended meanwhile.
    return ""


def seen_from(root: str, path: str) -> str:
    """A path of `/proc/PID/cgroup`, told from a namespace's root, as it is from the host's."""
    return posixpath.normpath(f"/{root}/{path}").strip("/")
