"""Answers as JSON: order, selection, and merging of shards' answers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from rightsizer.fleet.advice_groups import open_recommendations
from rightsizer.fleet.documents import FleetAnswerDocument
from rightsizer.fleet.served_blocks import served_rank
from rightsizer.fleet.summary import summarized
from rightsizer.fleet.tables import cluster_rows, pools_of_team, usage_tables
from rightsizer.io.codec import convert, decode, plain
from rightsizer.model.values import (
    DAY_SECONDS,
    OPEN_STATES,
    Evidence,
    EvidenceKind,
    Savings,
    Severity,
    UsageError,
    format_duration,
)
from rightsizer.report.evidence import noted

_JsonObject = dict[str, Any]


def ranked(advice: Sequence[_JsonObject]) -> list[_JsonObject]:
    """Return open advice first, by savings, severity and GPUs; the rest in its order."""

    def rank(recommendation: _JsonObject) -> tuple[float, int, float, str]:
        savings = Savings(**recommendation["savings"])
        severity = Severity(recommendation["severity"]).rank
        return -savings.dollars_per_hour, -severity, -savings.gpus, recommendation["id"]

    closed = (
        recommendation for recommendation in advice if recommendation["state"] not in OPEN_STATES
    )
    return [*sorted(open_recommendations(advice), key=rank), *closed]


def selected(
    document: _JsonObject,
    *,
    cluster: str | None = None,
    team: str | None = None,
    since_seconds: float | None = None,
) -> _JsonObject:
    """Return an answer limited to a cluster, a team and recent advice.

    Raises:
        UsageError: there is no such cluster or team.
    """
    for flag, wanted, rows, key in (
        ("cluster", cluster, "clusters", "name"),
        ("team", team, "teams", "team"),
    ):
        names = {row[key] for row in document[rows]}
        if wanted is not None and wanted not in names:
            words = ", ".join(sorted(filter(None, names))) or "none has a name"
            raise UsageError(f"--{flag}: there is no '{wanted}' here; there are {words}")
    wanted_keys = {"cluster": cluster, "team": team}
    keys = {name: value for name, value in wanted_keys.items() if value is not None}
    selection = _limited(document, keys) if keys else dict(document)
    if since_seconds is not None:
        first = document["time"] - since_seconds
        selection["advice"] = [
            recommendation
            for recommendation in selection["advice"]
            if recommendation["opened"] >= first
        ]
    return selection | summarized(selection)


def shortened(document: _JsonObject, top: int) -> _JsonObject:
    """Return an answer with the first groups and their recommendations; sums stay those of all."""
    groups = document["groups"][:top]
    ids = {id_ for group in groups for id_ in group["advice"]}
    advice = [piece for piece in open_recommendations(document["advice"]) if piece["id"] in ids]
    return document | {"advice": advice, "groups": groups}


def _limited(document: _JsonObject, keys: Mapping[str, str]) -> _JsonObject:
    """Return an answer about the rows with some keys alone: each list and each sum is theirs."""

    def wanted(rows: Iterable[_JsonObject]) -> list[_JsonObject]:
        # Of a team are only rows that name one; what names none, as sources do, is judged below.
        return [row for row in rows if all(row.get(key, keys[key]) == keys[key] for key in keys)]

    limited = document | {name: wanted(document[name]) for name in (*_PLACED, "waiting_work")}
    limited |= usage_tables(wanted(document["usage"]["parts"]))
    if "team" in keys:
        limited["pools"] = pools_of_team(limited, limited["pools"])
        clusters = {row["cluster"] for row in (*limited["pools"], *limited["teams"])}
        limited["sources"] = [row for row in limited["sources"] if row["cluster"] in clusters]
    names = (row["cluster"] for row in limited["sources"])
    holdings = limited["holdings"]
    limited["clusters"] = cluster_rows(names, limited["pools"], holdings, limited["waiting"])
    total = limited["usage"]["total"]
    hours = total["held_gpu_hours"] + total["unknown_gpu_hours"]
    return limited | {
        "coverage_ratio": total["held_gpu_hours"] / hours if hours else 0.0,
        "devices": len({row["uuid"] for row in holdings}),
        "gpus": sum(row["gpus"] for row in holdings),
        "workloads": sum(row["workloads"] for row in limited["clusters"]),
        # Verdicts without a finding are counted by rule alone.
        "verdicts": {},
        "evidence": evidence_of(limited | {"verdicts": {}}),
    }


_PLACED: Final = (
    "sources",
    "pools",
    "holdings",
    "findings",
    "advice",
    "node_advice",
    "waiting",
    "served_models",
)
"""Lists whose rows have a cluster."""
_ROWS: Final = (*_PLACED, "clusters")


def read_answers(paths: Sequence[Path]) -> list[_JsonObject]:
    """Read answers from files written by `rightsizer fleet --json`.

    A shard of the nodes has only `days`, the path of its cache, which may be given too.

    Raises:
        UsageError: a file is unreadable, or holds no such answer.
    """
    answers = list[_JsonObject]()
    for path in paths:
        try:
            with path.open("rb") as file:
                is_cache = file.read(len(_CACHE)) == _CACHE
            document: Any = {"days": str(path)} if is_cache else decode(path.read_bytes(), object)
        except OSError as error:
            raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
        except ValueError as error:
            fault = f"is neither an answer nor a cache of days ({error})"
            raise UsageError(f"{path}: {fault}; {_REMEDY}") from None
        is_part = isinstance(document, dict) and isinstance(document.get("days"), str)
        try:
            answers.append(document if is_part else _read(document))
        except ValueError as error:
            raise UsageError(f"{path}: {error}; {_REMEDY}") from None
    return answers


def _read(document: object) -> _JsonObject:
    """Return what a merge reads of an answer; raises `ValueError`."""
    keys = FleetAnswerDocument.__struct_fields__
    if not isinstance(document, dict) or document.keys().isdisjoint(keys):
        raise ValueError("is no answer about a fleet")
    if missing := [key for key in keys if key not in document]:
        raise ValueError(f"has no {', '.join(missing)}: it was made by another version")
    try:
        read = plain(convert(document, FleetAnswerDocument))
    except ValueError as error:
        raise ValueError(f"is no answer of this version ({error})") from None
    # The planner says more of a served model than a fleet reads.
    return read | {"served_models": document["served_models"]}


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


def merged(
    answers: Sequence[_JsonObject], names: Sequence[str], interval_seconds: float
) -> _JsonObject:
    """Merge answers that are about different clusters.

    Nothing crosses clusters, so the result equals that of a single run. `names` identify the
    answers in faults. An answer that is more than an interval older than the newest is noted.

    Raises:
        UsageError: two answers are about one cluster, look back over different spans, or are more
            than a day apart.
    """
    _check(answers, names)
    ages = _ages(answers, names, interval_seconds)
    answers = sorted(answers, key=lambda answer: [row["name"] for row in answer["clusters"]])
    devices = sum(answer["devices"] for answer in answers)
    known_devices = sum(answer["coverage_ratio"] * answer["devices"] for answer in answers)
    rows: _JsonObject = {
        name: list(chain.from_iterable(a[name] for a in answers)) for name in _ROWS
    }
    rows |= {
        name: sorted(rows[name], key=lambda row: row["name"]) for name in ("clusters", "pools")
    }
    document = {
        "time": max(answer["time"] for answer in answers),
        "lookback_seconds": answers[0]["lookback_seconds"],
        "coverage_ratio": known_devices / devices if devices else 0.0,
        **{
            name: sum(answer[name] for answer in answers)
            for name in ("devices", "gpus", "workloads")
        },
        **rows,
        "advice": ranked(rows["advice"]),
        "served_models": sorted(rows["served_models"], key=served_rank),
        "verdicts": _verdicts(answer["verdicts"] for answer in answers),
        "waiting_work": sorted(
            chain.from_iterable(answer["waiting_work"] for answer in answers),
            key=lambda row: -(row["waiting_seconds"] or 0.0),
        ),
        "usage": {"parts": [part for answer in answers for part in answer["usage"]["parts"]]},
        "use": {key: sum(answer["use"][key] for answer in answers) for key in answers[0]["use"]},
        "notes": list(dict.fromkeys(chain(*(answer["notes"] for answer in answers), ages))),
    }
    return completed(document)


def completed(document: _JsonObject) -> _JsonObject:
    """Return the rows of an answer with what follows from them: hours by owner, sums, evidence."""
    document = document | usage_tables(document["usage"]["parts"])
    return document | summarized(document) | {"evidence": evidence_of(document)}


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
        noted(EvidenceKind.ASSUMED, chain.from_iterable(source["cannot"] for source in sources)),
        noted(EvidenceKind.DROPPED, chain.from_iterable(source["warnings"] for source in sources)),
        missing,
        (
            Evidence(EvidenceKind.READ, source["source"], count=source["devices"])
            for source in sources
        ),
    )
    return [*map(plain, evidence)]


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


def _ages(
    answers: Sequence[_JsonObject], names: Sequence[str], interval_seconds: float
) -> list[str]:
    """Return notes of the answers of an earlier round than the newest."""
    times = {name: answer["time"] for name, answer in zip(names, answers, strict=True)}
    newest = max(times, key=times.__getitem__)
    notes = list[str]()
    for name in sorted(times):
        age_seconds = times[newest] - times[name]
        older = f"is {format_duration(age_seconds)} older than {newest}"
        if age_seconds > DAY_SECONDS:
            raise UsageError(f"{name}: {older}; look again with its shard, or leave it out")
        if age_seconds > interval_seconds:
            notes.append(f"{name} {older}; its clusters are as of then.")
    return notes


def _verdicts(tables: Iterable[Mapping[str, Any]]) -> _JsonObject:
    verdicts: _JsonObject = {}
    for rule, row in chain.from_iterable(table.items() for table in tables):
        whole = verdicts.setdefault(rule, {"complaints": 0, "well": 0})
        for name in ("complaints", "well"):
            whole[name] += row[name]
        for name in ("abstained", "missing"):
            whole[name] = whole.get(name, Counter()) + Counter(row[name])
    for row in verdicts.values():
        row["missing"] = dict(sorted(row["missing"].items(), key=lambda item: (-item[1], item[0])))
    return dict(sorted(verdicts.items()))
