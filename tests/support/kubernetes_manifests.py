"""The manifests of `config/kubernetes`, as written and as built by kustomize."""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from kubernetes_programs import kubectl
from rightsizer.io.yaml import load_yaml_documents

__all__ = [
    "COMPONENTS",
    "KUBERNETES",
    "OVERLAYS",
    "built",
    "built_from",
    "documents",
    "named",
    "pod_of",
]

KUBERNETES: Final = Path(__file__).parents[2] / "config" / "kubernetes"
OVERLAYS: Final = tuple(sorted(path.name for path in (KUBERNETES / "overlays").iterdir()))
COMPONENTS: Final = tuple(sorted(path.name for path in (KUBERNETES / "components").iterdir()))


def documents(file: Path) -> list[Any]:
    """The objects of a file."""
    found = load_yaml_documents(file.read_text("utf-8"), file.name)
    return [document.data for document in found]


def built(overlay: str, components: Sequence[str] = ()) -> list[Any]:
    """The output of `kubectl apply -k`; without kubectl the test is skipped.

    Args:
        overlay: Its folder's name.
        components: Components added to it, as in a site's own kustomization.
    """
    if not components:
        return _run(KUBERNETES / "overlays" / overlay)
    with tempfile.TemporaryDirectory() as folder:
        # kustomize accepts no absolute paths.
        there = os.path.relpath(KUBERNETES, Path(folder).resolve())
        listed = "".join(f"  - {there}/components/{name}\n" for name in components)
        (Path(folder) / "kustomization.yaml").write_text(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
            f"resources:\n  - {there}/overlays/{overlay}\ncomponents:\n{listed}"
        )
        return _run(Path(folder))


def built_from(folder: Path) -> list[Any]:
    """The output of `kubectl apply -k` for a folder; without kubectl the test is skipped."""
    return _run(folder)


def named(objects: Iterable[Any], kind: str) -> Any:
    """The only object of a kind."""
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def pod_of(objects: Iterable[Any]) -> Any:
    """The agent's pod."""
    return named(objects, "DaemonSet")["spec"]["template"]["spec"]


def _run(folder: Path) -> list[Any]:
    done = subprocess.run(
        [kubectl(), "kustomize", folder], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [document.data for document in load_yaml_documents(done.stdout, folder.name)]
