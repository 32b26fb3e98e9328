"""`arena train --trainer NAME --data FILE`: a run folder, from rows to a model that plays."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from datasets import Dataset
from rich.console import Console

from arena_eval import exploitability
from arena_trainers.checkpoint import files_of, write_manifest
from arena_trainers.lm import LMPolicy
from arena_trainers.offline.protocol import names
from arena_trainers.runs.resuming import start_arguments
from arena_trainers.runs.rows import RowRun
from arena_wrappers import Branching, play, write_episodes

SMALL = [
    "--tiny.hidden_size",
    16,
    "--tiny.num_layers",
    1,
    "--callbacks.eval_episodes",
    10,
]
SMALL += ["--evaluate_every", 2, "--logging_steps", 2, "--learning_rate", "1e-3"]


@pytest.fixture
def rows(arena_here, tmp_path, kuhn_env):
    """Makes a file of rows of random play, with the tokens of the tiny model."""

    def make(selector, *options, player="random", **choices):
        episodes = play(kuhn_env, player, range(30), **choices)
        write_episodes(tmp_path / "episodes.jsonl", episodes)
        words = [tmp_path / "episodes.jsonl", "--by", selector, *options]
        path = tmp_path / f"{selector}.parquet"
        done = arena_here("data", "select", *words, "--model", "tiny", "--out", path)
        assert done.returncode == 0, done.stderr
        return path

    return make


@pytest.fixture
def train(arena_here, tmp_path):
    def run(*words, status=0):
        done = arena_here("train", *words, cwd=tmp_path)
        assert done.returncode == status, done.stderr
        return done

    return run


def metrics(folder):
    """The logs without times, and without the tokens that TRL counts from a restart on."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    left = ("runtime", "per_second", "num_tokens")
    return [
        {k: v for k, v in json.loads(line).items() if not any(n in k for n in left)}
        for line in lines
    ]


def test_of_a_folder_of_splits_the_training_rows_are_read(
    arena_here, tmp_path, kuhn_env
):
    write_episodes(tmp_path / "e.jsonl", play(kuhn_env, "random", range(30)))
    words = ["data", "select", tmp_path / "e.jsonl", "--by", "wins", "--model", "tiny"]
    done = arena_here(*words, "--held-out", 0.3, "--out", tmp_path / "rows")
    train, test = (
        int(re.search(rf"wrote (\d+) rows to .*/{split}-", done.stdout)[1])
        for split in ("train", "test")
    )
    settings = {"trainer": "sft", "data": str(tmp_path / "rows"), "use_cpu": True}
    found = RowRun(settings, tmp_path / "run", Console(quiet=True))
    assert found.facts.num_rows == train > test > 0


def test_a_run_trains_resumes_to_the_same_model_and_plays(rows, train, tmp_path):
    words = ["--trainer", "sft", "--data", rows("wins"), *SMALL]
    words += ["--max_steps", 4, "--save_steps", 2, "--batch_size", 6]
    words += ["--max_tokens_per_forward", 80]
    done = train(*words, "--output-dir", "run")
    assert "80 tokens run at once (max_tokens_per_forward): 2 rows" in done.stdout
    run = tmp_path / "run"
    results = json.loads((run / "results.json").read_text())
    assert results["trainer"] == "sft"
    assert results["nash_conv"]["final"] > 0
    assert "by `sft` on rows" in (run / "README.md").read_text()
    prompt = json.loads((run / "model" / "arena_prompt.json").read_text())
    assert prompt["reply_format"] == "bare"
    assert not prompt["rules"]
    model = LMPolicy.from_pretrained(run / "model")
    assert play("kuhn_poker", model, [0])[0].turns[0].prompt_ids

    stopped = tmp_path / "stopped"
    shutil.copytree(run, stopped)
    shutil.rmtree(stopped / "checkpoint-4")
    shutil.rmtree(stopped / "model")
    (stopped / "results.json").unlink()
    train("--resume", "stopped")
    weights = "model/model.safetensors"
    assert (stopped / weights).read_bytes() == (run / weights).read_bytes()
    assert metrics(stopped)[:-1] == metrics(run)[:-1]  # the summary at the end
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["max_tokens_per_forward"] == 80


