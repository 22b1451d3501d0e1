"""The loader: valid input, and messages for invalid input."""

import os
import re
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.config.loader import load, load_file
from rightsizer.io.yaml import dump_yaml
from rightsizer.model.errors import ConfigurationError
from sample_settings import Color, Job, Match, Policy, Settings, Store

LIKE = "write it like '10m', '1h30m' or '7d'"


def faults(text: str) -> list[str]:
    """The error lines shown for a text."""
    with pytest.raises(ConfigurationError) as caught:
        load(Settings, text, "sample.yaml")
    return str(caught.value).splitlines()


@pytest.mark.parametrize("text", ["", "\n", "# nothing but a comment\n", "---\n", "{}"])
def test_an_empty_file_stands_for_all_defaults(text: str) -> None:
    """Nothing, a comment and an empty mapping load as the dataclasses' own defaults."""
    assert load(Settings, text, "sample.yaml") == Settings()


def test_every_kind_of_value_loads() -> None:
    """Durations, sizes, words, lists, mappings and keys reserved by Python all load."""
    text = """
        job: {interval: 1h, jitter: 0, share: 1, enabled: no}
        store: {limit: 1.5GiB, color: green, token_file: /run/secret, keep: 14d}
        listen: ['127.0.0.1:80', '[::1]:80']
        policies: [{class: blue, match: {owner: ann}, thresholds: {idle: 0.25}}]
        collectors: {nvlink: false}
        stores: {spare: {path: /spare, limit: 1024}}
    """

    assert load(Settings, text, "sample.yaml") == Settings(
        job=Job(interval=3600.0, jitter_seconds=0.0, share=1.0, enabled=False),
        store=Store(
            limit_bytes=3 * 2**29, color=Color.GREEN, token_file="/run/secret", keep=14 * 86400.0
        ),
        listen=("127.0.0.1:80", "[::1]:80"),
        policies=(Policy(Color.BLUE, Match("ann"), MappingProxyType({"idle": 0.25})),),
        collectors=MappingProxyType({"nvlink": False}),
        stores={"spare": Store(path="/spare", limit_bytes=1024)},
    )


def test_a_group_keeps_the_defaults_that_its_parent_gives_it() -> None:
    """Setting one key of a group leaves the others at the tree's defaults, not the class's."""
    loaded = load(Settings, "night_job: {share: 0.1}", "sample.yaml")

    assert loaded.night_job == Job(interval=3600.0, workers=1, share=0.1)


def test_a_key_with_everything_under_it_commented_out_keeps_its_default() -> None:
    """`job:` with nothing below remains when an operator comments out its keys."""
    assert load(Settings, "job:\nlisten:\ncollectors:\nstores:\n", "x") == Settings()


def test_loaded_mappings_are_read_only() -> None:
    """Settings of a running agent cannot be changed by accident."""
    loaded: Any = load(Settings, "collectors: {gpm: true}", "x")

    with pytest.raises(TypeError):
        loaded.collectors["gpm"] = False


