"""The supervised start: replies alone are trained, in micro-batches of any size."""

import math
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from rich.console import Console
from transformers import AutoModelForCausalLM, AutoTokenizer

from arena_trainers.data import legal_play
from arena_trainers.lm import LMPolicy
from arena_trainers.offline.warm_start import (
    _ByLength,
    _cut,
    default_learning_rate,
    warm_start,
)
from arena_trainers.runs import build_configs, tiny_model
from arena_trainers.runs.start import imitated, make_start
from arena_trainers.train import GamePlan


@pytest.fixture
def started(tokenizer, kuhn_env):
    """A policy after a few steps, and their losses."""

    def start(num_steps=4, **options):
        model = tiny_model(tokenizer, hidden_size=16, num_layers=1, seed=1).eval()
        policy = LMPolicy(model, tokenizer, max_new_tokens=2)
        examples = legal_play([kuhn_env], 40, seed=0)
        sizes = {"num_steps": num_steps, "batch_size": 24, **options}
        return policy, warm_start(policy, examples, **sizes)

    return start


@pytest.mark.slow
def test_micro_batches_change_nothing(started):
    whole, losses = started(max_tokens=10_000)
    parts, same = started(max_tokens=100)
    assert len(losses) == 4
    assert same == pytest.approx(losses, abs=1e-5)
    found, wanted = parts.model.state_dict(), whole.model.state_dict()
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("num_processes", [1, 2, 3])
@pytest.mark.parametrize("most", [1, 33, 34, 99, 100, 1000])
def test_a_step_has_as_many_rows_as_batch_size_says(num_processes, most):
    cut = _cut(100, num_processes, most)
    assert cut.batch_size == 100  # also where processes have uneven shares
    assert cut.at_once <= most


def test_the_last_step_of_an_epoch_has_the_rows_that_are_left(started):
    """Three processes would else fill it up with other rows than two."""
    _, losses = started(num_steps=2, batch_size=1000)
    _, same = started(num_steps=2, batch_size=1000, max_tokens=500)
    assert same == pytest.approx(losses, abs=1e-5)


def test_equal_rows_run_once_and_prompts_are_not_scored(started, monkeypatch):
    from trl.trainer import utils

    scored, inner = [], utils._ChunkedLogProbFunction.apply

    def score(hidden, *args):
        scored.append(len(hidden))
        return inner(hidden, *args)

    monkeypatch.setattr(utils._ChunkedLogProbFunction, "apply", score)
    started(num_steps=1)
    assert len(scored) == 1
    assert 0 < scored[0] < 2 * 24  # two tokens of each distinct row


def test_the_first_loss_is_that_of_the_reply_and_its_end(tokenizer, kuhn_env, started):
    """By a plain forward pass over the only example."""
    model = tiny_model(tokenizer, hidden_size=16, num_layers=1, seed=1).eval()
    policy = LMPolicy(model, tokenizer, max_new_tokens=2)
    (example, *_) = legal_play([kuhn_env], 1, seed=0)
    prompt = policy.encode(example.messages)
    reply = [*policy.chat.ids(example.reply), policy.eos_ids[0]]
    with torch.no_grad():
        logprobs = model(torch.tensor([prompt + reply])).logits[0].log_softmax(-1)
    wanted = -sum(
        float(logprobs[len(prompt) - 1 + i, token]) for i, token in enumerate(reply)
    )
    (loss,) = warm_start(policy, [example], num_steps=1, batch_size=1)
    assert loss == pytest.approx(wanted / len(reply), rel=1e-4)


def test_rows_of_a_step_are_ordered_by_length():
    lengths = [9, 1, 8, 2, 7, 3, 6, 4]
    order = list(_ByLength(lengths, 4, seed=0))
    assert sorted(order) == list(range(8))
    for rows in (order[:4], order[4:]):
        assert rows == sorted(rows, key=lengths.__getitem__)


