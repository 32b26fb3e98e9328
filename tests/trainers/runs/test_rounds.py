"""Recipes with rounds: play, select, train, evaluate, and again."""

import io
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from rich.console import Console

from arena_envs.extras import import_extra
from arena_trainers import TurnGRPOConfig
from arena_trainers.runs import (
    RoundError,
    Rounds,
    check_stages,
    load_recipe,
    overridden,
    read_loop,
    round_stages,
)
from arena_trainers.runs.folder import write_config
from arena_trainers.runs.mappings import nested
from arena_trainers.runs.round_stages import write_scores
from arena_trainers.runs.settings import JobConfig
from arena_trainers.train import GamePlan
from arena_wrappers import NoReplyError, RandomPolicy, Reply

START = {
    "model": "tiny",
    "hidden_size": 16,
    "num_layers": 1,
    "games": ["kuhn_poker"],
    "rules": False,
    "reply_format": "bare",
    "use_cpu": True,
}
SFT = {"trainer": "sft", "max_steps": 2, "learning_rate": "1e-2"}
ROUNDS = {
    "num": 2,
    "play": {"episodes": 6},
    "select": {"solver_replies": {"solver": "cfr"}},
    "train": SFT,
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
    """A console at which the process ends once a stage, or a part of play, is done."""

    def print(self, *texts, **options):
        if "is done" in str(texts) or "seeds are played" in str(texts):
            raise KeyboardInterrupt


def run(folder, given, console, **options):
    job = Rounds(given, folder, console, **options)
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


def rows_in(file):
    parquet = import_extra("pyarrow.parquet", "train")
    return parquet.read_table(file).to_pylist()


@pytest.mark.slow
def test_a_loop_that_ends_after_every_stage_goes_on_to_the_same_files(tmp_path):
    """With stages in turn; the second round trains on the rows of both."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    play = [{"episodes": 6}, {"episodes": 3, "opponents": ["random"]}]
    given = settings(aggregate=True, start_from="first", play=play)
    results = run(whole, given, Console(quiet=True))
    assert [entry["round"] for entry in results["rounds"]] == [None, 0, 1]
    ends = 0
    while not (broken / "results.json").exists() and ends < 20:
        try:
            run(broken, given, Ending(quiet=True), resume=ends > 0)
        except KeyboardInterrupt:
            ends += 1
    # of the start, of four stages in each of two rounds, and of the first of two seats
    assert ends == 10
    files = kept(whole)
    assert len(files) == 14
    assert kept(broken) == files
    played = [files[f"round-0{n}/episodes.jsonl"].splitlines() for n in range(2)]
    seeds = [{json.loads(line)["seed"] for line in lines} for lines in played]
    assert [len(found) for found in seeds] == [6, 6]  # the learner is in two seats
    assert not seeds[0] & seeds[1]
    rows = [rows_in(whole / f"round-0{n}/rows.parquet") for n in range(2)]
    assert rows[1][: len(rows[0])] == rows[0]
    assert not list(whole.rglob("play"))
    assert {row["seed"] for row in rows[1][len(rows[0]) :]} == seeds[1]
    assert results["rounds"][2]["rows"] == len(rows[1])


@pytest.mark.slow
def test_rows_of_another_kind_stay_apart_where_trainers_alternate(tmp_path):
    """The alternation of Optima: completions by sft, then pairs by dpo."""
    given = settings(
        num=3,
        aggregate=True,
        start_from="first",
        play=[{"episodes": 6}, {"episodes": 6, "branch": {"num_candidates": 3}}],
        select=[ROUNDS["select"], "branch_pairs"],
        train=[SFT, {**SFT, "trainer": "dpo"}],
    )
    run(tmp_path, given, Console(quiet=True))
    folders = [tmp_path / f"round-0{n}" for n in range(3)]
    trained = [load_recipe(str(folder / "train/config.yaml")) for folder in folders]
    assert [one["trainer"] for one in trained] == ["sft", "dpo", "sft"]
    assert {one["model"] for one in trained} == {str(tmp_path / "start")}
    rows = [rows_in(folder / "rows.parquet") for folder in folders]
    assert "chosen_ids" in rows[1][0]
    assert rows[2][: len(rows[0])] == rows[0]
    assert len(rows[2]) > len(rows[0])


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


@pytest.mark.slow
def test_scores_raise_where_an_opponent_gives_no_reply(model_folder, tmp_path):
    """So that the loop ends with status 1, and goes on with this stage."""

    class Failing(RandomPolicy):
        def act(self, requests):
            return [*super().act(requests)[:-1], Reply("", error="status 502")]

    args = TurnGRPOConfig(str(tmp_path), use_cpu=True, bf16=False)
    loop = SimpleNamespace(evaluate=SimpleNamespace(opponents=[Failing()], episodes=8))
    plans = [GamePlan("kuhn_poker", args)]
    given: Any = SimpleNamespace(loop=loop, plans=plans, args=args)
    with pytest.raises(NoReplyError, match="status 502"):
        write_scores(given, model_folder, tmp_path / "scores.json")
    assert not (tmp_path / "scores.json").exists()


def test_a_game_of_one_seat_is_scored_by_its_own_return(model_folder, tmp_path):
    args = TurnGRPOConfig(str(tmp_path), use_cpu=True, bf16=False)
    loop = SimpleNamespace(evaluate=SimpleNamespace(opponents=["self"], episodes=4))
    plans = [GamePlan("guess_number", args)]
    job = JobConfig()
    given: Any = SimpleNamespace(loop=loop, plans=plans, args=args, job=job)
    write_scores(given, model_folder, tmp_path / "scores.json")
    found = json.loads((tmp_path / "scores.json").read_text())
    (game,) = found["games"].values()
    assert game["returns"] == {"self": found["score"]}


@pytest.mark.slow
def test_play_goes_on_after_the_parts_that_are_finished(tmp_path, monkeypatch):
    """A part has 32 episodes here, those of two seeds, and their branches."""
    monkeypatch.setattr(round_stages, "EPISODES_OF_PART", 32)
    play = {"samples": 16, "branch": {"num_candidates": 2, "turns": [0], "seats": [0]}}
    given = settings(num=1, play={**play, "episodes": 3})
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(whole, given, Console(quiet=True))
    for resume in (False, True):
        with pytest.raises(KeyboardInterrupt):
            run(broken, given, Ending(quiet=True), resume=resume)
    part = broken / "round-00" / "play" / "0000.jsonl"
    assert {path.name for path in part.parent.iterdir()} == {part.name}
    before = part.read_text()
    part.write_text(before.replace("learner", "LEARNER"))
    with pytest.raises(KeyboardInterrupt):
        run(broken, given, Ending(quiet=True), resume=True)
    text = (broken / "round-00" / "episodes.jsonl").read_text()
    assert text.count("LEARNER") == before.count("learner")
    text = text.replace("LEARNER", "learner")
    assert text == (whole / "round-00" / "episodes.jsonl").read_text()
    episodes = [json.loads(line) for line in text.splitlines()]
    assert len(episodes) == 48 * 3
    children = [one for one in episodes if one["parent"] is not None]
    assert len({one["seed"] for one in children}) == 3
    assert all(one["seed"] == episodes[one["parent"]]["seed"] for one in children)


@pytest.mark.slow
def test_a_finished_loop_goes_on_to_more_rounds(arena_here, tmp_path):
    run(tmp_path / "whole", settings(), Console(quiet=True))
    run(tmp_path / "longer", settings(num=1), Console(quiet=True))
    words = ["train", "--resume", tmp_path / "longer", "--rounds", "2"]
    assert arena_here(*words).returncode == 0
    assert kept(tmp_path / "longer") == kept(tmp_path / "whole")
    configs = [tmp_path / name / "config.yaml" for name in ("longer", "whole")]
    assert configs[0].read_text() == configs[1].read_text()
    done = arena_here(*words)
    assert "want --rounds as a number above 2, the rounds so far, got 2" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--rounds", "1"],
            "want --rounds as a number above 2, the rounds so far, got",
        ),
        (["--rounds", "many"], "above 2, the rounds so far, got 'many'"),
        (["--max_steps", "3"], "want --resume RUN alone or with --rounds N, since"),
    ],
)
def test_a_loop_goes_on_with_more_rounds_alone(arena_here, tmp_path, words, message):
    write_config(tmp_path, yaml.safe_dump(nested(settings())))
    done = arena_here("train", "--resume", tmp_path, *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_failed_round_is_told_and_goes_on_where_it_failed(tmp_path):
    given = settings(num=1)
    given["rounds"]["select"] = "wins(above=9)"
    with pytest.raises(
        RoundError, match="round 0, select: selector 'wins' chose no row"
    ):
        run(tmp_path / "run", given, Console(quiet=True))
    assert sorted(p.name for p in (tmp_path / "run/round-00").iterdir()) == [
        "episodes.jsonl",
        "manifest.json",
    ]


def test_a_round_whose_files_were_damaged_does_not_go_on(tmp_path, arena_here):
    """The rows would be others, without a word."""
    for resume in (False, True):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", settings(), Ending(quiet=True), resume=resume)
    for name, status in (("round-00/episodes.jsonl", 1), ("start-scores.json", 2)):
        path = tmp_path / "run" / name
        whole = path.read_text()
        path.write_text(whole.rstrip()[:-1])
        done = arena_here("train", "--resume", tmp_path / "run")
        assert done.returncode == status, done.stderr
        assert f"{path.name} has {path.stat().st_size:,} bytes, " in done.stderr
        assert "Traceback" not in done.stderr
        path.write_text(whole)


@pytest.mark.parametrize("name", ["rounds.train.learning_rate", "seed"])
def test_an_edited_config_of_a_loop_is_refused_with_the_difference(
    arena_here, tmp_path, name
):
    given = settings() | {"seed": 1}
    write_config(tmp_path, yaml.safe_dump(nested(given)))
    edited = overridden(given, {name: 5})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(nested(edited)))
    done = arena_here("train", "--resume", tmp_path)
    assert done.returncode == 2
    was = {"seed": 1}.get(name, "'1e-2'")
    assert f"was edited after the run wrote it: {name} is 5, was {was};" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"numb": 3}, "rounds has no option 'numb'; did you mean 'num'?"),
        ({"play": {"episode": 3}}, "rounds.play has no option 'episode'; did you mean"),
        ({"play": {"branch": {"candidates": 3}}}, "rounds.play.branch has no option"),
        ({"play": {"opponents": ["minmax"]}}, "'minmax'"),
        ({"select": "win"}, "no selector 'win'; did you mean 'wins'?"),
        (
            {"select": {"solver_replies": {"solvers": 1}}},
            "has no option 'solvers'; did you mean 'solver'?",
        ),
        ({"select": "branch_pairs"}, "needs turn trees, and rounds.play"),
        ({"train": {"trainer": "sfft"}}, "no trainer 'sfft'; did you mean 'sft'?"),
        ({"train": {"beta": 1}}, "trainer 'sft' has no option 'beta'"),
        ({"train": {"seed": 1}}, "rounds.train has no option 'seed'"),
        ({"train": {"lora_r": 1}}, "all rounds have the same adapter; give it beside"),
        ({"train": {"trainer": "dpo"}}, "learns from pairs, and selector"),
        ({"train": {"trainer": "reward"}}, "chooses no replies"),
        ({"start_from": "best"}, "unknown start_from 'best'; known are first, last"),
        ({"aggregate": "all"}, "want true or false as aggregate, got 'all'"),
        ({"train": []}, "want lists of equal length in rounds, got 0 of train"),
        (
            {"train": [SFT, SFT], "play": [{}]},
            "got 1 of play and 2 of train; a mapping in place of a list holds for all",
        ),
        ({"train": [SFT, 3]}, "want rounds.train[1] as a mapping of options, got 3"),
        ({"play": [{}, {"episode": 3}]}, "rounds.play[1] has no option 'episode'"),
        ({"train": [SFT, {"trainer": "dpo"}]}, "trainer 'dpo' learns from pairs, and"),
        ({"play": [{}, {"opponents": ["minmax"]}]}, "'minmax'"),
    ],
)
def test_bad_rounds_are_refused_before_anything_is_written(
    arena_here, tmp_path, changes, message
):
    (tmp_path / "loop.yaml").write_text(yaml.safe_dump(nested(settings(**changes))))
    done = arena_here("train", "loop.yaml", "--output-dir", "run", cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_revisions_need_trees_or_corrections(tmp_path):
    given = settings()
    given["rounds"]["select"] = "revisions"
    (stages,) = read_loop(given)[0].stages
    check_stages(stages, tmp_path, {}, retries=True)
    with pytest.raises(ValueError, match="or on_invalid: retry beside rounds"):
        check_stages(stages, tmp_path, {})


def test_options_of_self_play_are_refused_beside_rounds(arena_here, tmp_path):
    (tmp_path / "loop.yaml").write_text(yaml.safe_dump(nested(settings())))
    words = ["loop.yaml", "--credit", "mars", "--output-dir", "run"]
    done = arena_here("train", *words, cwd=tmp_path)
    assert "a recipe with rounds has no option 'credit'" in done.stderr


def test_the_help_of_a_recipe_with_rounds_lists_the_options_that_it_takes(arena_here):
    told = arena_here("train", "kuhn-dagger", "--help").stdout
    assert "--warm_start steps=" in told
    assert "--episodes_per_step" not in told
    assert "solver_replies" in told


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
        select="branch_pairs",
        train={"trainer": "dpo", "learning_rate": 0.0},
    )
    given |= {"warm_start_steps": 20, "warm_start_episodes": 50}
    (tmp_path / "loop.yaml").write_text(yaml.safe_dump(nested(given)))
    done = arena_here("train", "loop.yaml", "--output-dir", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the score has not risen in 1 rounds" in done.stdout
    assert not (tmp_path / "run" / "round-01").exists()
    done = arena_here("train", "--resume", "run", cwd=tmp_path)
    assert "the best model is run/start" in done.stdout