@pytest.mark.slow
def test_a_run_that_made_its_last_step_resumes_to_its_results_and_to_more_steps(
    rows, train, tmp_path
):
    words = ["--trainer", "sft", "--data", rows("wins"), *SMALL, "--max_steps", 1]
    train(*words, "--batch_size", 4, "--output-dir", "run")
    weights = tmp_path / "run" / "model" / "model.safetensors"
    before, results = weights.read_bytes(), tmp_path / "run" / "results.json"
    shutil.rmtree(weights.parent)
    results.unlink()
    train("--resume", "run")
    assert json.loads(results.read_text())["steps"] == 1
    assert weights.read_bytes() == before
    train("--resume", "run", "--max_steps", 2)
    rates = [m["learning_rate"] for m in metrics(weights.parents[1]) if "loss" in m]
    assert rates[-1] == pytest.approx(0.0005)  # half-way of two steps


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("dpo", marks=pytest.mark.slow),
        pytest.param("kto", marks=pytest.mark.slow),
        "reward",
    ],
)
def test_every_trainer_trains(rows, train, tmp_path, name):
    if name == "kto":
        path = rows("rule_labels")
    else:
        path = rows("branch_pairs", branch=Branching(3))
    words = ["--data", path, *SMALL, "--max_steps", 2, "--batch_size", 4]
    train("--trainer", name, *words, "--output-dir", "run")
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["steps"] == 2
    assert ("legal_rate" in results) == (name != "reward")
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    kind = "SequenceClassification" if name == "reward" else "CausalLM"
    assert config["architectures"] == [f"Qwen3For{kind}"]
    if name == "reward":
        for folder in ("model", "checkpoint-2"):
            text = (tmp_path / "run" / folder / "arena_prompt.json").read_text()
            assert json.loads(text)["reply_format"] == "bare"
        start = tmp_path / "run" / "start" / "config.json"
        start.write_text(
            start.read_text().replace('"hidden_size": 16', '"hidden_size": 8')
        )
        write_manifest(start.parent, files_of(start.parent))
        (tmp_path / "run" / "results.json").unlink()
        done = train("--resume", "run", status=2)
        assert "another model: hidden_size is 16, want 8" in done.stderr
        done = train("--trainer", "sft", *words, "--model", "run/model", status=2)
        assert "want a language model, got the reward model" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sft", "dpo", "kto", "reward"])
def test_every_trainer_reads_rows_of_an_agent(rows, train, tmp_path, name):
    selector = {"sft": "wins", "kto": "rule_labels"}.get(name, "branch_pairs")
    choices = {"branch": Branching(3)} if selector == "branch_pairs" else {}
    path = rows(selector, player="agent:planner_worker(random)", **choices)
    roles = Dataset.from_parquet(str(path), cache_dir=str(tmp_path / "cache"))["role"]
    assert {*roles} == {"planner", "worker"}
    words = ["--data", path, *SMALL, "--max_steps", 2, "--batch_size", 4]
    train("--trainer", name, *words, "--output-dir", "run")
    assert json.loads((tmp_path / "run" / "results.json").read_text())["steps"] == 2


PAGE = (Path(__file__).parents[3] / "docs" / "plugins.md").read_text()


