"""Models by folder and by id of the Hugging Face hub; nothing here needs a network."""

import errno
import json
import os
import shutil
import sys

import pytest
from huggingface_hub import HfApi, constants
from transformers import AutoTokenizer

from arena_trainers.cli import main as cli
from arena_trainers.lm import find_model, saved_model
from arena_trainers.runs import JobConfig
from arena_trainers.runs.start import load_tokenizer
from arena_wrappers import PromptOptions


@pytest.mark.slow
def test_a_model_of_the_hub_that_was_downloaded_is_trained_offline(
    model_folder, tmp_path, monkeypatch
):
    """By its id; the cache has the layout of huggingface_hub."""
    cache = tmp_path / "home" / "hub" / "models--org--little"
    shutil.copytree(model_folder, cache / "snapshots" / "c0ffee")
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("c0ffee")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache.parent))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    options = "--max_steps 1 --prompt rules=false --prompt reply_format=bare --callbacks eval_episodes=4"
    options += " --max_completion_length 2 --episodes_per_step 16 --num_generations 8"
    options += " --opponents self,lm:org/little --output-dir run"
    command = ["arena", "train", "--model", "org/little", *options.split()]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    assert (tmp_path / "run" / "results.json").is_file()
    assert not (tmp_path / "run" / "start").exists()


def test_a_folder_comes_before_an_id_of_the_hub(model_folder, tmp_path, monkeypatch):
    shutil.copytree(model_folder, tmp_path / "org" / "little")
    monkeypatch.chdir(tmp_path)
    assert str(find_model("org/little")) == "org/little"


def test_a_run_folder_says_where_its_model_is(model_folder, tmp_path):
    shutil.copytree(model_folder, tmp_path / "run" / "model")
    with pytest.raises(ValueError, match="which is a run: its model is in"):
        saved_model(tmp_path / "run")


@pytest.mark.parametrize("name", ["run", "run/model"])
@pytest.mark.parametrize("file", ["adapter_config.json", "config.json"])
def test_a_model_of_several_roles_says_where_theirs_are(tmp_path, name, file):
    for role in ("worker", "planner"):
        (tmp_path / "run" / "model" / role).mkdir(parents=True)
        (tmp_path / "run" / "model" / role / file).write_text("{}")
    (tmp_path / "run" / "start").mkdir()
    (tmp_path / "run" / "start" / "config.json").touch()
    (tmp_path / "run" / "model" / "arena_prompt.json").touch()
    wanted = r"each role: give [^:]*run/model/planner, or another of planner, worker"
    with pytest.raises(ValueError, match=wanted):
        saved_model(tmp_path / name)


def test_a_run_with_rounds_says_where_its_last_model_is(model_folder, tmp_path):
    for number in range(2):
        shutil.copytree(model_folder, tmp_path / f"round-0{number}" / "model")
    with pytest.raises(ValueError, match=r"its last model is in '.*round-01/model'"):
        saved_model(tmp_path)


def test_an_adapter_is_refused_by_name(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match="with an adapter"):
        saved_model(tmp_path)


@pytest.mark.parametrize("index", [False, True])
def test_a_model_without_all_its_weights_is_refused(model_folder, tmp_path, index):
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    lacking = "weights"
    if index:
        lacking = "model-2.safetensors"
        map = {"a": "model.safetensors", "b": lacking}
        path = folder / "model.safetensors.index.json"
        path.write_text(json.dumps({"weight_map": map}))
    else:
        (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=f"without {lacking}"):
        saved_model(folder)


def test_a_model_without_a_chat_template_is_refused_at_the_start(
    model_folder, tmp_path
):
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = None
    (folder / "chat_template.jinja").unlink()
    tokenizer.save_pretrained(folder)
    job = JobConfig(model=str(folder))
    with pytest.raises(ValueError, match="want a tokenizer with a chat template"):
        load_tokenizer(job, folder, [], PromptOptions("bare"))


@pytest.mark.parametrize("text", ["{}", "[]", '{"weight_map": [1]}', "{", "\x00"])
def test_an_index_without_a_map_of_weights_is_refused_by_name(
    model_folder, tmp_path, text
):
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    (folder / "model.safetensors.index.json").write_text(text)
    with pytest.raises(ValueError, match=r"want a weight_map .*index\.json"):
        saved_model(folder)


def test_a_full_disk_is_not_called_a_hub_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))

    def refuse(error):
        def model_info(*args, **kwargs):
            raise error

        monkeypatch.setattr(HfApi, "model_info", model_info)

    refuse(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with pytest.raises(OSError, match="No space left"):
        find_model("org/absent")
    refuse(ConnectionError())
    with pytest.raises(ValueError, match=r"the hub does not answer .ConnectionError"):
        find_model("org/absent")
