"""Recipes with rounds: play, select, train, evaluate, and again."""

import io
import json
import shutil
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from arena_trainers.job.settings import load_recipe
from arena_trainers.loops.job import LoopJob, RoundError

START = {
    "model": "tiny",
    "hidden_size": 16,
    "num_layers": 1,
    "games": ["kuhn_poker"],
    "rules": False,
    "reply_format": "bare",
    "use_cpu": True,
}
ROUNDS = {
    "num": 2,
    "play": {"episodes": 6},
    "select": {"selector": "solver_replies", "solver": "cfr"},
    "train": {"trainer": "sft", "max_steps": 2, "learning_rate": "1e-2"},
    "evaluate": {"opponents": ["random"], "episodes": 5},
}


def settings(**changes):
    """The settings of a loop; a change of a stage adds to its options."""
    rounds = dict(ROUNDS)
    for name, value in changes.items():
        is_stage = isinstance(value, dict) and name in rounds
        rounds[name] = {**rounds[name], **value} if is_stage else value
    return {**START, "rounds": rounds}


class Ending(Console):
    """A console at which the process ends once a stage is done."""

    def print(self, *texts, **options):
        if "is done" in str(texts):
            raise KeyboardInterrupt


def run(folder, given, console, **options):
    job = LoopJob(given, folder, console, **options)
    job.prepare()
    return job.run()


def kept(folder):
    """The files of a loop without times and paths."""
    names = {"episodes.jsonl", "rows.parquet", "selection.json", "scores.json"}
    names |= {"start-scores.json", "results.json", "curves.png", "model.safetensors"}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.name in names and "train" not in path.relative_to(folder).parts
    }


def test_a_loop_that_ends_after_every_stage_goes_on_to_the_same_files(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    quiet = Console(quiet=True)
    results = run(whole, settings(), quiet)
    assert [entry["round"] for entry in results["rounds"]] == [None, 0, 1]
    ends = 0
    while not (broken / "results.json").exists():
        console = Ending(quiet=True) if ends < 9 else quiet
        try:
            run(broken, settings(), console, resume=ends > 0)
        except KeyboardInterrupt:
            ends += 1
    assert ends == 9  # of the start, and of four stages in each of two rounds
    files = kept(whole)
    assert len(files) == 14
    assert kept(broken) == files
    played = [files[f"round-0{n}/episodes.jsonl"].splitlines() for n in range(2)]
    seeds = [{json.loads(line)["seed"] for line in lines} for lines in played]
    assert [len(found) for found in seeds] == [6, 6]
    assert not seeds[0] & seeds[1]


@pytest.mark.slow
def test_a_loop_that_ends_in_training_goes_on_from_the_checkpoint(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    given = settings(num=1, train={"save_steps": 1})
    run(whole, given, Console(quiet=True))
    shutil.copytree(whole, broken)
    for name in ("results.json", "curves.png"):
        (broken / name).unlink()
    here = broken / "round-00"
    (here / "scores.json").unlink()
    (here / "train" / "results.json").unlink()
    for folder in (here / "model", here / "train" / "checkpoint-2"):
        shutil.rmtree(folder)
    told = Console(record=True, quiet=False, file=io.StringIO())
    run(broken, given, told, resume=True)
    assert "resumed after step 1" in told.export_text()
    assert kept(broken) == kept(whole)


def test_a_failed_round_is_told_and_goes_on_where_it_failed(tmp_path):
    given = settings(num=1, select={"selector": "wins", "solver": None, "above": 9})
    given["rounds"]["select"].pop("solver")
    with pytest.raises(
        RoundError, match="round 0, select: selector 'wins' chose no row"
    ):
        run(tmp_path / "run", given, Console(quiet=True))
    assert sorted(p.name for p in (tmp_path / "run/round-00").iterdir()) == [
        "episodes.jsonl"
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"numb": 3}, "rounds has no option 'numb'; did you mean 'num'?"),
        ({"play": {"episode": 3}}, "rounds.play has no option 'episode'; did you mean"),
        ({"play": {"branch": {"candidates": 3}}}, "rounds.play.branch has no option"),
        ({"play": {"opponents": ["minmax"]}}, "'minmax'"),
        ({"select": {"selector": "win"}}, "no selector 'win'; did you mean 'wins'?"),
        ({"select": {"solvers": 1}}, "has no option 'solvers'; did you mean 'solver'?"),
        ({"select": {"selector": "branch_pairs"}}, "needs turn trees, and rounds.play"),
        ({"train": {"trainer": "sfft"}}, "no trainer 'sfft'; did you mean 'sft'?"),
        ({"train": {"beta": 1}}, "trainer 'sft' has no option 'beta'"),
        ({"train": {"seed": 1}}, "rounds.train has no option 'seed'"),
        ({"train": {"trainer": "dpo"}}, "learns from pairs, and selector"),
        ({"train": {"trainer": "reward"}}, "chooses no replies"),
        ({"start_from": "best"}, "want rounds.start_from as first or last"),
    ],
)
def test_bad_rounds_are_refused_before_anything_is_written(
    arena_here, tmp_path, changes, message
):
    (tmp_path / "loop.yaml").write_text(yaml.safe_dump(settings(**changes)))
    done = arena_here("train", "loop.yaml", "--output-dir", "run", cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_options_of_self_play_are_refused_beside_rounds(arena_here, tmp_path):
    (tmp_path / "loop.yaml").write_text(yaml.safe_dump(settings()))
    words = ["loop.yaml", "--credit", "mars", "--output-dir", "run"]
    done = arena_here("train", *words, cwd=tmp_path)
    assert "a recipe with rounds has no option 'credit'" in done.stderr


def test_the_help_of_a_recipe_with_rounds_lists_the_options_that_it_takes(arena_here):
    told = arena_here("train", "kuhn-dagger", "--help").stdout
    assert "--warm_start_steps" in told
    assert "--episodes_per_step" not in told


@pytest.mark.slow
def test_the_recipe_comes_close_to_an_equilibrium(arena_here, tmp_path):
    done = arena_here("train", "kuhn-dagger", "--output-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    convs = [entry["games"]["kuhn_poker"]["nash_conv"] for entry in results["rounds"]]
    assert convs[0] > 0.5
    assert len(convs) == load_recipe("kuhn-dagger")["rounds"]["num"] + 1
    assert convs[-1] < 0.2
    assert Path(tmp_path / "run" / results["best"] / "arena_prompt.json").is_file()


@pytest.mark.slow
def test_a_loop_ends_when_its_score_stops_rising(arena_here, tmp_path):
    """Trees and pairs; a learning rate of 0 leaves the model as it was."""
    given = settings(
        num=4,
        patience=1,
        start_from="first",
        play={"branch": {"num_candidates": 3}, "opponents": ["self", "random"]},
        select={"selector": "branch_pairs"},
        train={"trainer": "dpo", "learning_rate": 0.0},
    )
    given["rounds"]["select"].pop("solver")
    given |= {"warm_start_steps": 20, "warm_start_episodes": 50}
    (tmp_path / "loop.yaml").write_text(yaml.safe_dump(given))
    done = arena_here("train", "loop.yaml", "--output-dir", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the score has not risen in 1 rounds" in done.stdout
    assert not (tmp_path / "run" / "round-01").exists()
    done = arena_here("train", "--resume", "run", cwd=tmp_path)
    assert "the best model is run/start" in done.stdout
