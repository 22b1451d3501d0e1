"""Files of a launch: shell scripts of its commands, and its manifest for Kubernetes."""

import json
import re
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.model.errors import RequirementError
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.launch import MODEL, PROGRAM, Launch, launch_of, launchers
from rightsizer.sizing.requirement import Requirement

_VARIABLES: Final = {
    "MODEL": "folder or name of the checkpoint",
    "NODE_RANK": "number of this machine, from 0",
    "HEAD": "address of machine 0",
}
"""Variables of scripts, which must be set. An apostrophe in `${NAME:?text}` opens a quotation."""
_VARIABLE: Final = re.compile(rf"\$({'|'.join(_VARIABLES)})\b")
FILES: Final = ("launch.sh", "verify.sh", "kubernetes.yaml")
MARK: Final = "# Written by 'rightsizer plan --save'."
"""In each of those files, within its first lines."""
_UNSAFE: Final = re.compile(r"[^a-z0-9-]+")
_NAME_MAXIMUM: Final = 50
"""Of Kubernetes' 63, so that suffixes of pods fit."""
_NVIDIA: Final = "NVIDIA"
_WHOLE_GPU: Final = "nvidia.com/gpu"


def launch_files(
    requirement: Requirement, best: PlanCandidate | None, catalogue: Catalogue
) -> dict[str, str]:
    """Return the texts of the files that run a plan, by name.

    Raises:
        RequirementError: nothing fits, or no known program runs it.
    """
    if best is None:
        raise RequirementError("--save: nothing fits, so that there is nothing to run")
    launch = launch_of(requirement, best)
    if launch is None:
        programs = ", ".join(launchers())
        raise RequirementError(f"--save: none of {programs} runs this; leave it out")
    key, _, part = best.gpu.partition(":")
    texts = (
        _script(launch, launch.command, (launch.copies, *launch.notes)),
        verify_script(launch) if launch.verify else None,
        manifest(requirement, launch, catalogue.get(key), part),
    )
    return {name: text for name, text in zip(FILES, texts, strict=True) if text is not None}


def verify_script(launch: Launch) -> str:
    """Return a shell script that verifies the plan, for a server that runs here."""
    note = "Then: rightsizer plan ... --measured benchmark.log"
    # Through a pipe, a failure would end as a success.
    script = _script(launch, (*launch.verify, ">", "benchmark.log"), (note,))
    return f"{script}cat benchmark.log\n"


def _script(launch: Launch, command: tuple[str, ...], notes: tuple[str, ...]) -> str:
    lines = ["#!/bin/sh", MARK, "set -eu", *(f"# {note}" for note in notes)]
    text = " \\\n  ".join(_broken(command))
    used = _VARIABLE.findall(text)
    for name, meaning in _VARIABLES.items():
        value = f"-{launch.model}" if name == "MODEL" and launch.model else f"?{meaning}"
        if name in used:
            lines.append(f'{name}="${{{name}:{value}}}"')
    lines.append(_VARIABLE.sub(r'"\g<0>"', text))
    return "\n".join(lines) + "\n"


def _broken(command: tuple[str, ...]) -> list[str]:
    """Lines of a command: each flag begins one."""
    lines: list[str] = []
    for word in command:
        if lines and (word.startswith("--") or word == PROGRAM):
            lines.append(word)
        else:
            lines[-1:] = [f"{lines[-1]} {word}" if lines else word]
    return lines


def manifest(requirement: Requirement, launch: Launch, board: Board, part: str) -> str | None:
    """Return a Deployment and a Service of the servers, each on whole boards or a part of one.

    `None` if a server needs several machines, its checkpoint is not published, or there is no
    image for its engine and boards.
    """
    launcher = launchers().get(str(requirement.engine))
    if launcher is None or not launcher.image or not launch.verify or not launch.model:
        return None
    if launch.nodes > 1 or board.vendor != _NVIDIA:
        return None
    words = [word.replace(MODEL, launch.model) for word in launch.command]
    return _MANIFEST.format(
        mark=MARK,
        name=json.dumps(_resource_name(requirement.model.name)),
        replicas=launch.servers,
        selector=_node_selector(board),
        image=json.dumps(launcher.image),
        words="\n".join(f"        - {json.dumps(word)}" for word in words),
        port=launcher.port,
        # As the device plugin names parts with strategy mixed.
        resource=json.dumps(f"nvidia.com/mig-{part.replace('+', '.')}" if part else _WHOLE_GPU),
        gpus=launch.server_gpus,
    )


def _resource_name(model: str) -> str:
    """Return a name by RFC 1035: it begins with a letter, and ends in one or a digit."""
    name = _UNSAFE.sub("-", model.lower()).strip("-")
    whole = name if name[:1].isalpha() else f"model-{name}"
    return whole[:_NAME_MAXIMUM].strip("-")


def _node_selector(board: Board) -> str:
    """Lines that select the nodes with a board; empty if its name is not known."""
    if not board.names:
        return ""
    label = json.dumps(board.names[0].replace(" ", "-"))
    return f"      nodeSelector:\n        nvidia.com/gpu.product: {label}\n"


_MANIFEST: Final = """\
{mark}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  replicas: {replicas}
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
{selector}      containers:
      - name: server
        image: {image}
        command:
{words}
        env:
        - name: HF_TOKEN
          valueFrom:
            secretKeyRef: {{name: hugging-face, key: token, optional: true}}
        ports:
        - containerPort: {port}
        readinessProbe:
          httpGet: {{path: /health, port: {port}}}
          periodSeconds: 10
        resources:
          limits: {{{resource}: {gpus}}}
        volumeMounts:
        - {{name: shared-memory, mountPath: /dev/shm}}
      volumes:
      - name: shared-memory
        emptyDir: {{medium: Memory}}
---
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector: {{app: {name}}}
  ports:
  - port: {port}
"""
