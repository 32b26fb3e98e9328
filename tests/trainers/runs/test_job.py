"""`arena train`: what a run leaves behind, and what stops it before it starts."""

import io
import json
import shlex
import shutil
import subprocess
import sys
from collections import Counter

import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from transformers import AutoModelForCausalLM

import arena_envs
from arena_envs.games.kuhn_poker import KuhnPoker
from arena_eval import exploitability
from arena_eval.rollouts import read_rollouts
from arena_studio.report.run_files import read_run_files
from arena_trainers import TurnGRPOConfig
from arena_trainers.checkpoint import fault, files_of, write_manifest
from arena_trainers.cli import main as cli
from arena_trainers.lm import LMPolicy
from arena_trainers.runs import closing_lines, load_recipe, read_metrics
from arena_trainers.runs.folder import read_config
from arena_trainers.runs.mappings import nested
from arena_trainers.runs.results.files import NUM_GROUPS
from arena_trainers.train import GamePlan
from arena_wrappers import PromptOptions, read_episodes, replay

SMALL = [
    "--tiny.hidden_size",
    "16",
    "--tiny.num_layers",
    "1",
    "--warm_start.steps",
    "20",
]
SMALL += ["--warm_start.episodes", "200"]
SMALL += ["--episodes_per_step", "8", "--max_steps", "4", "--save_steps", "2"]
SMALL += ["--num_generations", "2", "--credit_args", "{}"]
SMALL += [
    "--evaluate_every",
    "2",
    "--logging_steps",
    "2",
    "--callbacks.eval_episodes",
    "20",
]
SMALL += ["--callbacks.saved_groups", "0"]  # nor a report, which takes a second

EXACT = ["--credit", "counterfactual", "--critic", "exact"]


