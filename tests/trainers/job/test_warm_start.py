"""The supervised start is TRL's, whatever the size of its micro-batches."""

import random

import numpy as np
import pytest
import torch

import arena_envs
from arena_trainers.data import legal_play
from arena_trainers.job.tiny import tiny_model
from arena_trainers.job.warm_start import default_learning_rate, warm_start
from arena_trainers.lm.policy import LMPolicy
from arena_wrappers import PromptWrapper


def env():
    return PromptWrapper(arena_envs.make("kuhn_poker"), "bare", rules=False)


def trained(tokenizer, **options):
    model = tiny_model(tokenizer, hidden_size=16, num_layers=1, seed=1)
    examples = legal_play([env], 40, seed=0)
    settings = {"num_steps": 3, "batch_size": 8, "learning_rate": 1e-2} | options
    losses = warm_start(LMPolicy(model, tokenizer), examples, **settings)
    return losses, torch.cat([p.detach().flatten() for p in model.parameters()])


def test_the_bound_of_tokens_changes_nothing(tokenizer):
    """Replies have one token and their end each, so that every micro-batch weighs alike."""
    whole, one = trained(tokenizer), trained(tokenizer, max_tokens=1)
    assert whole[0] == pytest.approx(one[0], abs=1e-4)
    torch.testing.assert_close(whole[1], one[1], atol=1e-5, rtol=0)


def test_losses_fall_and_are_told(tokenizer):
    told = []
    losses, _ = trained(
        tokenizer, num_steps=30, on_step=lambda *step: told.append(step)
    )
    assert told == list(enumerate(losses, start=1))
    assert losses[-1] < losses[0] / 2


def test_global_random_generators_are_as_before(tokenizer):
    def drawn():
        return random.random(), np.random.random(), float(torch.rand(()))

    seeds = (random.getstate(), np.random.get_state(), torch.get_rng_state())
    first = drawn()
    random.setstate(seeds[0])
    np.random.set_state(seeds[1])
    torch.set_rng_state(seeds[2])
    trained(tokenizer, num_steps=1)
    assert drawn() == first


def test_no_examples_are_refused(tokenizer):
    model = tiny_model(tokenizer, hidden_size=16, num_layers=1)
    with pytest.raises(ValueError, match="want examples to imitate, got none"):
        warm_start(LMPolicy(model, tokenizer), [], num_steps=1)


def test_larger_models_learn_slower():
    rates = [default_learning_rate(n) for n in (10**4, 10**5, 135 * 10**6, 4 * 10**9)]
    assert rates == pytest.approx([3e-3, 3e-3, 2.46e-5, 2.57e-6], rel=0.01)
