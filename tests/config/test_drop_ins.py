"""Drop-ins: files merged over a configuration, and the origin of each setting."""

from pathlib import Path

import pytest

from rightsizer.config.loader import drop_ins, load_file, load_with_origins
from rightsizer.model.errors import ConfigurationError
from sample_settings import Policy, Settings


@pytest.fixture
def main_file(tmp_path: Path) -> Path:
    """A configuration with a folder for drop-ins."""
    (tmp_path / "conf.d").mkdir()
    file = tmp_path / "rightsizer.yaml"
    file.write_text("job: {interval: 1h, share: 0.5}\nlisten: [':80', ':81']\n")
    return file


def drop_in(main_file: Path, name: str, text: str) -> Path:
    """A drop-in."""
    file = main_file.parent / "conf.d" / name
    file.write_text(text)
    return file


def test_mappings_merge_and_all_else_is_replaced(main_file: Path) -> None:
    """Key by key, in the order of the names; a list is one value."""
    drop_in(main_file, "20-late.yaml", "job: {share: 0.75}\n")
    drop_in(main_file, "10-early.yaml", "job: {share: 0.25, enabled: no}\nlisten: [':90']\n")
    settings = load_file(Settings, main_file)

    assert (settings.job.interval, settings.job.share, settings.job.enabled) == (3600, 0.75, False)
    assert settings.listen == (":90",)


def test_a_key_whose_values_are_all_commented_out_takes_nothing_away(main_file: Path) -> None:
    """As in an unchanged starter used as a drop-in, or a file of comments."""
    drop_in(main_file, "a.yaml", "job:\n  # interval: 2h\n")
    drop_in(main_file, "b.yaml", "# nothing\n")

    assert load_file(Settings, main_file).job.interval == 3600


def test_only_yaml_files_that_are_seen_count(main_file: Path) -> None:
    """Files left behind by an editor or package manager do not."""
    for name in (".hidden.yaml", "old.yaml.bak", "x.yaml.dpkg-old", "notes.txt"):
        drop_in(main_file, name, "job: {share: 0.1}\n")

    assert drop_ins(main_file) == ()


def test_another_file_has_a_folder_of_its_own(main_file: Path) -> None:
    """The fleet's `fleet.yaml` beside the agent's has `fleet.d`."""
    drop_in(main_file, "a.yaml", "job: {share: 0.1}\n")
    other = main_file.with_name("fleet.yaml")
    other.write_text("")
    (main_file.parent / "fleet.d").mkdir()
    (main_file.parent / "fleet.d" / "a.yaml").write_text("job: {share: 0.2}\n")

    assert load_file(Settings, other).job.share == 0.2


def test_faults_name_the_file_they_are_in(main_file: Path) -> None:
    """Line and column of the drop-in, or of the main file."""
    main_file.write_text("job: {share: many}\n")
    at = drop_in(main_file, "a.yaml", "\njob: {shar: 1}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_file(Settings, main_file)
    lines = str(caught.value).splitlines()

    assert [line.split(": ")[0] for line in lines] == [f"{at}:2:7", f"{main_file}:1:7"]


def test_a_drop_in_that_is_no_yaml_is_refused(main_file: Path) -> None:
    """It is not skipped, since the operator had a purpose."""
    at = drop_in(main_file, "a.yaml", "job: [\n")
    with pytest.raises(ConfigurationError, match=f"^{at}:2:1: "):
        load_file(Settings, main_file)


def test_a_drop_in_that_cannot_be_read_is_refused(main_file: Path) -> None:
    """A folder in place of a file is an example."""
    (main_file.parent / "conf.d" / "a.yaml").mkdir()
    with pytest.raises(ConfigurationError, match="is a directory"):
        load_file(Settings, main_file)


def test_each_setting_tells_its_origin(main_file: Path) -> None:
    """A line of a file, a variable, or nothing for a default."""
    at = drop_in(main_file, "a.yaml", "policies: [{class: blue}]\n")
    settings, origins = load_with_origins(Settings, main_file, {"RIGHTSIZER_JOB__SHARE": "0.125"})

    assert (settings.job.share, len(settings.policies)) == (0.125, 1)
    assert isinstance(settings.policies[0], Policy)
    assert origins.origin(("job", "interval")) == f"{main_file}:1"
    assert origins.origin(("listen",)) == f"{main_file}:2"
    assert origins.origin(("policies",)) == f"{at}:1"
    assert origins.origin(("job", "share")) == "RIGHTSIZER_JOB__SHARE"
    assert origins.origin(("job", "enabled")) is None