def test_other_games_than_those_of_self_play_may_be_imitated(tmp_path):
    games = ["kuhn_poker", {"id": "nim", "params": {"pile_sizes": [2]}}]
    settings = {"warm_start_steps": 1, "warm_start_games": games}
    job, args = build_configs(settings, str(tmp_path))
    plans = [GamePlan("tic_tac_toe", args)]
    assert [p.name for p in imitated(job, args, plans)] == [
        "kuhn_poker",
        "nim(pile_sizes=[2])",
    ]
    job, args = build_configs({"warm_start_steps": 1}, str(tmp_path))
    assert imitated(job, args, plans) == plans


def test_the_model_is_left_as_it_was_but_for_its_weights(started):
    policy, losses = started()
    assert losses[-1] < losses[0]
    assert not policy.model.training
    assert "forward" not in vars(policy.model)


def test_the_learning_rate_falls_with_the_size_of_the_model():
    assert default_learning_rate(82_000) == 3e-3
    assert math.isclose(default_learning_rate(135_000_000), 2.5e-5, rel_tol=0.05)


def test_global_random_generators_are_as_before(started):
    def drawn():
        return random.random(), np.random.random(), float(torch.rand(()))

    seeds = (random.getstate(), np.random.get_state(), torch.get_rng_state())
    first = drawn()
    random.setstate(seeds[0])
    np.random.set_state(seeds[1])
    torch.set_rng_state(seeds[2])
    started(num_steps=1)
    assert drawn() == first


@pytest.mark.slow
def test_a_trainer_of_another_precision_may_follow(started):
    started(num_steps=1)
    try:
        following = Accelerator(mixed_precision="bf16", cpu=True)
        assert following.mixed_precision == "bf16"
    finally:
        AcceleratorState._reset_state()


def test_examples_that_outgrow_the_context_are_left_out(started, policy, kuhn_env):
    policy.max_context = 9
    with pytest.raises(ValueError, match="want examples of at most 9 tokens"):
        warm_start(policy, legal_play([kuhn_env], 8, seed=0), num_steps=1)


def test_no_examples_are_refused(tokenizer):
    model = tiny_model(tokenizer, hidden_size=16, num_layers=1)
    with pytest.raises(ValueError, match="want examples to imitate, got none"):
        warm_start(LMPolicy(model, tokenizer), [], num_steps=1)


def test_the_start_shows_the_models_own_prompts_and_keeps_its_precision(
    tmp_path, model_folder
):
    """A template with an option, a model in bfloat16; with activations computed again."""
    folder, chat = tmp_path / "half", {"enable_thinking": False}
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    tokenizer.chat_template += "{{ '<|unk|>' if enable_thinking is false }}"
    tokenizer.save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    unknown, seen, dtypes = tokenizer.unk_token_id, [], set()
    settings = {"warm_start_steps": 2, "warm_start_batch_size": 8, "rules": False}
    settings |= {"reply_format": "bare", "chat_template_kwargs": chat, "use_cpu": True}
    settings |= {"bf16": False, "gradient_checkpointing": True}
    job, args = build_configs(settings, str(tmp_path / "run"))
    plans = [GamePlan("kuhn_poker", args)]

    def note(module, inputs, output):
        if isinstance(module, torch.nn.Embedding):
            seen.extend((inputs[0] == unknown).any(dim=1).tolist())
            dtypes.add(output.dtype)

    hook = torch.nn.modules.module.register_module_forward_hook(note)
    try:
        started = make_start(job, args, folder, tokenizer, plans, Console(quiet=True))
    finally:
        hook.remove()
    assert seen
    assert all(seen)
    assert dtypes == {torch.float32}
    assert started.dtype == torch.bfloat16
    assert not any(
        getattr(m, "gradient_checkpointing", False) for m in started.modules()
    )


@pytest.mark.slow
def test_three_processes_end_with_the_weights_of_one(tmp_path):
    script = Path(__file__).with_name("warm_start_script.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    weights = []
    for num in ("1", "3"):
        file = tmp_path / f"{num}.pt"
        command = [sys.executable, str(script), num, str(file)]
        subprocess.run(command, env=environment, check=True, timeout=200)
        weights.append(torch.load(file, weights_only=True))
    torch.testing.assert_close(*weights, atol=1e-5, rtol=0)
