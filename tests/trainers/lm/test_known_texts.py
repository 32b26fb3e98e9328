"""Expected replies: the tokens that come without them, in fewer forward passes."""

import pytest
import torch

from arena_trainers.lm import LMPolicy
from arena_trainers.lm.backends import Sampling, known_texts, transformers
from arena_trainers.lm.backends.known_texts import (
    TextLogits,
    one_pass_is_faster,
    texts_to_run,
)


@pytest.fixture
def speaker(policy):
    return LMPolicy(policy.model, policy.tokenizer, max_new_tokens=3, with_entropy=True)


def replies_of(prompts, generated):
    pairs = zip(prompts, generated.token_ids, strict=True)
    return list(dict.fromkeys((tuple(prompt), tuple(ids)) for prompt, ids in pairs))


@pytest.mark.parametrize(
    "options",
    [
        {"max_new_tokens": 1},
        {"max_new_tokens": 4, "temperature": 0.7, "repetition_penalty": 1.3},
        {"max_new_tokens": 4, "top_k": 5, "top_p": 0.9, "min_p": 0.01},
        {"max_new_tokens": 3, "temperature": 0, "repetition_penalty": 1.5},
    ],
    ids=str,
)
@pytest.mark.parametrize("part", [1, 3])
def test_what_is_drawn_does_not_depend_on_what_is_expected(
    policy, prompts, options, part
):
    """Whether all is expected that comes, or a third of it and replies to other prompts.

    Several tokens end a reply, so that the replies of a batch differ in length.
    """
    backend = policy.backend
    ends = (*policy.eos_ids, 3, 5, 8)
    sampling = Sampling(end_ids=ends, with_entropy=True, **options)
    seeds = range(len(prompts))
    plain = backend.generate(prompts, seeds, sampling)
    expected = [*replies_of(prompts, plain)[::part], ((4, 3, 4), (7, 2))]
    backend.expect_replies(expected, num_rounds=100)
    generated = backend.generate(prompts, seeds, sampling)
    assert generated.token_ids == plain.token_ids
    for one, two in (
        (generated.logprobs, plain.logprobs),
        (generated.entropies, plain.entropies),
    ):
        for numbers, others in zip(one, two, strict=True):
            assert numbers == pytest.approx(others, abs=1e-5)


def test_expected_replies_take_one_pass_in_all_rounds(speaker, prompts, passes):
    backend, seeds = speaker.backend, range(len(prompts))
    plain = backend.generate(prompts, seeds, speaker.sampling)
    backend.expect_replies(replies_of(prompts, plain), num_rounds=100)
    passes.clear()
    for first in range(0, len(prompts), 10):
        part = slice(first, first + 10)
        backend.generate(prompts[part], seeds[part], speaker.sampling)
    assert len(passes) == 1
    assert passes[0][1] <= max(map(len, prompts)) + 2  # the last token is not run


@pytest.mark.parametrize("forgets", [True, False])
def test_logits_of_old_weights_are_never_drawn_from(speaker, prompts, forgets):
    """Also where a policy around this one does not pass on that play has ended."""
    backend, seeds = speaker.backend, range(len(prompts))
    plain = backend.generate(prompts, seeds, speaker.sampling)
    backend.expect_replies(replies_of(prompts, plain), num_rounds=100)
    backend.generate(prompts, seeds, speaker.sampling)
    if forgets:
        backend.forget_episodes()
    with torch.no_grad():
        for weight in speaker.model.parameters():
            weight.add_(torch.randn_like(weight))
    changed = backend.generate(prompts, seeds, speaker.sampling)
    fresh = LMPolicy(
        speaker.model, speaker.tokenizer, max_new_tokens=3, with_entropy=True
    )
    assert changed.token_ids != plain.token_ids
    expected = fresh.backend.generate(prompts, seeds, speaker.sampling)
    assert changed.token_ids == expected.token_ids
    for numbers, others in zip(changed.logprobs, expected.logprobs, strict=True):
        assert numbers == pytest.approx(others, abs=1e-5)


def test_padding_and_all_positions_count(speaker, monkeypatch):
    """A model without `logits_to_keep` has logits of all positions."""
    model = speaker.model
    replies = texts_to_run([((3,) * 30, (2,)), ((3,), (4, 2))])
    vocabulary = model.config.vocab_size
    monkeypatch.setattr(known_texts, "MAX_TOKENS", 2 * 30)
    monkeypatch.setattr(known_texts, "MAX_LOGITS", 2 * 2 * vocabulary)
    assert one_pass_is_faster(model, replies, 100)
    monkeypatch.setattr(known_texts, "MAX_TOKENS", 2 * 30 - 1)
    assert not one_pass_is_faster(model, replies, 100)
    monkeypatch.setattr(known_texts, "MAX_TOKENS", 2 * 30)
    monkeypatch.setattr(known_texts, "accepts_argument", lambda *_: False)
    assert not one_pass_is_faster(model, replies, 100)


@pytest.mark.parametrize("too_much", ["passes", "logits", "padding", "length"])
def test_expected_replies_are_ignored_where_one_pass_costs_more_or_reads_padding(
    speaker, prompts, passes, monkeypatch, too_much
):
    backend, seeds = speaker.backend, range(len(prompts))
    backend.generate(prompts, seeds, speaker.sampling)  # measures what caches do
    passes.clear()
    plain = backend.generate(prompts, seeds, speaker.sampling)
    usual = list(passes)
    if too_much == "logits":
        monkeypatch.setattr(known_texts, "MAX_LOGITS", 100)
    if too_much == "padding":
        monkeypatch.setattr(known_texts, "reads_padding", lambda model: True)
    rounds = 0 if too_much == "passes" else 100
    replies = replies_of(prompts, plain)
    if too_much == "length":
        monkeypatch.setattr(transformers, "MAX_LONGER", 0.9)
    backend.expect_replies(replies, rounds)
    passes.clear()
    assert backend.generate(prompts, seeds, speaker.sampling) == plain
    assert passes == usual


def test_logits_are_those_after_each_text(policy):
    replies = [((5, 6), (7, 8, 2)), ((5, 6), (9, 2)), ((4,), (2,)), ((4,), ())]
    assert texts_to_run(replies) == {(5, 6, 7, 8): 3, (5, 6, 9): 2, (4,): 1}
    with torch.no_grad():
        known = TextLogits(policy.model, policy.pad_id, texts_to_run(replies))
        texts = [(5, 6), (5, 6, 7), (5, 6, 7, 8), (5, 6, 9), (4,), (8, 8, 8)]
        for text, logits in zip(texts, known.next_token_logits(texts), strict=True):
            alone = policy.model(torch.tensor([text])).logits[0, -1]
            torch.testing.assert_close(logits, alone, rtol=0, atol=1e-5)
