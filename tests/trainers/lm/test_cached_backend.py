"""Replies from known distributions are those of the model."""

import pytest
import torch

from arena_trainers.lm import LMPolicy
from arena_trainers.lm.backends import Sampling
from arena_trainers.lm.backends import cached as cached_backend
from arena_trainers.lm.backends.cached import CachedBackend
from arena_trainers.lm.backends.random_numbers import uniform, uniform_number
from arena_trainers.lm.backends.sampling import SeededSampler


def check(found, expected):
    assert found.token_ids == expected.token_ids
    for one, two in zip(found.logprobs, expected.logprobs, strict=True):
        assert one == pytest.approx(two, abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"max_new_tokens": 2},
        {"max_new_tokens": 4, "temperature": 0.7, "repetition_penalty": 1.3},
        {"max_new_tokens": 4, "top_k": 5, "top_p": 0.9, "min_p": 0.01},
        {"max_new_tokens": 3, "temperature": 0, "repetition_penalty": 1.5},
    ],
    ids=str,
)
def test_replies_are_those_of_the_model(policy, prompts, options):
    """Whatever is known: nothing, distributions of other seeds, or all of a reply.

    Several tokens end a reply, so that the replies of a batch differ in length.
    """
    plain = policy.backend
    cached = CachedBackend(plain)
    sampling = Sampling(end_ids=(*policy.eos_ids, 3, 5, 8), **options)
    for first in (0, 1000, 2000, 0):
        seeds = range(first, first + len(prompts))
        own = plain.generate(prompts, seeds, sampling)
        check(cached.generate(prompts, seeds, sampling), own)
        few = cached.generate(prompts[:3], seeds[:3], sampling)
        check(few, own._replace(token_ids=own[0][:3], logprobs=own[1][:3]))


def test_what_is_known_costs_no_forward_pass(policy, prompts, passes):
    cached = CachedBackend(policy.backend)
    seeds = range(len(prompts))
    made = cached.generate(prompts, seeds, policy.sampling)
    assert len(passes) > 0
    passes.clear()
    assert cached.generate(prompts, seeds, policy.sampling) == made
    assert passes == []


def test_what_is_known_goes_on_from_a_file(policy, prompts, passes, tmp_path):
    cached, again = (CachedBackend(policy.backend) for _ in range(2))
    seeds = range(len(prompts))
    made = cached.generate(prompts, seeds, policy.sampling)
    torch.save(cached.state_dict(), tmp_path / "known.pt")
    again.load_state_dict(torch.load(tmp_path / "known.pt", weights_only=True))
    passes.clear()
    assert again.generate(prompts, seeds, policy.sampling) == made
    assert passes == []
    assert again._num_bytes == cached._num_bytes > 0


def test_the_model_generates_only_what_follows_known_tokens(policy, prompts, passes):
    """One pass for all second tokens that are new, whichever seeds draw them."""
    cached = CachedBackend(policy.backend)
    long = [prompts[0]] * 200
    cached.generate(long[:1], [0], policy.sampling)
    passes.clear()
    made = cached.generate(long, range(200), policy.sampling)
    firsts = {ids[0] for ids in made.token_ids if len(ids) == 2}
    assert len(passes) == 1
    (rows, tokens) = passes[0]
    assert len(firsts) - 1 <= rows <= len(firsts)  # one may be known
    assert tokens == len(prompts[0]) + 1


def test_settings_do_not_share_distributions(policy, prompts):
    cached = CachedBackend(policy.backend)
    seeds = range(len(prompts))
    for temperature in (1.0, 0.3):
        sampling = Sampling(2, temperature, end_ids=tuple(policy.eos_ids))
        own = policy.backend.generate(prompts, seeds, sampling)
        check(cached.generate(prompts, seeds, sampling), own)


def test_entropies_come_from_the_model(policy, prompts):
    speaker = LMPolicy(
        policy.model, policy.tokenizer, max_new_tokens=2, with_entropy=True
    )
    own = speaker.backend.generate(prompts[:4], range(4), speaker.sampling)
    cached = CachedBackend(speaker.backend)
    assert cached.generate(prompts[:4], range(4), speaker.sampling) == own


@pytest.mark.parametrize("limit", ["MAX_BYTES", "MAX_NUMBERS"])
def test_limits_change_no_reply(policy, prompts, passes, monkeypatch, limit):
    numbers = policy.model.config.vocab_size
    few = {"MAX_BYTES": 3 * 12 * numbers, "MAX_NUMBERS": 2 * numbers - 1}[limit]
    monkeypatch.setattr(cached_backend, limit, few)
    cached = CachedBackend(policy.backend)
    seeds = range(len(prompts))
    own = policy.backend.generate(prompts, seeds, policy.sampling)
    for _ in range(2):
        passes.clear()
        check(cached.generate(prompts, seeds, policy.sampling), own)
        assert passes
    assert cached._num_bytes == (few if limit == "MAX_BYTES" else 0)


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1, 2**64 + 3, -5])
def test_numbers_are_those_of_the_sampler(seed):
    row = SeededSampler([seed], Sampling()).seeds
    for step in range(3):
        assert uniform_number(seed, step) == float(uniform(row, step)[0])


def test_a_token_without_weight_is_never_drawn():
    ends = torch.tensor([0.0, 0.0, 0.5, 0.5, 1.0, 1.0]).numpy()
    known = cached_backend.TokenDistribution(ends, ends, {})
    found = [known.draw(number) for number in (0.0, 0.25, 0.5, 1 - 2**-53, 1.0)]
    assert found == [2, 2, 4, 4, 4]
