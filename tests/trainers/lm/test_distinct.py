"""Rows that are equal are computed once, and nothing else changes."""

import copy

import pytest
import torch

from arena_trainers.lm import LMPolicy
from arena_trainers.lm.backends import cached_steps, transformers
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
    speaker = LMPolicy(model, policy.tokenizer, max_new_tokens=4)
    for prompts in batches(policy, kuhn_env):
        seeds = range(len(prompts))
        shared = speaker.generate(prompts, seeds)
        with monkeypatch.context() as patch:
            patch.setattr(transformers, "cached_steps_are_exact", lambda model: False)
            apart = LMPolicy(model, policy.tokenizer, max_new_tokens=4).generate(
                prompts, seeds
            )
        for one, two in zip(shared, apart, strict=True):
            assert (one.text, one.token_ids) == (two.text, two.token_ids)
            assert one.logprobs == pytest.approx(two.logprobs, abs=1e-5)


def test_equal_rows_run_once(policy, kuhn_env, monkeypatch):
    """Six prompts of the first turn; then at most as many rows as there are replies."""
    alike, different, *_ = batches(policy, kuhn_env)
    for prompts in (alike, different):  # the cache is checked first
        policy.generate(prompts, range(len(prompts)))
    run = []
    forward = policy.model.forward

    def counted(*args, **kwargs):
        run.append(len(kwargs["input_ids"]))
        return forward(*args, **kwargs)

    monkeypatch.setattr(policy.model, "forward", counted)
    replies = policy.generate(alike, range(len(alike)))
    first = {(*r.prompt_ids, r.token_ids[0]) for r in replies if len(r.token_ids) > 1}
    assert run == [len(different), len(first)]
    run.clear()
    policy.generate(different, range(len(different)))
    assert run == [len(different)] * 2


def test_a_model_without_a_cache_of_keys_and_values_generates_alike(
    policy, kuhn_env, monkeypatch
):
    prompts = batches(policy, kuhn_env)[0]
    shared = policy.generate(prompts, range(len(prompts)))
    monkeypatch.setattr(cached_steps, "DynamicCache", str)
    policy.run_on(copy.deepcopy(policy.model))
    apart = policy.generate(prompts, range(len(prompts)))
    assert [r.token_ids for r in shared] == [r.token_ids for r in apart]
