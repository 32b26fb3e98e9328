"""Loops that train an adapter."""

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from safetensors.numpy import load_file

from arena_trainers.lm import LMPolicy
from arena_trainers.runs import RoundError, Rounds

GIVEN = {
    **{"model": "tiny", "hidden_size": 16, "num_layers": 1, "lora_r": 2},
    **{"games": ["kuhn_poker"], "rules": False, "reply_format": "bare"},
    "use_cpu": True,
}
PLAY = {"episodes": 6}
CFR = {"solver_replies": {"solver": "cfr"}}
SFT = {"trainer": "sft", "max_steps": 2, "learning_rate": 0.01}
STILL = {**SFT, "learning_rate": 0.0}  # leaves the adapter as it was
EVALUATE = {"opponents": ["random"], "episodes": 5}


def run(folder, start_from, console=None, resume=False, play=PLAY, select=CFR, **given):
    rounds = {"num": 2, "play": play, "select": select, "evaluate": EVALUATE}
    rounds |= {"train": [SFT, STILL], "start_from": start_from, **given}
    quiet = Console(quiet=True)
    job = Rounds({**GIVEN, "rounds": rounds}, folder, console or quiet, resume=resume)
    job.prepare()
    return job.run()


def adapters(folder):
    """The weights of the adapters of two rounds, by layer."""
    names = (f"round-0{n}/model/adapter_model.safetensors" for n in range(2))
    return [
        {layer: weights.tolist() for layer, weights in load_file(folder / name).items()}
        for name in names
    ]


@pytest.mark.slow
def test_an_adapter_goes_on_training_and_plays_from_any_folder(tmp_path, monkeypatch):
    run(tmp_path / "run", "last")
    first, second = adapters(tmp_path / "run")
    assert first == second
    assert any(sum(map(abs, row)) for rows in first.values() for row in rows)
    assert not (tmp_path / "run/round-01/model/model.safetensors").exists()
    heads = [
        (tmp_path / f"run/round-0{n}/train/config.yaml").read_text() for n in range(2)
    ]
    assert heads[0].startswith("# arena train config.yaml repeats this run\n")
    adapter = str(tmp_path / "run/round-00/model")
    assert heads[1].startswith(
        f"# part of a loop: goes on from the adapter in {adapter!r}"
    )
    (tmp_path / "run").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved" / "round-01")
    policy = LMPolicy.from_pretrained("model", device="cpu")
    assert policy.model.get_base_model().name_or_path == str(tmp_path / "moved/start")


@pytest.mark.slow
def test_every_round_has_a_new_adapter_if_it_starts_from_the_first_model(tmp_path):
    run(tmp_path, "first")
    first, second = adapters(tmp_path)
    assert first != second
    new = [rows for name, rows in second.items() if "lora_B" in name]
    assert not any(value for rows in new for row in rows for value in row)


@pytest.mark.slow
def test_the_adapter_of_the_round_before_is_the_reference_and_training_resumes(
    tmp_path, monkeypatch
):
    """Without it, the loss of two equal models were not log 2."""
    monkeypatch.setitem(GIVEN, "warm_start_steps", 20)
    monkeypatch.setitem(GIVEN, "warm_start_episodes", 50)
    trees = {"episodes": 10, "branch": {"num_candidates": 3}}
    steps = {"trainer": "dpo", "max_steps": 2, "save_steps": 1, "logging_steps": 1}
    dpo = [{**steps, "learning_rate": 0.01}, {**steps, "learning_rate": 0.001}]
    given = {"play": trees, "select": "branch_pairs", "train": dpo}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(whole, "last", **given)
    lines = (whole / "round-01/train/metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["loss"] == pytest.approx(0.6931, abs=1e-4)
    assert json.loads(lines[1])["loss"] < 0.6926
    shutil.copytree(whole, broken)
    here = broken / "round-01"
    for path in (broken / "results.json", here / "scores.json"):
        path.unlink()
    (here / "train" / "results.json").unlink()
    for folder in (here / "model", here / "train" / "checkpoint-2"):
        shutil.rmtree(folder)
    told = Console(record=True, file=io.StringIO())
    run(broken, "last", told, resume=True, **given)
    assert "resumed after step 1" in told.export_text()
    assert adapters(broken) == adapters(whole)
    weights = "adapter_model.safetensors"
    reference = load_file(here / "train" / "checkpoint-2" / "ref" / weights)
    before = load_file(broken / "round-00" / "model" / weights)
    assert {k: v.tolist() for k, v in reference.items()} == {
        k: v.tolist() for k, v in before.items()
    }
    assert not (here / "model" / "ref").exists()


def test_layers_that_the_model_lacks_are_refused_before_anything_is_written(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(GIVEN, "lora_target_modules", "c_attn")
    with pytest.raises(ValueError, match="want lora_target_modules that name linear"):
        run(tmp_path / "run", "last")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_plug_in_that_trains_all_weights_is_refused_with_an_adapter(
    tmp_path, monkeypatch
):
    """The plug-in of docs/plugins.md."""
    page = (Path(__file__).parents[3] / "docs" / "plugins.md").read_text()
    source = page.partition("# my_trainer.py")[2].partition("```")[0]
    (tmp_path / "whole_rows.py").write_text(source)
    info = tmp_path / "whole-1.0.dist-info"
    info.mkdir()
    about = "Metadata-Version: 2.1\nName: whole\nVersion: 1.0\n"
    (info / "METADATA").write_text(about)
    entry = "[arena.trainers]\nwhole = whole_rows:plain\n"
    (info / "entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        RoundError, match="round 0, train: want an adapter of trainer 'whole'"
    ):
        run(tmp_path / "run", "last", train={"trainer": "whole", "max_steps": 1})
    assert not (tmp_path / "run" / "round-00" / "model").exists()
