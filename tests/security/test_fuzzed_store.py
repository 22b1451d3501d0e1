"""A store with wrong answers: the result is an answer or our own error, with little memory."""

import gzip
import json
import resource
from functools import partial
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from hypothesis import given

from faulty_store import Reply, StoreRequest, faulty_store
from fleet_command import asked_in_process, configured
from hostile_answers import HostileStore
from mutations import mutated_bytes, mutated_tree
from odd_estate import END, odd_estate
from rightsizer.fleet.prometheus.response_parser import parse_response

NOTHING = b'{"status":"success","data":{"resultType":"vector","result":[]}}'
RIGHT = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [
            {"metric": {"uuid": "GPU-0"}, "values": [[1767600000, "1"], [1767600300, "2.5"]]},
            {"metric": {"uuid": "GPU-1"}, "values": [[1767600000.25, "NaN"]]},
        ],
    },
    "warnings": ["PromQL info: metric might not be a counter"],
}
COMPACT = json.dumps(RIGHT, separators=(",", ":")).encode()
AT = ("--at", str(END))
MEBIBYTE = 2**20


def read(raw: bytes) -> None:
    """A parsed answer is well-formed; anything else is rejected with a message."""
    try:
        answer = parse_response(raw)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - that it says something is what is asked.
        return
    for series in answer.series:
        assert len(series.times) == len(series.values)
        json.dumps(dict(series.labels)).encode()
        "".join((*series.labels, *series.labels.values())).encode()


@given(mutated_bytes(COMPACT))
def test_an_answer_with_odd_bytes(raw: bytes) -> None:
    """They may no longer be JSON, or another kind of JSON."""
    read(raw)


@given(mutated_tree(RIGHT))
def test_an_answer_with_odd_values(tree: object) -> None:
    """Times, values, labels and kinds are of any type, with any spacing."""
    read(json.dumps(tree).encode())
    read(json.dumps(tree, separators=(",", ":")).encode())


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 1_000_000,
        b'{"status":"success","data":' * 100_000,
        b'{"status":"success","status":"error","error":"twice"}',
        COMPACT.replace(b'"GPU-0"', b'"a","uuid":"b"'),
        COMPACT.replace(b"1767600000,", b"1e999,"),
        COMPACT.replace(b"1767600000,", b"9" * 5000 + b","),
        COMPACT.replace(b'"2.5"', b'"' + b"9" * 5000 + b'"'),
        COMPACT.replace(b'"2.5"', b"NaN"),
        COMPACT.replace(b"GPU-0", b"a" * MEBIBYTE),
        COMPACT.replace(b"GPU-0", b"\xff\xfe\x80"),
        COMPACT.replace(b"GPU-0", b"\\ud800"),
        COMPACT.replace(b"GPU-0", b"\\u0000"),
        b"\xef\xbb\xbf" + COMPACT,
        COMPACT.decode().encode("utf-16"),
        b"\x00" * MEBIBYTE,
    ],
)
def test_an_answer_that_was_made_to_hurt(raw: bytes) -> None:
    """It is deep, huge, duplicate, not finite, or not text."""
    read(raw)


def test_half_a_character_becomes_a_question_mark() -> None:
    """No file, query or terminal accepts it."""
    first, _ = parse_response(COMPACT.replace(b"GPU-0", b"\\ud800!")).series
    assert first.labels == {"uuid": "?!"}


def test_a_page_without_an_end_is_not_read_to_it(tmp_path: Path) -> None:
    """An answer above the size limit is dropped, however it is compressed."""
    # Kept to the end, so that a second copy would be seen.
    page = b" " * 80 * MEBIBYTE
    packed = Reply(body=gzip.compress(page), headers={"Content-Encoding": "gzip"})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with faulty_store() as store:
        store.judge = lambda _: packed
        said = asked_in_process(configured(tmp_path, store.url, {"response_maximum": "1MiB"}))
    assert said.status == 1
    assert "fleet.store.response_maximum" in said.refusal
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < len(page) - 16 * MEBIBYTE


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], bytes]:
    """A real store's answers in one fleet run, by query."""
    kept: dict[tuple[str, str], bytes] = {}
    with odd_estate(["dense"]) as url, faulty_store() as store:

        def judge(asked: StoreRequest) -> Reply:
            body = urlencode(dict(asked.parameters))
            with urlopen(Request(f"{url}{asked.path}", data=body.encode()), timeout=20) as answer:
                kept[asked.path, body] = answer.read()
            return Reply(body=kept[asked.path, body])

        store.judge = judge
        config = configured(tmp_path_factory.mktemp("truth"), store.url)
        assert asked_in_process(config, *AT).status == 0
    return kept


def said_of(truth: dict[tuple[str, str], bytes], asked: StoreRequest) -> bytes:
    """The right answer; unknown queries have none."""
    return truth.get((asked.path, urlencode(dict(asked.parameters))), NOTHING)


@pytest.mark.prometheus
@pytest.mark.parametrize("seed", range(12))
def test_a_store_that_lies_makes_no_look_fail_but_in_words(
    tmp_path: Path,
    truth: dict[tuple[str, str], bytes],
    seed: int,
) -> None:
    """With changed values, times or labels, it gives recommendations or a one-line error."""
    hostile = HostileStore(partial(said_of, truth), seed)
    with faulty_store() as store:
        store.judge = lambda asked: Reply(body=hostile.answer(asked))
        config = configured(tmp_path, store.url, {"tries": 1})
        said = asked_in_process(config, *AT, *(("--json",) if seed % 2 else ()))
    if said.status:
        assert said.status == 1
        assert said.refusal.isprintable()
    elif seed % 2:
        assert said.document["time"] == END
    else:
        assert all(letter.isprintable() or letter == "\n" for letter in said.out)


@pytest.mark.prometheus
@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_a_name_does_nothing_to_a_terminal(
    tmp_path: Path, truth: dict[tuple[str, str], bytes], flags: tuple[str, ...]
) -> None:
    """A node's name must not control the terminal of a reader."""
    with faulty_store() as store:
        store.judge = lambda asked: Reply(
            body=said_of(truth, asked).replace(b"spare-1", b"spare-\\u001b[2J\\u0007evil\\n1")
        )
        said = asked_in_process(configured(tmp_path, store.url), *AT, *flags)
    assert said.status == 0
    assert all(letter.isprintable() or letter == "\n" for letter in said.out)
    assert ("evil" in said.out) == (not flags)
