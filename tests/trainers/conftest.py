"""Models small enough to be made on the spot, on one thread; `arena` in this process."""

import contextlib
import io
import runpy
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import arena_envs  # noqa: E402
from arena_trainers.lm import LMPolicy  # noqa: E402
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of  # noqa: E402
from arena_wrappers import PromptOptions, PromptWrapper  # noqa: E402

SHORT = PromptOptions("bare", rules=False)


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)  # two make a tiny model many times slower


@pytest.fixture(scope="session")
def tokenizer():
    games = [arena_envs.make_game("kuhn_poker", num_players=n) for n in (2, 3)]
    return tiny_tokenizer([text for game in games for text in words_of(game, SHORT)])


@pytest.fixture(scope="session")
def stand_in():
    """The module `stand_in.py` beside this file."""
    path = Path(__file__).with_name("stand_in.py")
    return SimpleNamespace(**runpy.run_path(str(path)))


@pytest.fixture
def policy(tokenizer):
    """A policy with random weights, sharp enough that its words differ in probability."""
    model = tiny_model(tokenizer, hidden_size=16, num_layers=1, seed=1)
    return LMPolicy(model.eval(), tokenizer, max_new_tokens=2)


@pytest.fixture
def kuhn_env():
    return lambda: PromptWrapper(arena_envs.make("kuhn_poker"), "bare", rules=False)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory, tokenizer):
    """A saved model that has learned to reply legally."""
    from arena_trainers.data import legal_play
    from arena_trainers.offline.warm_start import warm_start

    model = tiny_model(tokenizer, hidden_size=16, num_layers=1, seed=2)
    env_fns = [
        lambda n=n: PromptWrapper(
            arena_envs.make("kuhn_poker", num_players=n), "bare", rules=False
        )
        for n in (2, 3)
    ]
    policy = LMPolicy(model, tokenizer, prompt=SHORT, max_new_tokens=2)
    warm_start(
        policy,
        legal_play(env_fns, 200, seed=0),
        num_steps=60,
        learning_rate=1e-2,
        batch_size=64,
    )
    folder = tmp_path_factory.mktemp("model")
    policy.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def classifier(tokenizer):
    """A reward model whose score depends on every token, with random weights."""
    from transformers import Qwen3Config, Qwen3ForSequenceClassification

    options: dict[str, Any] = {"num_labels": 1}
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        **options,
        pad_token_id=tokenizer.pad_token_id,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=8,
        initializer_range=0.5,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Qwen3ForSequenceClassification(config).eval()


@pytest.fixture(scope="session")
def reward_folder(classifier, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reward")
    classifier.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def arena_here(monkeypatch):
    """Runs `arena` in this process: no second is spent on a start of Python.

    `typed` is what the person enters. What needs signals, limits of the system or other
    imports starts a process.
    """
    from arena_trainers.cli import main as cli

    def run(*arguments, cwd=None, typed=None, stderr=None):
        out, err = io.StringIO(), stderr or io.StringIO()
        status: str | int = 0
        monkeypatch.setattr(sys, "argv", ["arena", *map(str, arguments)])
        if typed is not None:
            monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.chdir(cwd or "."))
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(err))
            try:
                cli.main()
            except SystemExit as stopped:
                status = stopped.code or 0
        return subprocess.CompletedProcess(
            arguments, status, out.getvalue(), err.getvalue()
        )

    return run


@pytest.fixture
def copy_of(tmp_path):
    """Copies the folder of a model, with another `arena_prompt.json`: a text, or none."""

    def copy(folder, content, name="copy"):
        target = tmp_path / name
        shutil.copytree(folder, target)
        (target / "arena_prompt.json").unlink()
        if content is not None:
            (target / "arena_prompt.json").write_text(content)
        return target

    return copy


@pytest.fixture(scope="session")
def short_run():
    """Options of a `TurnGRPOConfig` for steps that take a fraction of a second."""
    return {
        "rules": False,
        "reply_format": "bare",
        "max_completion_length": 2,
        "max_steps": 1,
        "episodes_per_step": 8,
        "num_generations": 2,
        "learning_rate": 1e-3,
        "bf16": False,
        "gradient_checkpointing": False,
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        "seed": 3,
    }


@pytest.fixture
def settings(short_run, tmp_path):
    """Options of a short run in the folder of a test."""
    return {"output_dir": str(tmp_path / "out"), **short_run}


@pytest.fixture(scope="session")
def tiny_trainer(model_folder):
    """Makes trainers of the tiny model."""
    from transformers import AutoTokenizer

    from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer

    def make(columns=None, peft_config=None, **options):
        args = TurnGRPOConfig(**options)
        tokenizer = AutoTokenizer.from_pretrained(model_folder)
        given = {"columns": columns, "peft_config": peft_config}
        return TurnGRPOTrainer(
            str(model_folder), args, processing_class=tokenizer, **given
        )

    return make


@pytest.fixture
def make_trainer(tiny_trainer, settings):
    """Makes trainers of the tiny model; options override the settings."""
    return partial(tiny_trainer, **settings)


@pytest.fixture
def whole_and_resumed(make_trainer, tmp_path):
    """Trains two steps with a critic, and again from the checkpoint after one."""
    from arena_trainers.train import CRITIC

    def train(**options):
        options |= {"max_steps": 2, "save_strategy": "steps", "save_steps": 1}
        whole = make_trainer(output_dir=str(tmp_path / "whole"), **options)
        whole.train()
        checkpoint = tmp_path / "whole" / "checkpoint-1"
        assert (checkpoint / CRITIC).is_file()
        resumed = make_trainer(output_dir=str(tmp_path / "resumed"), **options)
        resumed.train(resume_from_checkpoint=str(checkpoint))
        return whole, resumed

    return train


@pytest.fixture(scope="session")
def generated():
    """The batch that TRL's loss reads, for one generation batch of starts."""

    def generate(trainer):
        starts = [
            trainer.train_dataset[i // 2 % len(trainer.train_dataset)]
            for i in range(trainer.args.episodes_per_step)
        ]
        trainer.model.train()
        return trainer._generate_and_score_completions(starts)

    return generate
