"""The folder of a run: whose it is, and what is removed when a run cannot begin."""

from types import SimpleNamespace

import pytest
import yaml

from arena_trainers.runs import folder as run_folder
from arena_trainers.runs.folder import CONFIG, START, new_folder
from arena_trainers.runs.results.provenance import config_text
from arena_trainers.runs.resuming import check_same_model, read_run
from arena_trainers.train import CREDIT_STATE


def begin_and_fail(folder, name, error):
    """Begins a run, in which a folder of this name appears, and ends it by an error."""
    with new_folder(folder, "seed: 1\n"):
        (folder / name).mkdir()
        raise error


def test_a_second_run_with_one_folder_deletes_nothing_of_the_first(tmp_path):
    folder = tmp_path / "run"
    with new_folder(folder, "seed: 1\n"):
        (folder / "checkpoint-1").mkdir()
        with (
            pytest.raises(ValueError, match="is in use"),
            new_folder(folder, "seed: 2\n"),
        ):
            pass
    assert (folder / CONFIG).read_text() == "seed: 1\n"
    assert (folder / "checkpoint-1").is_dir()


def test_a_run_that_loses_the_race_for_an_empty_folder_deletes_nothing(
    tmp_path, monkeypatch
):
    """Both have found the folder empty; the other one has written its file since."""
    (tmp_path / CONFIG).write_text("seed: 1\n")
    real, calls = run_folder.check_new, []

    def check_new(folder):
        calls.append(folder)
        if len(calls) > 1:
            real(folder)

    monkeypatch.setattr(run_folder, "check_new", check_new)
    with pytest.raises(ValueError, match="is in use"), new_folder(tmp_path, ""):
        pass
    assert (tmp_path / CONFIG).read_text() == "seed: 1\n"


def test_a_checkpoint_of_several_roles_is_resumed_from(model_folder, tmp_path):
    (tmp_path / "planner").mkdir()
    (tmp_path / "planner" / "adapter_config.json").write_text("{}")
    check_same_model(tmp_path, model_folder)


def test_what_others_wrote_stays_when_a_run_cannot_begin(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(ValueError, match="cannot begin"):
        begin_and_fail(folder, "notes", ValueError("cannot begin"))
    assert [path.name for path in folder.iterdir()] == ["notes"]


def test_a_symbolic_link_as_run_folder_is_emptied_and_stays(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "run", ""):
        raise KeyboardInterrupt
    assert (tmp_path / "run").is_symlink()
    assert list((tmp_path / "disk").iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("no")])
def test_ctrl_c_keeps_a_finished_start_and_a_refusal_does_not(tmp_path, error):
    folder = tmp_path / "run"
    with pytest.raises(type(error)):
        begin_and_fail(folder, START, error)
    assert folder.exists() == isinstance(error, KeyboardInterrupt)
    if folder.exists():
        with pytest.raises(ValueError, match="--warm_start steps=0"):
            read_run(folder)


@pytest.mark.parametrize("text", ["games: [kuhn_poker", "- 1\n", "\x00"])
def test_a_broken_config_is_refused_by_name_on_resume(tmp_path, text):
    checkpoint = tmp_path / "checkpoint-3"
    checkpoint.mkdir()
    for name in ("trainer_state.json", CREDIT_STATE):
        (checkpoint / name).write_text("{}")
    (tmp_path / CONFIG).write_text(text)
    with pytest.raises(ValueError, match=CONFIG):
        read_run(tmp_path)


def test_a_value_that_stands_twice_is_written_twice():
    games = ["kuhn_poker"]  # as an anchor of YAML gives it
    text = config_text({"games": games, "eval_games": games}, SimpleNamespace())
    assert yaml.safe_load(text) == {"games": games, "eval_games": games}
    assert not {"&", "*"} & set(text)