def arena(monkeypatch, *arguments):
    """Runs the command in this process; returns its exit status."""
    monkeypatch.setattr(sys, "argv", ["arena", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code


@pytest.fixture(scope="module")
def counted_run(tmp_path_factory):
    """The folder of a run, and how often it called two functions that take time."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    calls = Counter()

    def counted(function):
        def call(*args, **kwargs):
            calls[function.__qualname__] += 1
            return function(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for kind, name in ((KuhnPoker, "__init__"), (LMPolicy, "action_probs")):
            patch.setattr(kind, name, counted(getattr(kind, name)))
        options = [
            *SMALL,
            "--callbacks.saved_groups",
            2,
            "--seed",
            1,
            "--output-dir",
            folder,
        ]
        assert arena(patch, "train", *options) == 0
    return folder, calls


@pytest.fixture(scope="module")
def run_folder(counted_run):
    return counted_run[0]


def test_a_game_is_built_and_a_policy_scored_once(counted_run):
    """The quick checks build the game, then the job. Step 0, 2 and 4, the last, are scored, and
    exact returns read the scores of the last.

    The report builds the game of each episode that it shows, and `known_value` the default
    game.
    """
    folder, calls = counted_run
    shown = len(read_run_files(folder, NUM_GROUPS).episodes)
    assert calls == {"KuhnPoker.__init__": 3 + shown, "LMPolicy.action_probs": 3}


def test_results_say_what_was_reached_and_by_what(run_folder):
    results = json.loads((run_folder / "results.json").read_text())
    assert set(results["nash_conv"]) == {
        "uniform",
        "warm_start",
        "final",
        "last_quarter_mean",
    }
    assert results["nash_conv"]["uniform"] == pytest.approx(11 / 12)
    assert 0 < results["legal_rate"] <= 1
    assert results["seconds"] > 0 < results["episodes_per_second"]
    assert (results["games"], results["model"]) == (["kuhn_poker"], "tiny")
    assert (results["recipe"], results["seed"]) == ("kuhn-tiny", 1)
    assert results["credit"] == {
        "estimator": "control_variates",
        "args": {},
        "critic": None,
        "within_turn": "uniform",
    }
    assert results["versions"]["torch"] == torch.__version__
    assert {"python", "arena-envs", "transformers", "trl", "numpy"} <= set(
        results["versions"]
    )
    assert "--max_steps 4" in results["command"]
    assert "commit" in results


def test_the_end_scores_both_seats_against_random_play_and_the_solver(run_folder):
    results = json.loads((run_folder / "results.json").read_text())
    found = results["outcomes"]["kuhn_poker"]
    own = [row for row in found["evaluation"] if row["role"] == "policy"]
    seats = {(row["opponent"], row["seat"]) for row in own}
    assert seats >= {(name, seat) for name in ("random", "cfr") for seat in (0, 1)}
    assert all(row["low"] <= row["mean_return"] <= row["high"] for row in own)
    assert len(found["policy"]["decisions"]) == 12
    assert (run_folder / "policy.png").read_bytes()[:4] == b"\x89PNG"


def test_training_groups_are_kept_at_each_logging_step(run_folder):
    assert {p.name for p in (run_folder / "rollouts").iterdir()} == {
        "step-2.jsonl",
        "step-4.jsonl",
    }
    rollouts = list(read_rollouts(run_folder / "rollouts" / "step-4.jsonl"))
    assert len(rollouts) == 2 * 2  # groups of two
    assert len({rollout.episode.seed for rollout in rollouts}) == 2
    for episode, credit in rollouts:
        replay(episode)
        assert all(entry.estimator == "control_variates" for entry in credit)


def test_the_lines_that_a_run_prints_at_its_end_work(run_folder, monkeypatch, capfd):
    args = TurnGRPOConfig(use_cpu=True, bf16=False)
    games = [GamePlan("kuhn_poker", args)]
    lines = [
        shlex.split(line)
        for line in closing_lines(run_folder, games, args)
        if line.startswith("  arena ")
    ]
    assert [line[1] for line in lines] == ["eval", "play", *2 * ["replay"]]
    for line in lines:
        monkeypatch.setattr("sys.stdin", io.StringIO("bet\nbet\n"))
        assert arena(monkeypatch, *line[1:]) == 0, line
    assert "advantage" in capfd.readouterr().out


@pytest.mark.parametrize("place", [".", "model"])
def test_the_commands_of_a_model_card_work_in_its_folder(
    run_folder, place, monkeypatch, capfd
):
    monkeypatch.chdir(run_folder / place)
    card = ModelCard.load("README.md")
    assert (card.data.license, card.data.library_name) == ("unknown", "transformers")
    assert "| cfr | 0 | 20 |" in card.text
    block = card.text.partition("```sh\n")[2].partition("```")[0]
    lines = [shlex.split(line) for line in block.splitlines()]
    shown = [] if place == "model" else 2 * ["replay"]
    assert [line[1] for line in lines] == ["eval", "play", *shown]
    for _, *words in lines:
        monkeypatch.setattr("sys.stdin", io.StringIO("bet\nbet\n"))
        few = ["-n", "2"] if words[0] == "eval" else []
        assert arena(monkeypatch, *words, *few) == 0, words


def test_the_saved_model_has_the_nash_conv_of_the_results(run_folder):
    """The checkpoint loads with transformers alone, and is the policy that was measured."""
    AutoModelForCausalLM.from_pretrained(run_folder / "model")
    policy = LMPolicy.from_pretrained(run_folder / "model")
    found = exploitability(policy, arena_envs.make_game("kuhn_poker"))
    results = json.loads((run_folder / "results.json").read_text())
    assert found.nash_conv == pytest.approx(results["nash_conv"]["final"], abs=1e-5)


def test_every_model_of_a_run_is_prompted_as_it_was_trained(run_folder):
    folders = [run_folder / name for name in ("start", "checkpoint-2", "model")]
    for folder in folders:
        policy = LMPolicy.from_pretrained(folder)
        assert policy.prompt == PromptOptions("bare", False, parsing="strict")
        assert policy.sampling.max_new_tokens == 2


def test_saved_episodes_replay(run_folder):
    episodes = list(read_episodes(run_folder / "episodes.jsonl"))
    assert len(episodes) == 20
    for episode in episodes:
        replay(episode)


def test_a_report_is_written_at_the_end(run_folder):
    lines = closing_lines(run_folder, [], TurnGRPOConfig(use_cpu=True, bf16=False))
    assert "look at episodes after training and in training (with credit):" in lines
    assert lines[lines.index("see the run as a page:") + 1] == (
        f"  {run_folder / 'report.html'}"
    )
    page = (run_folder / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "What this run lacks" not in page  # the results stand in it, too


def test_metrics_and_curves_are_there(run_folder):
    lines = (run_folder / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [r["step"] for r in records if "arena/nash_conv" in r][:3] == [0, 2, 4]
    assert records[0]["arena/legal_rate"] > 0
    assert (run_folder / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert yaml.safe_load((run_folder / "config.yaml").read_text())["seed"] == 1


@pytest.mark.slow
def test_the_config_of_a_run_repeats_it_also_if_it_is_stopped_and_resumed(
    run_folder, tmp_path, monkeypatch, capfd
):
    """Killed after step 2 and resumed, it ends as the run that was not."""
    folder = tmp_path / "killed"
    config = run_folder / "config.yaml"

    def kill(self, args, state, control, **_):
        if state.global_step == 2:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "arena_trainers.runs.callbacks.metrics_file.MetricsFile.on_step_begin",
            kill,
            raising=False,
        )
        assert arena(patch, "train", config, "--output-dir", folder) == 130
    assert not (folder / "results.json").exists()
    assert (folder / "config.yaml").read_text() == config.read_text()
    assert arena(monkeypatch, "train", "--resume", folder) == 0
    whole = AutoModelForCausalLM.from_pretrained(run_folder / "model").state_dict()
    again = AutoModelForCausalLM.from_pretrained(folder / "model").state_dict()
    assert all(torch.equal(tensor, again[name]) for name, tensor in whole.items())
    exact = [
        json.loads((path / "results.json").read_text())["nash_conv"]
        for path in (run_folder, folder)
    ]
    assert exact[0] == exact[1]  # what was measured before the interruption counts
    best = [(p / "best" / "best.json").read_text() for p in (run_folder, folder)]
    assert best[0] == best[1]
    steps = [r["step"] for r in read_metrics(folder / "metrics.jsonl") if "loss" in r]
    assert steps == [2, 4]
    lines = capfd.readouterr().out.splitlines()  # no terminal: a line at each log
    shown = [line for line in lines if line.startswith("step ")]
    assert [line.split()[1] for line in shown] == ["2/4", "4/4"]
    for word in ("legal", "NashConv", "return", "episodes/s", "left"):
        assert word in shown[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_nash_conv_is_logged_when_it_is_measured(tmp_path, monkeypatch):
    """Also between the steps that are logged otherwise."""
    options = [*SMALL, "--logging_steps", 2, "--evaluate_every", 1, "--max_steps", 2]
    options += ["--warm_start.steps", 0]
    folder = tmp_path / "run"
    assert arena(monkeypatch, "train", *options, "--output-dir", folder) == 0
    records = read_metrics(folder / "metrics.jsonl")
    assert [r["step"] for r in records if "arena/nash_conv" in r][:3] == [0, 1, 2]
    assert yaml.safe_load((folder / "config.yaml").read_text())["seed"] == 42


@pytest.mark.slow
def test_a_transcript_of_a_recipe_with_options_has_no_exact_evaluation(
    tmp_path, monkeypatch
):
    """Enumeration prompts states, and a transcript is more than a state."""
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(yaml.safe_dump(nested(load_recipe("kuhn-tiny") | {"seed": 5})))
    folder = tmp_path / "run"
    options = [*SMALL, "--prompt.history", "transcript", "--max-steps=1"]
    options += ["--output-dir", folder]
    assert arena(monkeypatch, "train", recipe, *options) == 0
    results = json.loads((folder / "results.json").read_text())
    assert results["nash_conv"]["final"] is None
    saved = yaml.safe_load((folder / "config.yaml").read_text())
    assert (saved["seed"], saved["max_steps"]) == (5, 1)
    assert not (folder / "rollouts").exists()


@pytest.mark.slow
def test_a_given_model_is_trained_by_its_own_recipe(run_folder, tmp_path, monkeypatch):
    """No imitation and a small learning rate: a pretrained model keeps what it knows."""
    folder = tmp_path / "run"
    options = [
        "--model",
        run_folder / "model",
        "--max_steps",
        1,
        "--prompt.rules",
        "false",
    ]
    options += ["--prompt.reply_format", "bare", "--max_completion_length", 2]
    assert arena(monkeypatch, "train", *options, "--output-dir", folder) == 0
    saved = yaml.safe_load((folder / "config.yaml").read_text())
    assert saved["learning_rate"] == 1e-6
    assert "warm_start_steps" not in saved
    assert not (folder / "start").exists()


def test_a_finished_run_is_not_resumed_to_the_same_steps(
    run_folder, monkeypatch, capfd
):
    before = (run_folder / "results.json").read_text()
    assert arena(monkeypatch, "train", "--resume", run_folder) == 2
    error = capfd.readouterr().err
    assert (
        f"is finished; to train it longer: arena train --resume {run_folder}" in error
    )
    resume = ["train", "--resume", run_folder, "--max_steps"]
    assert arena(monkeypatch, *resume, 4) == 2
    assert "want max_steps above 4" in capfd.readouterr().err
    assert arena(monkeypatch, *resume, "many") == 2
    assert "want an integer as max_steps, got 'many'" in capfd.readouterr().err
    assert (run_folder / "results.json").read_text() == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_a_finished_run_goes_on_to_more_steps_with_the_schedule_of_all(
    run_folder, tmp_path, monkeypatch, capfd
):
    """Its learning rate was 0 at step 4; in a run of 8 steps it is half of the first."""
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    options = ["--resume", folder, "--max_steps", 8]
    assert arena(monkeypatch, "train", *options) == 0
    assert "going on after step 4 of 8, from the last weights" in capfd.readouterr().out
    rates = {
        r["step"]: r["learning_rate"]
        for r in read_metrics(folder / "metrics.jsonl")
        if "learning_rate" in r
    }
    # the rate with which the step was made: linear, from 1e-3 before the first
    assert rates[2] == pytest.approx(3 / 4 * 1e-3)  # of 4
    assert rates[6] == pytest.approx(3 / 8 * 1e-3)  # of 8
    assert rates[8] == pytest.approx(1 / 8 * 1e-3)
    assert yaml.safe_load((folder / "config.yaml").read_text())["max_steps"] == 8
    assert (folder / "results-step-4.json").is_file()
    assert (folder / "results.json").is_file()


@pytest.mark.parametrize(
    ("lacking", "message"),
    [
        ("config.yaml", "without config.yaml"),
        ("checkpoint-*", "start it anew: arena train"),
        ("checkpoint-*/credit_state.json", "has no checkpoint to resume from"),
    ],
)
def test_resuming_without_a_checkpoint_says_what_would_do(
    lacking, message, run_folder, tmp_path, monkeypatch, capfd
):
    """A checkpoint that was interrupted is none."""
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    for path in folder.glob(lacking):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert arena(monkeypatch, "train", "--resume", folder) == 2
    error = capfd.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_checkpoint_of_another_model_is_refused(
    run_folder, tmp_path, monkeypatch, capfd
):
    folder = tmp_path / "other"
    shutil.copytree(run_folder, folder)
    (folder / "results.json").unlink()
    config = folder / "start" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"hidden_size": 32}))
    assert arena(monkeypatch, "train", "--resume", folder) == 2
    assert "as the run wrote them: config.json has" in capfd.readouterr().err
    write_manifest(config.parent, files_of(config.parent))
    assert arena(monkeypatch, "train", "--resume", folder) == 2
    assert "is of another model: hidden_size is 16, want 32" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--games", "[khun_poker]"], "did you mean 'kuhn_poker"),
        (["--learning_rat", "1"], "unknown option 'learning_rat'; did you mean"),
        (["--recipe", "spiral"], "name the recipe without it, as in: arena train"),
        (["--seed", "one"], "want an integer as seed, got 'one'"),
        (["--seed", "1.5"], "want an integer as seed, got 1.5"),
        (["--seed", "-1"], "want seed from 0 to 2**32 - 1, got -1"),
        (["--prompt.reply_format", "bear"], "did you mean 'bare'"),
        (["--seed"], "option --seed lacks a value"),
        (["no_such.yaml"], "want a recipe file, found none at 'no_such.yaml'"),
        (["--model", "no/such/folder"], "want a folder with a saved model"),
        (["--tiny.hidden_size", "-3"], "want hidden_size of at least 4, got -3"),
        (["--resume", "no/such/run"], "want a run folder to resume"),
        (["--credit", "mras"], "did you mean 'mars'"),
        (["--prompt.rules", "perhaps"], "want true or false as rules, got 'perhaps'"),
        (["--games", "[kuhn_poker"], "--games cannot be read as YAML"),
        (["--games", "[]"], "want games as a list of ids or dicts, got []"),
        (["--games", "[3]"], "want a game as id or dict"),
        (["--games", "[{id: kuhn_poker, params: 3}]"], "want params of kuhn_poker"),
        (
            ["--games", "[{id: kuhn_poker, weight: -1}]"],
            "want weight of kuhn_poker above",
        ),
        (
            ["--games", "[mini_hanabi]", "--max_completion_length", "2"],
            "the length of legal replies of mini_hanabi in tokens, got 2",
        ),
        (["--opponents", "3"], "want opponents as a string or a list, got 3"),
        (["--opponents", "[self, 'lm:no/such']"], "hf download no/such"),
        (["--part_weights", "3"], "want a mapping as part_weights, got 3"),
        (
            ["--credit", "adca"],
            "set columns={'rewards.judge': 'my_module:my_function'}",
        ),
        (["--part_weights", "{gme: 1}"], "did you mean 'game'"),
        (
            ["--within_turn", "values"],
            "'control_variates' with within_turn='values' needs",
        ),
        (["--credit_args", "mars"], "want a mapping as credit_args, got 'mars'"),
        (["--credit", "mars", "--credit_args", "{pool: [sea]}"], "'sea'"),
        (["--seed", "99999999999999999999"], "want seed from 0 to 2**32 - 1"),
        (["--temperature", "0"], "want temperature above 0, got 0.0"),
        (["--learning_rate", "nan"], "want learning_rate of at least 0, got nan"),
        (["--max_completion_length", "0"], "max_completion_length"),
        (["--loss_type", "foo"], "want loss_type from"),
        (["--warm_start.episodes", "0"], "want warm_start_episodes of at least 1"),
        (["--warm_start.teacher", "cfrr"], "no policy 'cfrr'; did you mean 'cfr"),
        (
            ["--max_tokens_per_forward", "0"],
            "want max_tokens_per_forward of at least 1",
        ),
        (["--scale_rewards", "batch"], "does not support scale_rewards"),
        (
            ["--save_steps", "3", "--num_iterations", "2"],
            "got 3; give --save_steps 2 or 4",
        ),
        ([*EXACT, "--top_k", "5"], "critic='exact' takes top_k 0, got 5"),
        ([*EXACT, "--opponents", "[self, 'ismcts:10']"], "got 'ismcts:10' in seat 1"),
        (["--output-dir", "/proc/no/such"], "/proc/no/such"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_leaves_nothing(
    arguments, message, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert arena(monkeypatch, "train", *arguments) == 2
    error = capfd.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_refused_and_left_alone(tmp_path, monkeypatch, capfd):
    (tmp_path / "notes.txt").write_text("mine")
    assert arena(monkeypatch, "train", "--output-dir", tmp_path) == 2
    assert "want an empty or new run folder" in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch, capfd):
    (tmp_path / "file").write_text("")
    assert arena(monkeypatch, "train", "--output-dir", tmp_path / "file" / "run") == 2
    assert "cannot write to run folder" in capfd.readouterr().err


def test_without_the_extra_the_command_says_what_to_install():
    """torch is made unimportable; the command itself still starts."""
    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['transformers'] = None\n"
        "from arena_trainers.cli.main import main\n"
        "sys.argv = ['arena', 'train']\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "pip install '.[train]'" in done.stderr
    assert done.stderr.count("\n") == 1


def of_step(run_folder, folder, step):
    """A copy of a run that ended after this step."""
    shutil.copytree(run_folder, folder)
    (folder / "results.json").unlink()
    shutil.rmtree(folder / "model")
    for path in folder.glob("checkpoint-*"):
        if int(path.name.partition("-")[2]) > step:
            shutil.rmtree(path)
    return folder


@pytest.mark.parametrize(
    "name",
    [
        "optimizer.pt",
        pytest.param("rng_state.pth", marks=pytest.mark.slow),
        pytest.param("credit_state.json", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_a_checkpoint_without_a_file_is_skipped_and_the_run_ends_alike(
    run_folder, tmp_path, monkeypatch, capfd, name
):
    folder = of_step(run_folder, tmp_path / "run", 4)
    (folder / "checkpoint-4" / name).unlink()
    assert arena(monkeypatch, "train", "--resume", folder) == 0
    told = capfd.readouterr().out
    assert f"skipped checkpoint-4: {name} is missing" in told
    assert "going on after step 2 of 4" in told
    whole, again = (
        AutoModelForCausalLM.from_pretrained(path / "model").state_dict()
        for path in (run_folder, folder)
    )
    assert all(torch.equal(tensor, again[name]) for name, tensor in whole.items())
    assert fault(folder / "checkpoint-4") is None


def test_a_run_whose_only_checkpoint_is_truncated_is_refused_in_one_sentence(
    run_folder, tmp_path, monkeypatch, capfd
):
    folder = of_step(run_folder, tmp_path / "run", 2)
    path = folder / "checkpoint-2" / "model.safetensors"
    with open(path, "rb+") as file:
        file.truncate(100)
    assert arena(monkeypatch, "train", "--resume", folder) == 2
    error = capfd.readouterr().err
    assert "no checkpoint to resume from (checkpoint-2: model.safetensors has" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", ["learning_rate", "max_steps"])
def test_an_edited_config_is_refused_with_the_difference(
    run_folder, tmp_path, monkeypatch, capfd, name
):
    folder = of_step(run_folder, tmp_path / "run", 2)
    settings = read_config(folder)
    (folder / "config.yaml").write_text(yaml.safe_dump(nested({**settings, name: 7})))
    assert arena(monkeypatch, "train", "--resume", folder) == 2
    error = capfd.readouterr().err
    assert f"run wrote it: {name} is 7, was {settings[name]!r}; a resumed" in error
    assert error.count("\n") == 1
    (copy,) = (line for line in error.split("(") if line.startswith("cp "))
    shutil.copy(*shlex.split(copy.partition(";")[0])[1:])
    assert read_config(folder) == settings


@pytest.mark.slow
def test_a_run_need_not_measure_its_start(arena_here, tmp_path):
    run = tmp_path / "run"
    options = [*SMALL, "--callbacks.measure_start", "false", "--output-dir", run]
    assert arena_here("train", *options).returncode == 0
    results = json.loads((run / "results.json").read_text())
    assert results["nash_conv"]["warm_start"] is None
    assert results["nash_conv"]["final"] is not None
    (outcome,) = results["outcomes"].values()
    names = [stage["name"] for stage in outcome["stages"]]
    assert names == ["uniform random", "after self-play"]
    assert read_metrics(run / "metrics.jsonl")[0]["step"] > 0
