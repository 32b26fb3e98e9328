"""Prompts that are alike are computed once, and nothing else changes."""

import copy

import pytest
import torch

from arena_trainers.lm import policy as lm_policy
from arena_trainers.lm.sampling import shared_prefix
from arena_trainers.lm.scoring import left_padded
from arena_wrappers import RandomPolicy, play


@pytest.fixture(params=["plain", "lora"])
def model(request, policy):
    """The tiny model, as it is or with adapters that change what it says."""
    if request.param == "plain":
        return policy.model
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(
        target_modules=["q_proj", "v_proj"], init_lora_weights=False, r=4
    )

    torch.manual_seed(0)
    return peft.get_peft_model(copy.deepcopy(policy.model), config)


def batches(policy, kuhn_env):
    """Prompts of lockstep play, of uneven lengths, each several times or once."""
    turns = [t for e in play(kuhn_env, RandomPolicy(), range(60)) for t in e.turns]
    prompts = [policy.encode(turn.messages) for turn in turns]
    distinct = [list(ids) for ids in dict.fromkeys(map(tuple, prompts))]
    return [prompts, distinct, prompts[:1], [distinct[0], distinct[-1]] * 5]


def test_sharing_changes_no_reply(policy, model, kuhn_env, monkeypatch):
    speaker = lm_policy.LMPolicy(model, policy.tokenizer, max_new_tokens=4)
    for prompts in batches(policy, kuhn_env):
        seeds = range(len(prompts))
        shared = speaker.generate(prompts, seeds)
        with monkeypatch.context() as patch:
            patch.setattr(lm_policy, "shared_prefix", lambda *inputs: {})
            apart = speaker.generate(prompts, seeds)
        for one, two in zip(shared, apart, strict=True):
            assert (one.text, one.token_ids) == (two.text, two.token_ids)
            assert one.logprobs == pytest.approx(two.logprobs, abs=1e-5)


def test_rows_are_shared_only_where_most_are_alike(policy, kuhn_env):
    alike, distinct, single, pairs = batches(policy, kuhn_env)
    for prompts, shared in [(alike, 1), (distinct, 0), (single, 0), (pairs, 1)]:
        inputs = left_padded(prompts, policy.pad_id, policy.model.device)
        assert len(shared_prefix(policy.model, *inputs)) == shared
