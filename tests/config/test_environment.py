"""Settings from environment variables: accepted forms, and error messages."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.config.former_keys import DROPPED
from rightsizer.config.loader import load, load_sections
from rightsizer.config.overrides import variable_of
from rightsizer.config.shape import Group, shape_of
from rightsizer.model.errors import ConfigurationError
from sample_settings import Color, Job, Policy, Settings, Store


def loaded(text: str = "", **environ: str) -> Settings:
    """The settings of a file with variables over it."""
    return load(Settings, text, "sample.yaml", environ)


def faults(text: str = "", **environ: str) -> list[str]:
    """The error lines shown."""
    with pytest.raises(ConfigurationError) as caught:
        loaded(text, **environ)
    return str(caught.value).splitlines()


def test_every_kind_of_value_is_read() -> None:
    """Durations, sizes, words, switches, numbers, text without quotes, lists and mappings."""
    assert loaded(
        RIGHTSIZER_JOB__INTERVAL="1h",
        RIGHTSIZER_JOB__JITTER="0",
        RIGHTSIZER_JOB__WORKERS="7",
        RIGHTSIZER_JOB__ENABLED="false",
        RIGHTSIZER_STORE__LIMIT="1024",
        RIGHTSIZER_STORE__PATH="yes",
        RIGHTSIZER_STORE__COLOR="blue",
        RIGHTSIZER_STORE__TOKEN_FILE="12",
        RIGHTSIZER_STORE__KEEP="14d",
        RIGHTSIZER_LISTEN="[':1', ':2']",
        RIGHTSIZER_POLICIES='[{"class": "green"}]',
        RIGHTSIZER_COLLECTORS="{gpm: false}",
    ) == Settings(
        job=Job(interval=3600.0, jitter_seconds=0.0, workers=7, enabled=False),
        store=Store("yes", 1024, Color.BLUE, "12", 14 * 86400.0),
        listen=(":1", ":2"),
        policies=(Policy(Color.GREEN),),
        collectors={"gpm": False},
    )


def test_dropped_keys_are_passed_over_with_a_warning_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the file and the environment, so that an upgrade does not prevent the start."""
    dropped = {("store", "cache"): "leave it out", ("legacy",): "store.path does it"}
    for path, remedy in dropped.items():
        monkeypatch.setitem(DROPPED, path, remedy)
    text = "store:\n  path: there\n  cache: 7\nlegacy: {a: 1}\n"
    found = loaded(text, RIGHTSIZER_STORE__CACHE="8")
    assert found == loaded("store: {path: there}")
    lines = capsys.readouterr().err.splitlines()
    passed = "this release has no such key and passes it over, the next one will refuse it"
    assert sorted(lines) == [
        f"warning: RIGHTSIZER_STORE__CACHE: store.cache: {passed}; leave it out",
        f"warning: sample.yaml:3:3: store.cache: {passed}; leave it out",
        f"warning: sample.yaml:4:1: legacy: {passed}; store.path does it",
    ]
    monkeypatch.undo()
    assert faults(text)[0].startswith("sample.yaml:3:3: store.cache: unknown key")


def test_a_constant_in_a_configuration_is_passed_over_with_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Releases before had it as a setting; the line says where it lives now."""
    text = "job: {efficiency_ratio: 0.5, workers: 3}\nnight_job: {efficiency_ratio: 0.4}\n"
    found = loaded(text, RIGHTSIZER_JOB__EFFICIENCY_RATIO="0.7")

    assert found == loaded("job: {workers: 3}")
    words = (
        "is passed over; it is a constant of sample_settings now, which '--constants FILE' "
        "overrides for experiments"
    )
    assert sorted(capsys.readouterr().err.splitlines()) == [
        f"warning: RIGHTSIZER_JOB__EFFICIENCY_RATIO: job.efficiency_ratio: {words}",
        f"warning: sample.yaml:1:7: job.efficiency_ratio: {words}",
        f"warning: sample.yaml:2:13: night_job.efficiency_ratio: {words}",
    ]


def test_constants_are_overridden_by_a_file_of_their_own(tmp_path: Path) -> None:
    """It goes before the configuration; its faults are told with their places."""
    file = tmp_path / "sample.yaml"
    file.write_text("job: {workers: 3}\n", encoding="utf-8")
    constants = tmp_path / "constants.yaml"
    constants.write_text("job: {efficiency_ratio: 0.6}\n", encoding="utf-8")

    found = load_sections(Settings, file, constants=constants)
    assert (found.job.efficiency_ratio, found.job.workers) == (0.6, 3)
    constants.write_text("job:\n  efficiency_ratio: 2\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=f"{constants}:2:3: .*between 0 and 1"):
        load_sections(Settings, file, constants=constants)


def test_a_variable_goes_before_the_file_and_leaves_its_neighbors() -> None:
    """A list replaces a list; other keys of a group keep the file's values."""
    text = "{job: {interval: 1m, share: 0.1}, listen: [':7', ':8'], store: }"
    found = loaded(
        text,
        RIGHTSIZER_JOB__INTERVAL="2m",
        RIGHTSIZER_LISTEN="[':9']",
        RIGHTSIZER_STORE__PATH="/elsewhere",
    )
    assert found.job == Job(interval=120.0, share=0.1)
    assert found.listen == (":9",)
    assert found.store.path == "/elsewhere"


