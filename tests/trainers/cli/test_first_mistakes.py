"""What a newcomer types first and wrongly: each answer is one sentence that says what to do."""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a run, its model, and a file of metrics."""
    for name in ("runs/a/model", "models/mine"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text("{}")
    metrics = json.dumps({"step": 0, "arena/nash_conv": 0.5})
    (tmp_path / "runs/a/metrics.jsonl").write_text(metrics)
    (tmp_path / "mine.py").write_text("class Mine: ...\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("eval runs/a kuhn_poker", "write lm:runs/a/model for the model of this run"),
        ("eval models/mine kuhn_poker", "write lm:models/mine for the model in this"),
        (
            "eval models/mnie kuhn_poker",
            "write lm:models/mnie for a model in a folder or on",
        ),
        ("eval random kuhn_poker -a models/mine", "write lm:models/mine"),
        ("eval lm:runs/a kuhn_poker", "its model is in 'runs/a/model'"),
        (
            "eval lm:no/such/folder kuhn_poker",
            "got 'no/such/folder', which does not exist",
        ),
        ("eval gpt-4o kuhn_poker", "one behind an endpoint api:MODEL@URL"),
        (
            "eval http://localhost:8000/v1 nim",
            "write api:MODEL@http://localhost:8000/v1",
        ),
        (
            "eval mine.py kuhn_poker",
            "write mine:NAME with the name of a function or class",
        ),
        ("eval mine:Mine kuhn_poker", "lacks a method act, got Mine"),
        ("eval random,cfr kuhn_poker", "want one policy; write several with spaces"),
        ("eval random mine.py", "write mine:CLASS with the name of its class"),
        ("eval random MyGame", "a class of your own is module:Class"),
        ("eval random cfr", "got 'cfr', which is a policy; give the id of a game"),
        ("eval random kuhn_poker cfr", "opponents follow --against"),
        ("eval random kuhn_poker --opponent cfr", "did you mean --against?"),
        ("replay runs/a --html x.html", "did you mean --page?"),
        ("replay runs/a --svg x.svg", "did you mean --figure?"),
        ("play random", "got 'random', which is a policy; give the id of a game"),
        ("play kuhn_poker cfr", "opponents follow --against"),
        ("games kuhn", "arena show kuhn"),
        ("help", "arena --help lists the commands"),
        ("tournament random cfr -g nim", "Did you mean: arena bench tournament?"),
        ("audit credit a:b", "Did you mean: arena credit audit?"),
        (
            "play nim --web --seat 1 --prompt rules=false",
            "want --web without --seat, --prompt",
        ),
        ("select a.jsonl", "Did you mean: arena data select?"),
        ("suggest -g nim", "Did you mean: arena credit suggest?"),
        ("bench tournament random cfr", "'-g'. For example: --games kuhn_poker,tic"),
        ("credit suggest nim", "games follow --games, as in --games nim"),
        ("compare random cfr -g nim --report x", "did you mean --page?"),
        ("data --select wins", "arena data select EPISODES --by NAME"),
        ("data games.jsonl --by wins", "arena data select EPISODES --by NAME"),
        ("eval random nim --no-rules", "did you mean --prompt rules=false?"),
        ("eval random nim --persona x", "did you mean --prompt persona=VALUE?"),
        (
            "eval random nim --temperature 1",
            "did you mean --sampling temperature=VALUE",
        ),
        ("eval random nim --prompt rule=false", "no key 'rule'; did you mean 'rules'?"),
        ("eval random nim --prompt rules", "want --prompt KEY=VALUE, got 'rules'"),
        (
            "train --lora_r 8",
            "did you mean --lora r=VALUE? In a recipe: lora: {r: VALUE}",
        ),
        ("train --lora 8", "want --lora KEY=VALUE, got '8'; the keys are r, alpha,"),
        ("train --lora rank=8", "--lora has no key 'rank'"),
        ("compare random mcts:9", "name games: --games kuhn_poker"),
        (
            "bench tournament nim kuhn_poker -g first,random -o x",
            "tournament first random --games",
        ),
        ("bench tournament nim first -g nim --out x", "no policy 'nim'; it is a game"),
        (
            "replay runs/a/metrics.jsonl",
            "it holds the metrics of a run: arena report runs/a",
        ),
        ("replay runs/a", "arena report runs/a shows it"),
        (
            "new-game kuhn_poker",
            "a built-in game; give another name, such as my_kuhn_poker",
        ),
        ("train nim --dry-run", "a game is an option: arena train --games nim"),
        ("train models/mine", "a model is an option: arena train --model models/mine"),
        ("train --recipes foo", "want --recipes alone, which lists the recipes"),
        ("train --lr 1 --dry-run", "did you mean 'learning_rate'?"),
        ("train --batch_size 8 --dry-run", "did you mean 'episodes_per_step'?"),
        ("train --games nim kuhn_poker", "separate games by commas: --games"),
        (
            "train --generation_batch_size 10",
            "as a multiple of 128 (episodes_per_step /",
        ),
        (
            "train --gradient_accumulation_steps 0",
            "want gradient_accumulation_steps of at",
        ),
        ("train --per_device_train_batch_size 7", "--episodes_per_step 32 alone"),
        (
            "train --eval_strategy steps",
            "to measure in training give --evaluate_every 10",
        ),
        ("train --run_name 2026-99-99", "--run_name cannot be read as YAML"),
        ("train --resume_from_checkpoint true", "give arena train --resume RUN"),
        ("train --use_peft true", "did you mean --lora r=VALUE?"),
        ("train --overwrite_output_dir true", "give another --output-dir"),
        ("train --num_train_epochs 1", "--max_steps N"),
        (
            "train --trainer sft --data x.parquet --eval_strategy steps",
            "to measure in training give --evaluate_every 10",
        ),
        ("train --eval_steps 10", "--evaluate_every 10"),
        ("train --load_best_model_at_end true", "best/ in the run folder"),
        ("train --fp16 true", "--bf16 true"),
        ("train --deepspeed ds.json", "pip install deepspeed"),
        ("train --save_strategy no --max_prompt_length 9", "prompts are never cut"),
    ],
)
def test_a_first_mistake_is_answered(
    line: str, advice: str, here: Path, arena_here: Any
) -> None:
    done = arena_here(*line.replace(" -o ", " --out ").split())
    assert done.returncode == 2
    assert advice in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("entry", "advice"),
    [
        ({"id": "nim", "parms": {}}, "did you mean 'params'?"),
        ({"id": "nim", "weigth": 2}, "did you mean 'weight'?"),
        ({"game": "nim"}, "write id: nim"),
        ({"nim": {"max_take": 2}}, "write {id: nim, params:"),
    ],
)
def test_a_misspelt_key_of_games_is_named(
    entry: dict[str, Any], advice: str, here: Path, arena_here: Any
) -> None:
    (here / "recipe.yaml").write_text(
        yaml.safe_dump({"model": "tiny", "games": [entry]})
    )
    done = arena_here("train", "recipe.yaml", "--dry-run")
    assert done.returncode == 2
    assert advice in " ".join(done.stderr.split())


def test_a_wrong_path_is_found_before_torch_is_imported(
    here: Path, arena_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # an import of it would fail
    done = arena_here("eval", "noisy:0.1(lm:no/such/folder)", "nim")
    assert "got 'no/such/folder', which does not exist" in done.stderr


def test_a_folder_with_a_model_called_like_a_bot_is_named(
    here: Path, arena_here: Any
) -> None:
    (here / "first").mkdir()
    (here / "first" / "config.json").write_text("{}")
    with pytest.warns(
        UserWarning, match="write lm:./first for the model in the folder"
    ):
        arena_here("eval", "first", "nim", "-n", "1", "--no-baselines")


def test_equal_warnings_are_printed_once(arena_here: Any, monkeypatch: Any) -> None:
    def warn(*_: Any) -> None:
        for text in ("the pool is flat", "another", "the pool is flat"):
            sys.stderr.write(warnings.formatwarning(text, UserWarning, "file.py", 1))
        raise ValueError("stop")

    monkeypatch.setattr("arena_trainers.cli.evaluate._named_games", warn)
    done = arena_here("eval", "random", "nim")
    assert done.stderr.startswith("warning: the pool is flat\nwarning: another\n")
    assert done.stderr.count("the pool is flat") == 1
