"""The chart as Helm would render it: what its templates use of Go's and of Helm's.

Any construct or function that it does not know is an error, so that nothing is passed over.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Final

import yaml

from kubernetes_manifests import KUBERNETES

__all__ = ["CHART", "merged", "rendered", "values_of"]

CHART: Final = KUBERNETES.parent / "helm" / "rightsizer"
_ACTION: Final = re.compile(r"(?:\s*\{\{-|\{\{)(.*?)(?:-\}\}\s*|\}\})", re.DOTALL)
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\$\w*(?:\.\w+)*|\.(?:\w+(?:\.\w+)*)?|[\w.]+|[|]')


@dataclass
class Node:
    """A text, an output, or a block with what stands in it."""

    kind: str
    text: str = ""
    body: list["Node"] = field(default_factory=list)
    otherwise: list["Node"] = field(default_factory=list)


def values_of() -> dict[str, Any]:
    """The values as the chart has them."""
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    return found


def merged(values: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Values with those of a site over them; mappings are merged, all else is replaced."""
    found = dict(values)
    for key, value in more.items():
        own = found.get(key)
        both = isinstance(value, Mapping) and isinstance(own, Mapping)
        found[key] = merged(own, value) if both else value  # type: ignore[arg-type]
    return found


def rendered(more: Mapping[str, Any] | None = None, namespace: str = "rightsizer") -> list[Any]:
    """The objects that the chart makes with a site's values."""
    return [
        each
        for text in Chart(merged(values_of(), more or {}), namespace).texts().values()
        for each in yaml.safe_load_all(text)
        if each is not None
    ]


class Chart:
    """The chart with its values."""

    def __init__(self, values: Mapping[str, Any], namespace: str) -> None:
        about = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
        self.top: dict[str, Any] = {
            "Values": values,
            "Chart": {key[0].upper() + key[1:]: value for key, value in about.items()},
            "Release": {"Name": "rightsizer", "Namespace": namespace, "Service": "Helm"},
            "Files": {"Get": _file, "Glob": _files},
        }
        self.defined: dict[str, list[Node]] = {}

    def texts(self) -> dict[str, str]:
        """Each template's text, by the file's name; notes are left out."""
        parsed = {
            path.name: _parsed(path.read_text("utf-8"))
            for path in sorted((CHART / "templates").iterdir())
        }
        for nodes in parsed.values():
            self.defined |= {json.loads(each.text): each.body for each in nodes if _defines(each)}
        return {
            name: self._run(nodes, self.top, {"$": self.top})
            for name, nodes in parsed.items()
            if name.endswith(".yaml")
        }

    def _run(self, nodes: Sequence[Node], dot: Any, known: dict[str, Any]) -> str:
        return "".join(part for node in nodes for part in self._parts(node, dot, known))

    def _parts(self, node: Node, dot: Any, known: dict[str, Any]) -> Iterator[str]:
        match node.kind:
            case "text":
                yield node.text
            case "output":
                if assigned := re.fullmatch(r"(\$\w+)\s*:=\s*(.+)", node.text, re.DOTALL):
                    known[assigned[1]] = self._value(assigned[2], dot, known)
                    return
                value = self._value(node.text, dot, known)
                yield "" if value is None else str(value)
            case "if" | "with":
                value = self._value(node.text, dot, known)
                inner = value if node.kind == "with" and value else dot
                yield self._run(node.body if value else node.otherwise, inner, dict(known))
            case "range":
                names, _, over = node.text.partition(":=")
                key, value = (name.strip() for name in names.split(","))
                for at, each in self._value(over, dot, known).items():
                    yield self._run(node.body, each, {**known, key: at, value: each})
            case "define":
                return
            case _:
                raise AssertionError(f"'{node.kind}' is not known")

    def _value(self, text: str, dot: Any, known: Mapping[str, Any]) -> Any:
        value: Any = None
        for at, words in enumerate(_pipeline(text)):
            arguments = [self._operand(word, dot, known) for word in words[1:]]
            value = self._called(words[0], [*arguments, *([value] if at else [])], dot, known)
        return value

    def _called(self, word: str, arguments: list[Any], dot: Any, known: Mapping[str, Any]) -> Any:
        if word == "include":
            return self._run(self.defined[arguments[0]], arguments[1], {"$": arguments[1]})
        if word in FUNCTIONS:
            return FUNCTIONS[word](*arguments)
        value = self._operand(word, dot, known)
        assert callable(value) or not arguments, f"'{word}' is no function"
        return value(*arguments) if callable(value) else value

    def _operand(self, word: str, dot: Any, known: Mapping[str, Any]) -> Any:
        if word.startswith('"'):
            return json.loads(word)
        if word.isdecimal():
            return int(word)
        assert word[0] in ".$", f"'{word}' is not known"
        head, *path = word.split(".")
        value = known[head] if head else dot
        for name in filter(None, path):
            value = None if value is None else value.get(name)
        return value


def _pipeline(text: str) -> list[list[str]]:
    """The words of each part of a pipeline."""
    parts: list[list[str]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "|":
            parts.append([])
        else:
            parts[-1].append(token)
    assert not _TOKEN.sub("", text).strip(), f"'{text}' is not known"
    return parts


def _defines(node: Node) -> bool:
    return node.kind == "define"


def _parsed(text: str) -> list[Node]:
    """The nodes of a template; white space beside `{{-` and `-}}` is taken away."""
    pieces: list[tuple[str, str]] = []
    at = 0
    for found in _ACTION.finditer(text):
        pieces += [("text", text[at : found.start()]), ("action", found[1])]
        at = found.end()
    pieces.append(("text", text[at:]))
    root = Node("root")
    stack = [(root, root.body)]
    for kind, piece in pieces:
        if kind == "text":
            stack[-1][1].append(Node("text", piece))
            continue
        word, _, rest = piece.strip().partition(" ")
        if piece.lstrip().startswith("/*"):
            continue
        if word in {"if", "with", "range", "define"}:
            node = Node(word, rest.strip())
            stack[-1][1].append(node)
            stack.append((node, node.body))
        elif word == "else":
            assert not rest, f"'else {rest}' is not known"
            node = stack.pop()[0]
            stack.append((node, node.otherwise))
        elif word == "end":
            stack.pop()
        else:
            stack[-1][1].append(Node("output", piece.strip()))
    assert len(stack) == 1, "a block has no end"
    return root.body


def _file(name: str) -> str:
    return (CHART / name).read_text("utf-8")


def _files(pattern: str) -> dict[str, str]:
    folder = CHART / PurePosixPath(pattern).parent
    names = sorted(f"{PurePosixPath(pattern).parent}/{path.name}" for path in folder.iterdir())
    return {name: "" for name in names if fnmatchcase(name, pattern)}


def _to_yaml(value: Any) -> str:
    return str(yaml.safe_dump(value, default_flow_style=False, width=10_000)).rstrip("\n")


def _indented(count: int, text: str) -> str:
    return "\n" + "\n".join(" " * count + line for line in text.split("\n"))


def _without_suffix(suffix: str, text: str) -> str:
    return text.removesuffix(suffix)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "default": lambda usual, value: value or usual,
    "quote": json.dumps,
    "toYaml": _to_yaml,
    "fromYaml": yaml.safe_load,
    "nindent": _indented,
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "base": lambda path: Path(path).name,
    "trimSuffix": _without_suffix,
    "trimPrefix": lambda prefix, text: text.removeprefix(prefix),
    "and": lambda *values: next((each for each in values if not each), values[-1]),
    "not": lambda value: not value,
}