def test_a_trainer_of_another_distribution_trains_and_is_evaluated(
    rows, train, tmp_path, monkeypatch
):
    """The plug-in of docs/plugins.md."""
    source = PAGE.partition("# my_trainer.py")[2].partition("```")[0]
    (tmp_path / "plain_rows.py").write_text(source)
    info = tmp_path / "plain-1.0.dist-info"
    info.mkdir()
    about = "Metadata-Version: 2.1\nName: plain\nVersion: 1.0\n"
    (info / "METADATA").write_text(about)
    entry = "[arena.trainers]\nplain = plain_rows:plain\n"
    (info / "entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(tmp_path)
    assert names() == ["dpo", "kto", "plain", "reward", "sft", "turn_grpo"]
    words = ["--data", rows("wins"), *SMALL, "--max_steps", 2, "--output-dir", "run"]
    train("--trainer", "plain", *words)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    (outcome,) = results["outcomes"].values()
    assert {row["opponent"] for row in outcome["evaluation"]} >= {"random"}
    assert (
        LMPolicy.from_pretrained(tmp_path / "run" / "model").prompt.reply_format
        == "bare"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sfft", "--data", "x.parquet"], "no trainer 'sfft'; did you mean 'sft'?"),
        (["sft"], "trainer 'sft' learns from rows; give --data FILE.parquet"),
        (["turn_grpo", "--data", "x.parquet"], "got self-play; give --trainer NAME"),
        (["sft", "--data", "x.parquet"], "want a file of rows as data, found none"),
        (["sft", "--data", "x.parquet", "--dry-run"], "--dry-run plans self-play"),
        (
            ["sft", "--data", "x.parquet", "--beta", "1"],
            "trainer 'sft' has no option 'beta'; arena",
        ),
        (
            ["sft", "--data", "x.parquet", "--gradient_accumulation_steps", "2"],
            "want batch_size alone, which is cut to fit the memory",
        ),
    ],
)
def test_bad_command_lines_are_refused_in_one_sentence(train, tmp_path, words, message):
    done = train("--trainer", *words, status=2)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_the_help_of_a_trainer_lists_its_own_options(train):
    told = train("--trainer", "dpo", "--help").stdout
    assert "--batch_size" in told
    assert "--episodes_per_step" not in told
    assert "--ld_alpha" not in told
    assert "--ld_alpha" in train("--trainer", "dpo", "--help-all").stdout


def test_a_run_that_stopped_early_is_started_anew_with_options_that_it_has(tmp_path):
    (tmp_path / "config.yaml").write_text("trainer: sft\n")
    assert start_arguments(tmp_path) == f"--model {tmp_path / 'start'}"
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    assert start_arguments(tmp_path).endswith(" --warm_start steps=0")


def test_kto_refuses_a_step_of_one_row(rows, train, tmp_path):
    words = ["--trainer", "kto", "--data", rows("rule_labels"), "--batch_size", 1]
    done = train(*words, "--output-dir", "run", status=2)
    assert "want batch_size of at least 2 for trainer 'kto', got 1" in done.stderr


def test_rows_longer_than_max_length_are_refused(rows, train, tmp_path):
    words = ["--trainer", "sft", "--data", rows("wins"), "--max_length", 5]
    done = train(*words, "--output-dir", "run", status=2)
    assert "want max_length of at least" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_imitation_of_cfr_comes_close_to_an_equilibrium(
    arena_here, train, tmp_path, kuhn_env
):
    write_episodes(tmp_path / "e.jsonl", play(kuhn_env, "cfr", range(1000)))
    words = ["e.jsonl", "--by", "wins", "-o", "above=-9", "--model", "tiny"]
    done = arena_here("data", "select", *words, "--out", "rows.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    words = ["--batch_size", 256, "--max_steps", 120, "--learning_rate", "3e-3"]
    train("--trainer", "sft", "--data", "rows.parquet", *words, "--output-dir", "run")
    model = LMPolicy.from_pretrained(tmp_path / "run" / "model")
    start = LMPolicy.from_pretrained(tmp_path / "run" / "start")
    game = kuhn_env().env.game
    assert exploitability(start, game).nash_conv > 0.5
    assert exploitability(model, game).nash_conv < 0.2