@pytest.mark.parametrize("text", ["", "null"])
def test_optional_setting_is_unset_by_an_empty_variable(text: str) -> None:
    """An empty variable, as in a compose file, is unset."""
    assert loaded("store: {token_file: /run/a}", RIGHTSIZER_STORE__TOKEN_FILE=text) == Settings()


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("JOB__INTERVAL", "10x", "'10x' is not a duration; write it like '10m'"),
        ("JOB__INTERVAL", "", "must be a duration (got nothing); write it like '10m'"),
        ("JOB__SHARE", "2", "must be between 0 and 1 (got 2); it is a ratio: for 2% write 0.02"),
        ("STORE__COLOR", "gren", "did you mean 'green'?"),
        ("LISTEN", ":80", "must be a list of text (got ':80'); write it like [':80']"),
        ("POLICIES", "[{class: red, mtach: 1}]", "[0].mtach: unknown key; did you mean 'match'?"),
        ("POLICIES", "[{", "; write it as the file would have it"),
        ("JOB", "{}", "is a group of settings; name one of them, like RIGHTSIZER_JOB__INTERVAL"),
        ("JBO__INTERVAL", "1m", "is no setting; did you mean RIGHTSIZER_JOB__INTERVAL?"),
        ("JOB_INTERVAL", "1m", "is no setting; did you mean RIGHTSIZER_JOB__INTERVAL?"),
        ("job__interval", "1m", "is written in capitals; did you mean RIGHTSIZER_JOB__INTERVAL?"),
        ("A__B", "1", "is no setting; see docs/configuration.md"),
    ],
)
def test_a_fault_names_the_variable_and_the_remedy(variable: str, value: str, said: str) -> None:
    """Like an error of the file names its place."""
    (fault,) = faults(**{f"RIGHTSIZER_{variable}": value})

    assert fault.startswith(f"RIGHTSIZER_{variable}:")
    assert said in fault


def test_faults_of_the_file_and_of_variables_come_together() -> None:
    """Those of the file keep their places; variables cannot hide a file of the wrong shape."""
    found = faults("job: {share: 3}", RIGHTSIZER_STORE__KEEP="soon")
    assert [line.partition(" ")[0] for line in found] == [
        "RIGHTSIZER_STORE__KEEP:",
        "sample.yaml:1:7:",
    ]
    (fault,) = faults("job: 7", RIGHTSIZER_JOB__SHARE="0.5")
    assert fault.startswith("sample.yaml:1:1: job: must be a mapping")


def test_a_variable_that_is_no_setting_hides_no_other_fault() -> None:
    """Neither that of another variable, nor those of the file."""
    found = faults(
        "{job: {share: 3, wrkers: 2}, store: {color: gren, keep: soon}}",
        RIGHTSIZER_JOB__INTERVALL="1m",
        RIGHTSIZER_POLICIES="[{",
        RIGHTSIZER_LISTEN=":80",
    )
    assert [line.partition(": ")[0] for line in found] == [
        "RIGHTSIZER_JOB__INTERVALL",
        "RIGHTSIZER_POLICIES:2:1",
        "RIGHTSIZER_LISTEN",
        "sample.yaml:1:8",
        "sample.yaml:1:18",
        "sample.yaml:1:38",
        "sample.yaml:1:51",
    ]


def test_a_file_that_is_not_yaml_hides_no_fault_of_a_variable() -> None:
    """Required keys that only the file could set are not reported as missing."""
    found = faults("job: [1", RIGHTSIZER_JBO__INTERVAL="1m", RIGHTSIZER_STORE__COLOR="gren")
    assert [line.partition(": ")[0] for line in found] == [
        "RIGHTSIZER_JBO__INTERVAL",
        "RIGHTSIZER_STORE__COLOR",
        "sample.yaml:2:1",
    ]


def test_variables_of_others_are_passed_over() -> None:
    """Kubernetes sets variables for every service, including one called `rightsizer`."""
    others = {
        "RIGHTSIZER_PORT": "tcp://10.0.0.1:19400",
        "RIGHTSIZER_SERVICE_HOST": "10.0.0.1",
        "RIGHTSIZER_PORT_19400_TCP_ADDR": "10.0.0.1",
        "JOB__INTERVAL": "nonsense",
        "PATH": "/bin",
    }
    assert loaded(**others) == Settings()


def keys(group: Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every key of a group with a value."""
    found: list[tuple[str, ...]] = []
    for entry in group.entries:
        below = (*path, entry.key)
        found += keys(entry.shape, below) if isinstance(entry.shape, Group) else [below]
    return found


@given(st.sampled_from(keys(shape_of(Settings))), st.text(max_size=30))
def test_any_text_loads_or_names_its_variable(path: tuple[str, ...], text: str) -> None:
    """Any environment gives settings or an error that names a variable."""
    variable = variable_of(path)
    answer: Settings | str
    try:
        answer = loaded(**{variable: text})
    except ConfigurationError as error:
        answer = str(error)
    # Constraints between two settings are reported for the tree.
    assert isinstance(answer, Settings) or answer.startswith((variable, "sample.yaml"))
