"""`noisy:P(lm:PATH)`: a model within noise is read, sampled and placed like a bare one."""

import json
from typing import Any

import pytest
import torch

from arena_eval import evaluate
from arena_trainers import LMPolicy, TurnGRPOConfig
from arena_trainers.cli.options import PolicyOptions
from arena_trainers.lm import policy as lm_policy
from arena_trainers.runs import check_policies
from arena_trainers.train import GamePlan, opponents
from arena_wrappers import Policy
from arena_wrappers.policies import without_noise


def inner_model(policy: Policy) -> LMPolicy:
    inner = without_noise(policy)
    assert isinstance(inner, LMPolicy)
    return inner


def test_a_noisy_model_replies_as_legally_as_the_bare_one(model_folder):
    noisy, bare = (
        evaluate(spec, "kuhn_poker", ["random"], 40, baselines=False).rows[-1].invalid
        for spec in (f"noisy:0.1(lm:{model_folder})", f"lm:{model_folder}")
    )
    assert sum(noisy.values()) <= sum(bare.values()) + 0.05


def test_sampling_options_of_a_command_reach_a_noisy_model(model_folder):
    spec = f"noisy:0.1(noisy:0.2(lm:{model_folder}))"
    noisy, other, itself = PolicyOptions(sampling={"max_new_tokens": 3}).policies(
        [spec, "minimax", "self"]
    )
    assert inner_model(noisy).sampling.max_new_tokens == 3
    assert (noisy.name, other.name, itself) == (spec, "minimax", "self")
    with pytest.raises(ValueError, match="--sampling needs a policy lm:PATH"):
        PolicyOptions(sampling={"max_new_tokens": 3}).policies(["noisy:0.1(random)"])


def test_a_noisy_opponent_in_training_samples_as_its_file_says_on_the_device(
    model_folder, copy_of, settings
):
    text = json.dumps({"reply_format": "bare", "max_new_tokens": 3, "top_k": 2})
    spec = f"noisy:0.5(lm:{copy_of(model_folder, text)})"
    args = TurnGRPOConfig(**{**settings, "opponents": ["self", spec]})
    found: Any = opponents([GamePlan("kuhn_poker", args)], args, {})[spec]
    inner = inner_model(found)
    assert (inner.sampling.max_new_tokens, inner.sampling.top_k) == (3, 2)
    assert inner.batch_size == args.rollout_batch_size
    assert inner.model.device == torch.device(args.device)
    assert found.prompt.reply_format == "bare"


def test_preflight_loads_no_model_within_noise(model_folder, tmp_path, monkeypatch):
    def load(path, **options):
        raise AssertionError("loaded")

    monkeypatch.setattr(lm_policy.LMPolicy, "from_pretrained", load)
    check_policies(["self", f"noisy:0.1(lm:{model_folder})"])
    with pytest.raises(ValueError, match="which does not exist"):
        check_policies([f"noisy:0.1(lm:{tmp_path / 'absent'})"])
