"""What a user does next with an adapter: mistakes say what to do."""

import os
import re
import shlex

import pytest

from arena_trainers.cli import main as cli
from arena_trainers.lm import LMPolicy, adapter_base
from arena_trainers.runs import JobConfig

SHORT = [
    "--prompt.rules",
    "false",
    "--prompt.reply_format",
    "bare",
    "--max_completion_length",
    "2",
]
SMALL = [
    "--max_steps",
    "1",
    "--episodes_per_step",
    "16",
    "--callbacks.eval_episodes",
    "4",
]


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["arena", *map(str, arguments)])
    with pytest.raises(SystemExit) as done:
        cli.main()
    return done.value.code or 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_an_adapter_is_found_from_another_folder(tmp_path, monkeypatch, model_folder):
    """Also where its base has the name of its own folder."""
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "model").symlink_to(model_folder)
    monkeypatch.chdir(tmp_path)
    options = ["--model", "first/model", "--lora.r", "2", "--output-dir", "second"]
    assert run(monkeypatch, "train", *options, *SHORT, *SMALL) == 0
    os.chdir("/")
    adapter = tmp_path / "second" / "model"
    assert adapter_base(str(adapter)) == str(tmp_path / "first" / "model")
    assert LMPolicy.from_pretrained(adapter, device="cpu").prompt is not None


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        (
            "{planner: {lora_r: 2}, worker: {lora_r: 3}}",
            "roles or seats planner (2), worker (3), with their ranks",
        ),
        (
            "{planner: {model: M}, worker: {}}",
            "a whole model for each of planner (from `M`), worker",
        ),
    ],
)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_learners_of_two_roles_resume_and_play(
    tmp_path, monkeypatch, model_folder, roles, said
):
    """The run's model card has the command that plays them."""
    monkeypatch.chdir(tmp_path)
    two = roles.replace("M", str(model_folder))
    options = ["--agent", "planner_worker", "--roles", two, "--save_steps", "1"]
    options += ["--model", model_folder, "--output-dir", "run"]
    assert run(monkeypatch, "train", *options, *SHORT, *SMALL) == 0
    assert run(monkeypatch, "train", "--resume", "run", "--max_steps", "2") == 0
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert said.replace("`M`", f"`{model_folder.name}`") in card
    (line,) = re.findall(r"^arena (eval .*)$", card, re.MULTILINE)
    monkeypatch.chdir(tmp_path / "run" / "model")
    assert run(monkeypatch, *shlex.split(line), "-n", "2", "--no-baselines") == 0


def test_layers_that_a_model_lacks_are_refused(
    tmp_path, monkeypatch, capsys, model_folder
):
    options = [
        "--model",
        model_folder,
        "--lora.r",
        "2",
        "--output-dir",
        tmp_path / "run",
    ]
    options += ["--lora.target_modules", "nonsense"]
    assert run(monkeypatch, "train", *options, *SHORT, *SMALL) == 2
    assert "want lora_target_modules that name linear layers" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_teacher_needs_a_supervised_start():
    with pytest.raises(
        ValueError, match="needs a supervised start; give --warm_start st"
    ):
        JobConfig(warm_start_teacher="cfr")