def test_every_fault_is_reported_at_once_in_the_order_of_the_file() -> None:
    """One run shows everything to fix, sorted by place."""
    text = """\
stores: {spare: {colour: red}}
job:
  share: -1.5
  interval: 10x
listne: []
policies:
  - class: rot
  - match: {owner: 7}
"""

    assert faults(text) == [
        "sample.yaml:1:18: stores.spare.colour: unknown key; did you mean 'color'?",
        "sample.yaml:3:3: job.share: must be between 0 and 1 (got -1.5)",
        f"sample.yaml:4:3: job.interval: '10x' is not a duration; {LIKE}",
        "sample.yaml:5:1: listne: unknown key; did you mean 'listen'?",
        "sample.yaml:7:5: policies[0].class: must be one of red, green, blue (got 'rot')",
        "sample.yaml:8:5: policies[1].class: is required (one of red, green, blue)",
        "sample.yaml:8:13: policies[1].match.owner: must be text (got 7); put it in quotes",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job: {zzz: 1}", "unknown key; known keys: interval, jitter, share, workers, enabled"),
        ("job: {interval: 600}", "600 has no unit; write it like '600s' or '10m'"),
        ("job: {interval: -1s}", "job.interval: '-1s' is negative; leave out the -"),
        ("job: {interval: true}", "must be a duration (got true); write it like '10m'"),
        ("job: {interval: }", "must be a duration (got nothing); write it like '10m'"),
        ("job: {interval: 2h}", "must be between 1s and 1h (got '2h')"),
        ("job: {interval: 0}", "must be between 1s and 1h (got '0s')"),
        ("job: {workers: 0}", "must be at least 1 (got 0)"),
        ("job: {workers: 1.5}", "must be a whole number (got 1.5)"),
        ("job: {workers: true}", "must be a whole number (got true)"),
        ("job: {workers: '2'}", "must be a whole number (got '2'); write it in digits"),
        ("job: {share: .nan}", "must be a number (got nan)"),
        ("job: {share: half}", "must be a number (got 'half')"),
        ("job: {share: 95%}", "(got '95%'); it is a ratio: for 95% write 0.95"),
        ("job: {share: 95}", "must be between 0 and 1 (got 95); it is a ratio: for 95% write 0.95"),
        ("job: {share: 950}", "must be between 0 and 1 (got 950)"),
        ("job: {enabled: 1}", "must be true or false (got 1); write true without quotes"),
        ("job: {enabled: 'off'}", "(got 'off'); write false without quotes"),
        ("work: {job: {share: 1}}", "work: unknown key; did you mean 'job'?"),
        ("policies: {class: red}", "(got a mapping); begin each with '- '"),
        (
            "store: {path: ~/x}",
            ":1:9: store.path: '~/x' is no whole path, and no shell",
        ),
        ("store: {path: $HOME/x}", "store.path: '$HOME/x' is no whole path"),
        ("job: 10m", "must be a mapping (got '10m'); write it like {interval: ...}"),
        ("policies: red", "must be a list of mappings (got 'red'); write it like [{"),
        ("worker: 3", "worker: unknown key; did you mean 'job.workers'?"),
        ("store: {path: no}", "must be text (got false); put it in quotes"),
        ("store: {path: 2026-01-31}", "must be text (got 2026-01-31); put it in quotes"),
        ("store: {path: [a]}", "must be text (got a list)"),
        ("store: {limit: 5 parsecs}", "'5 parsecs' is not a size; write it like '512MiB'"),
        ("store: {limit: 5 watts}", "'5 watts' is not a size; write it like '512MiB'"),
        ("store: {limit: 0.5}", "must be a size (got 0.5)"),
        ("store: {color: gren}", "(got 'gren'); did you mean 'green'?"),
        ("store: {color: }", "must be one of red, green, blue (got nothing)"),
        ("listen: ':80'", "must be a list of text (got ':80'); write it like [':80']"),
        ("collectors: [gpm]", "must be a mapping of names to true or false (got a list)"),
        ("policies: [5]", "must be a mapping (got 5)"),
        ("collectors: {5: true}", "a key must be text; put it in quotes"),
        ("5: true", "a key must be text; put it in quotes"),
        ("job: {jitter: 30m}", "job.jitter must not exceed job.interval; lower it"),
        ("[]", "must be a mapping (got a list)"),
        ("job: {share: 1, share: 1}", "'share' is given twice; keep one of them"),
        ("job: [1", "is not well-formed YAML (did not find expected"),
        ("job:\n  share: 1\n workers: 2", "sample.yaml:3:2: is not well-formed YAML"),
        ("job: [1", "; look at the indentation, quotes and brackets here and in the lines before"),
        ("a: \0", "control characters are not allowed"),
        ("a: 2026-13-45", "'2026-13-45' is not a valid timestamp"),
        ("? [a]\n: 1", "a key must be a single value"),
        ("[" * 5000 + "]" * 5000, "nests too deeply"),
    ],
)
def test_each_fault_names_its_place_and_its_remedy(text: str, message: str) -> None:
    """Wrong types, bounds, words and syntax each give one line with a place."""
    (line,) = faults(text)

    assert message in line
    assert re.match(r"sample\.yaml:\d+:\d+: ", line)


