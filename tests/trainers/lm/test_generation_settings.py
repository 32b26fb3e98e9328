"""Sampling is what our settings say, whatever the model's generation_config adds."""

import copy
import math

import pytest
import torch
from transformers import GenerationConfig

from arena_trainers.lm import LMPolicy
from arena_wrappers import RandomPolicy, play

# what models ship with, and what their users save: each alone changes what is sampled
EXTRAS = [
    {"repetition_penalty": 1.1},
    {"no_repeat_ngram_size": 1},
    {"suppress_tokens": [8, 9]},
    {"begin_suppress_tokens": [8, 9]},
    {"bad_words_ids": [[8], [9]]},
    {"min_new_tokens": 4},
    {"min_length": 40},
    {"forced_eos_token_id": 2},
    {"sequence_bias": [[[8], -5.0]]},
    {"exponential_decay_length_penalty": [1, 2.0]},
    {"do_sample": True, "typical_p": 0.5, "temperature": 0.3, "top_k": 2, "min_p": 0.3},
    {"num_beams": 3},
    {"guidance_scale": 1.5},
    {"max_length": 3, "max_new_tokens": 1},
    {"stop_strings": ["a"], "max_time": 0.0},
]


@pytest.fixture
def prompts(policy, kuhn_env):
    turns = [t for e in play(kuhn_env, RandomPolicy(), range(12)) for t in e.turns]
    return [policy.encode(turn.messages) for turn in turns]


def with_extras(policy, extras):
    model = copy.deepcopy(policy.model)
    known = {k: v for k, v in extras.items() if hasattr(GenerationConfig(), k)}
    assert known == extras
    for name, value in extras.items():
        setattr(model.generation_config, name, value)
    return LMPolicy(model, policy.tokenizer, max_new_tokens=4)


def trained(speaker, reply):
    """The log-probability of each token of a reply that the loss computes."""
    ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
    with torch.no_grad():
        logits = speaker.model(input_ids=ids).logits[0].log_softmax(dim=-1)
    start = len(reply.prompt_ids) - 1
    return [float(logits[start + i, t]) for i, t in enumerate(reply.token_ids)]


def drawn_from(speaker, reply, place, min_p=0.0, repetition_penalty=1.0):
    """Log-probability of a token of a reply, after the cut and the penalty."""
    before = [*reply.prompt_ids, *reply.token_ids[:place]]
    with torch.no_grad():
        logits = speaker.model(input_ids=torch.tensor([before])).logits[0, -1].tolist()
    for token in set(before):
        penalty = repetition_penalty
        logits[token] *= 1 / penalty if logits[token] > 0 else penalty
    weights = [math.exp(x - max(logits)) for x in logits]
    kept = sum(w for w in weights if w >= min_p)
    return math.log(weights[reply.token_ids[place]] / kept)


@pytest.mark.parametrize("extras", EXTRAS, ids=lambda extras: next(iter(extras)))
def test_the_models_own_settings_do_not_change_what_is_sampled(policy, prompts, extras):
    plain = LMPolicy(policy.model, policy.tokenizer, max_new_tokens=4)
    speaker = with_extras(policy, extras)
    before = speaker.model.generation_config.to_dict()
    seeds = range(len(prompts))
    expected, found = plain.generate(prompts, seeds), speaker.generate(prompts, seeds)
    assert [r.token_ids for r in found] == [r.token_ids for r in expected]
    assert len({tuple(r.token_ids) for r in found}) > 5
    for reply in found:
        assert list(reply.logprobs) == pytest.approx(trained(speaker, reply), abs=1e-5)
    assert speaker.model.generation_config.to_dict() == before


def test_a_prompt_tuned_model_is_refused(policy):
    peft = pytest.importorskip("peft")
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    model = peft.get_peft_model(copy.deepcopy(policy.model), config)
    with pytest.raises(ValueError, match="such as LoRA, got PROMPT_TUNING"):
        LMPolicy(model, policy.tokenizer)


@pytest.mark.parametrize(
    "cut",
    [{"min_p": 0.4}, {"repetition_penalty": 1.5}],
    ids=lambda cut: next(iter(cut)),
)
def test_logprobs_are_those_of_what_our_own_settings_draw_from(policy, prompts, cut):
    plain = LMPolicy(policy.model, policy.tokenizer, max_new_tokens=4)
    speaker = LMPolicy(policy.model, policy.tokenizer, max_new_tokens=4, **cut)
    seeds = range(len(prompts))
    found = speaker.generate(prompts, seeds)
    expected = plain.generate(prompts, seeds)
    assert [r.token_ids for r in found] != [r.token_ids for r in expected]
    for reply in found:
        drawn = [
            drawn_from(speaker, reply, i, **cut) for i in range(len(reply.token_ids))
        ]
        assert list(reply.logprobs) == pytest.approx(drawn, abs=1e-5)
    apart = [speaker.generate([p], [s])[0] for p, s in zip(prompts, seeds, strict=True)]
    assert [r.token_ids for r in apart] == [r.token_ids for r in found]
