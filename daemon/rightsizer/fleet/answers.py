"""Answers as JSON: order, selection, and merging of shards' answers."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

from rightsizer.fleet.usage import WORDS_SEPARATOR, joined, use_rank
from rightsizer.io.codec import plain_fields
from rightsizer.model.advice import OPEN_STATES
from rightsizer.model.errors import UsageError
from rightsizer.model.evidence import Evidence, EvidenceKind
from rightsizer.model.finding import Savings, Severity
from rightsizer.report.evidence import noted

_JsonObject = dict[str, Any]


_Piece = TypeVar("_Piece", bound=Mapping[str, Any])


def opened(advice: Iterable[_Piece]) -> list[_Piece]:
    """Return the open pieces, in order."""
    return [each for each in advice if each["state"] in OPEN_STATES]


def ranked(advice: Sequence[_JsonObject]) -> list[_JsonObject]:
    """Return open advice first, by savings, severity and GPUs; the rest in its order."""

    def rank(each: _JsonObject) -> tuple[float, int, float, str]:
        savings = Savings(**each["savings"])
        severity = Severity(each["severity"]).rank
        return -savings.dollars_per_hour, -severity, -savings.gpus, each["id"]

    closed = (each for each in advice if each["state"] not in OPEN_STATES)
    return [*sorted(opened(advice), key=rank), *closed]


def selected(
    document: _JsonObject,
    *,
    cluster: str | None = None,
    team: str | None = None,
    since_seconds: float | None = None,
    top: int | None = None,
) -> _JsonObject:
    """Return an answer limited to a cluster, a team, recent advice and a number of rows.

    Raises:
        UsageError: there is no such cluster or team.
    """
    found = dict(document)
    for flag, wanted, rows, key in (
        ("cluster", cluster, "clusters", "name"),
        ("team", team, "teams", "team"),
    ):
        known = {row[key] for row in document[rows]}
        if wanted is not None and wanted not in known:
            names = ", ".join(sorted(filter(None, known))) or "none has a name"
            raise UsageError(f"--{flag}: there is no '{wanted}' here; there are {names}")
    if cluster is not None:
        found = _of_cluster(found, cluster)
    if team is not None:
        _keep(found, ("teams", "findings", "advice"), lambda each: each["team"] == team)
        found["usage"] = {**found["usage"], "total": _summed(found["teams"])}
    if since_seconds is not None:
        first = document["time"] - since_seconds
        _keep(found, ("advice",), lambda each: each["opened"] >= first)
    if top is not None:
        found["advice"] = opened(found["advice"])[:top]
    return found


def _of_cluster(document: _JsonObject, cluster: str) -> _JsonObject:
    found = dict(document)
    usage = document["usage"]
    rows = ("sources", "pools", "findings", "advice", "node_advice", "waiting", "waiting_work")
    _keep(found, (*rows, "teams"), lambda each: each["cluster"] == cluster)
    (row,) = (each for each in document["clusters"] if each["name"] == cluster)
    whole = next((each for each in usage["clusters"] if each["name"] == cluster), usage["total"])
    return found | {
        "clusters": [row],
        "gpus": row["gpus"],
        "workloads": row["workloads"],
        "usage": {
            "total": whole,
            "pools": [each for each in usage["pools"] if each["cluster"] == cluster],
            "clusters": [whole],
            "kinds": [],
        },
    }


def _keep(
    document: _JsonObject, names: tuple[str, ...], is_wanted: Callable[[Mapping[str, Any]], bool]
) -> None:
    for name in names:
        document[name] = [each for each in document[name] if is_wanted(each)]


_ROWS: Final = ("sources", "clusters", "pools", "findings", "advice", "node_advice", "waiting")
_KEYS: Final = {*_ROWS, "waiting_work", "teams", "usage", "verdicts", "use", "notes", "time"}
_HOURS: Final[tuple[str, ...]] = (
    "held_gpu_hours",
    "unknown_gpu_hours",
    "used_gpu_hours",
    "wasted_gpu_hours",
    "headroom_gpu_hours",
    "idle_gpu_hours",
    "stalled_gpu_hours",
    "lost_gpu_hours",
    "free_gpu_hours",
)


def read_answers(paths: Sequence[Path]) -> list[_JsonObject]:
    """Read answers from files written by `rightsizer fleet --json`.

    A shard of the nodes has only `days`, the path of its cache, which may be given too.

    Raises:
        UsageError: a file is unreadable, or holds no such answer.
    """
    found = []
    for path in paths:
        try:
            with path.open("rb") as file:
                is_cache = file.read(len(_CACHE)) == _CACHE
            document = {"days": str(path)} if is_cache else json.loads(path.read_text("utf-8"))
        except OSError as error:
            raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
        except ValueError:
            raise UsageError(
                f"{path}: is neither an answer nor a cache of days; {_REMEDY}"
            ) from None
        is_part = isinstance(document, dict) and isinstance(document.get("days"), str)
        if not is_part and not (isinstance(document, dict) and document.keys() >= _KEYS):
            raise UsageError(f"{path}: is no answer about a fleet; {_REMEDY}")
        found.append(document)
    return found


def caches_in(answers: Sequence[_JsonObject]) -> list[Path] | None:
    """Return the caches of shards of the nodes; `None` if these are answers about clusters.

    A shard without nodes has no cache.

    Raises:
        UsageError: there are both.
    """
    parts = [document for document in answers if "days" in document]
    if not parts:
        return None
    if len(parts) < len(answers):
        raise UsageError(
            f"merge: {parts[0]['days']} has days of a shard of the nodes, others are answers "
            "about clusters; merge each kind by itself"
        )
    return [Path(part["days"]) for part in parts if part.get("device_days", 1)]


_CACHE: Final = b"SQLite format 3"
_REMEDY: Final = (
    "give what `rightsizer fleet --shard I/N --json` printed, without --top and --team, or the "
    "cache that --shard node:I/N filled"
)


def merged(answers: Sequence[_JsonObject], names: Sequence[str]) -> _JsonObject:
    """Merge answers that are about different clusters.

    Nothing crosses clusters, so the result equals that of a single run. `names` identify the
    answers in faults.

    Raises:
        UsageError: two answers are about one cluster, or look back over different spans.
    """
    _check(answers, names)
    answers = sorted(answers, key=lambda each: [row["name"] for row in each["clusters"]])
    devices = sum(each["devices"] for each in answers)
    known = sum(each["coverage_ratio"] * each["devices"] for each in answers)
    rows: _JsonObject = {
        name: list(chain.from_iterable(a[name] for a in answers)) for name in _ROWS
    }
    rows |= {
        name: sorted(rows[name], key=lambda row: row["name"]) for name in ("clusters", "pools")
    }
    document = {
        "time": max(each["time"] for each in answers),
        "lookback_seconds": answers[0]["lookback_seconds"],
        "coverage_ratio": known / devices if devices else 0.0,
        **{name: sum(each[name] for each in answers) for name in ("devices", "gpus", "workloads")},
        **rows,
        "advice": ranked(rows["advice"]),
        "verdicts": _verdicts(each["verdicts"] for each in answers),
        "waiting_work": sorted(
            chain.from_iterable(each["waiting_work"] for each in answers),
            key=lambda row: -(row["waiting_seconds"] or 0.0),
        ),
        "teams": _use_rows([document["teams"] for document in answers], "team", "wasted_gpu_hours"),
        "usage": {"total": _summed([document["usage"]["total"] for document in answers])}
        | {
            name: _use_rows([document["usage"][name] for document in answers], "name")
            for name in ("pools", "clusters", "kinds")
        },
        "use": {key: sum(each["use"][key] for each in answers) for key in answers[0]["use"]},
        "notes": list(dict.fromkeys(chain.from_iterable(each["notes"] for each in answers))),
    }
    return {**document, "evidence": evidence_of(document)}


def evidence_of(document: _JsonObject) -> list[_JsonObject]:
    """Return what an answer rests on: limits, verdicts for which telemetry is missing, sources."""
    sources = document["sources"]
    missing = (
        Evidence(EvidenceKind.DROPPED, f"verdicts of {rule}", why, count)
        for rule, verdicts in document["verdicts"].items()
        for why, count in verdicts["missing"].items()
    )
    evidence = chain(
        noted(EvidenceKind.ASSUMED, document["notes"]),
        noted(EvidenceKind.ASSUMED, chain.from_iterable(each["cannot"] for each in sources)),
        noted(EvidenceKind.DROPPED, chain.from_iterable(each["warnings"] for each in sources)),
        missing,
        (Evidence(EvidenceKind.READ, each["source"], count=each["devices"]) for each in sources),
    )
    return [plain_fields(each) for each in evidence]


def _check(answers: Sequence[_JsonObject], names: Sequence[str]) -> None:
    first: dict[str, str] = {}
    for document, name in zip(answers, names, strict=True):
        if document["lookback_seconds"] != answers[0]["lookback_seconds"]:
            raise UsageError(
                f"{name}: looks back over another span of time than {names[0]}; give both looks "
                "one --lookback"
            )
        for cluster in (row["name"] for row in document["clusters"]):
            if cluster in first:
                called = f"cluster '{cluster}'" if cluster else "the cluster without a name"
                raise UsageError(
                    f"{name}: is about {called}, as {first[cluster]} is; give one answer a "
                    "cluster, of shards of one count"
                )
            first[cluster] = name


def _verdicts(tables: Iterable[Mapping[str, Any]]) -> _JsonObject:
    found: _JsonObject = {}
    for rule, row in chain.from_iterable(table.items() for table in tables):
        whole = found.setdefault(rule, {"complaints": 0, "well": 0})
        for name in ("complaints", "well"):
            whole[name] += row[name]
        for name in ("abstained", "missing"):
            whole[name] = whole.get(name, Counter()) + Counter(row[name])
    for row in found.values():
        row["missing"] = dict(sorted(row["missing"].items(), key=lambda each: (-each[1], each[0])))
    return dict(sorted(found.items()))


def _use_rows(
    tables: Iterable[Iterable[_JsonObject]], name: str, size: str = "held_gpu_hours"
) -> list[_JsonObject]:
    """Return rows of hours by cluster and name, ordered as in a single answer."""
    groups: dict[tuple[str, str], list[_JsonObject]] = {}
    for row in chain.from_iterable(tables):
        groups.setdefault((row["cluster"], row[name]), []).append(row)
    return sorted(
        map(_summed, groups.values()),
        key=lambda row: use_rank(row["cluster"], row[name], row[size]),
    )


def _summed(rows: Sequence[_JsonObject]) -> _JsonObject:
    """Sum rows; a value unknown in one of them is unknown in the sum."""
    # Rows without hours are ignored: they know neither energy nor price.
    telling = [row for row in rows if any(row.get(hours) for hours in _HOURS)] or [*rows]
    found = {
        name: sum(row[name] for row in rows) for name in ("workloads", *_HOURS) if name in rows[0]
    }
    energies = [row["kilowatt_hours"] for row in telling]
    found["kilowatt_hours"] = None if None in energies else sum(energies)
    for name in ("dollars", "wasted_dollars"):
        costs = [row[name] for row in telling]
        found[name] = (
            None if None in costs else {end: sum(c[end] for c in costs) for end in costs[0]}
        )
    for name in ("price_source", "price_date"):
        found[name] = joined(
            chain.from_iterable(row[name].split(WORDS_SEPARATOR) for row in telling)
        )
    return {**rows[0], **found}