def test_long_values_and_line_breaks_do_not_break_the_line() -> None:
    """An error is one line of readable length, whatever the file contains."""
    (line,) = faults('job: {workers: "' + "many\\n" * 500 + '"}')

    assert len(line) < 200


@given(st.text())
def test_any_text_loads_or_is_a_configuration_error(text: str) -> None:
    """The loader raises nothing else for any text."""
    message = ""
    try:
        load(Settings, text, "any.yaml")
    except ConfigurationError as error:
        message = str(error)

    assert not message or message.startswith("any.yaml:")


_KEYS = st.sampled_from(
    ["job", "interval", "store", "limit", "color", "policies", "class", "stores", "collectors"]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(_KEYS, _VALUES))
def test_any_tree_loads_or_every_line_of_the_error_has_a_place(data: dict[str, Any]) -> None:
    """Values of any kind under keys of any kind never cause another exception."""
    message = ""
    try:
        load(Settings, dump_yaml(data), "any.yaml")
    except ConfigurationError as error:
        message = str(error)

    for line in message.splitlines():
        assert re.match(r"any\.yaml:\d+:\d+: ", line)


def test_a_bad_configuration_exits_with_78() -> None:
    """Shell scripts and systemd can tell it from other failures (EX_CONFIG)."""
    assert ConfigurationError.exit_code == 78


def test_a_file_loads_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    """Files from editors of other systems are accepted."""
    path = tmp_path / "sample.yaml"
    path.write_bytes("\N{ZERO WIDTH NO-BREAK SPACE}job: {share: 0.25}".encode())

    assert load_file(Settings, path) == Settings(job=Job(share=0.25))


def _missing(folder: Path) -> Path:
    return folder / "missing.yaml"


def _latin(folder: Path) -> Path:
    path = folder / "latin.yaml"
    path.write_bytes("job:\n  share: 0.5 # für alle\n".encode("latin-1"))
    return path


def _loop(folder: Path) -> Path:
    path = folder / "loop.yaml"
    path.symlink_to(path)
    return path


def _pipe(folder: Path) -> Path:
    path = folder / "pipe.yaml"
    os.mkfifo(path)
    return path


def _huge(folder: Path) -> Path:
    path = folder / "huge.yaml"
    path.write_text("# comment\n" * 200_000)
    return path


def _locked(folder: Path) -> Path:
    path = folder / "locked.yaml"
    path.touch(mode=0o000)
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_missing, "/missing.yaml: there is no such file; check the path, or leave the flag out"),
        (Path, ": is a directory; name the file in it, such as /"),
        (_latin, "/latin.yaml:2:1: is not UTF-8; save it as UTF-8"),
        (_pipe, "/pipe.yaml: is a pipe; check the path"),
        (_huge, "/huge.yaml: has more than 1048576 bytes; check the path"),
        (_loop, "/loop.yaml: too many levels of symbolic links; check the path"),
        pytest.param(
            _locked,
            "/locked.yaml: may not be read; let the user that runs the program read it",
            marks=pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything"),
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_with_a_remedy(
    tmp_path: Path, make: Any, message: str
) -> None:
    """Missing, a folder, no text, a pipe, huge, a loop of links, forbidden: each names the path."""
    with pytest.raises(ConfigurationError) as caught:
        load_file(Settings, make(tmp_path))

    assert str(caught.value).startswith(str(tmp_path))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job.interval: 2h", "keys nest; write it like job: {interval: 2h}"),
        ("listen: 80", "must be a list of text (got 80); write it like ['80']"),
    ],
)
def test_a_form_that_others_have_is_told_the_right_one(text: str, message: str) -> None:
    """Flat keys, and one value in place of a list."""
    (fault,) = faults(text)
    assert message in fault
