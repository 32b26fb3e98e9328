"""Sampling: the right distribution, and noise that belongs to the request alone."""

import numpy as np
import pytest
import torch

from arena_trainers.lm.backends import Sampling
from arena_trainers.lm.sampling import SeededSampler, gumbel_noise

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0, 0.5])


def sample(num_rows, **options):
    sampler = SeededSampler(range(num_rows), Sampling(**options))
    scores = sampler(
        torch.zeros(num_rows, 1, dtype=torch.long), LOGITS.repeat(num_rows, 1)
    )
    return scores.argmax(dim=1), sampler


def test_frequencies_are_those_of_the_softmax():
    """Pearson's χ² over 20,000 draws stays below the 99.9 % quantile for 4 degrees."""
    tokens, _ = sample(20_000, temperature=0.7)
    expected = (LOGITS / 0.7).softmax(dim=0).numpy() * 20_000
    observed = np.bincount(tokens.numpy(), minlength=5)
    assert ((observed - expected) ** 2 / expected).sum() < 18.47


def test_noise_has_the_moments_of_the_gumbel_distribution():
    """Mean is Euler's constant 0.5772, variance π²/6 = 1.6449."""
    noise = gumbel_noise(torch.arange(500)[:, None], step=3, num_tokens=400).double()
    assert float(noise.mean()) == pytest.approx(0.5772, abs=0.01)
    assert float(noise.var()) == pytest.approx(1.6449, abs=0.02)


def test_noise_of_neighbouring_seeds_steps_and_tokens_is_uncorrelated():
    noise = gumbel_noise(torch.arange(300)[:, None], step=0, num_tokens=300).double()
    later = gumbel_noise(torch.arange(300)[:, None], step=1, num_tokens=300).double()
    pairs = [(noise[1:], noise[:-1]), (noise[:, 1:], noise[:, :-1]), (noise, later)]
    for a, b in pairs:
        correlation = torch.corrcoef(torch.stack([a.ravel(), b.ravel()]))[0, 1]
        assert abs(float(correlation)) < 0.015  # 4.5 standard errors of 90,000 pairs


def test_a_row_does_not_depend_on_the_rows_beside_it():
    alone = gumbel_noise(torch.tensor([[7]]), step=2, num_tokens=50)
    among = gumbel_noise(torch.tensor([[1], [7], [9]]), step=2, num_tokens=50)
    assert torch.equal(alone[0], among[1])


def test_logprobs_are_those_before_the_cut():
    tokens, sampler = sample(50, top_k=2)
    assert set(tokens.tolist()) <= {0, 1}
    expected = LOGITS.log_softmax(dim=0)[tokens]
    torch.testing.assert_close(sampler.logprobs[0], expected)


def test_entropies_are_those_before_the_cut_and_kept_on_request():
    seeds = list(range(5))
    sampler = SeededSampler(
        seeds, Sampling(temperature=0.5, top_k=2, with_entropy=True)
    )
    sampler(None, LOGITS.repeat(len(seeds), 1))
    p = (LOGITS / 0.5).softmax(dim=0)
    expected = -(p * p.log()).sum().repeat(len(seeds))
    torch.testing.assert_close(sampler.entropies[0], expected)
    sampler = SeededSampler(seeds, Sampling(with_entropy=True))
    sampler(None, torch.tensor([[0.0, -torch.inf, -torch.inf]] * len(seeds)))
    assert sampler.entropies[0].tolist() == [0.0] * len(seeds)
    sampler = SeededSampler(seeds, Sampling())
    sampler(None, LOGITS.repeat(len(seeds), 1))
    assert sampler.entropies == []


def test_top_p_keeps_the_smallest_set_with_the_mass():
    tokens, _ = sample(500, top_p=0.6)  # the likeliest token has 0.56
    assert set(tokens.tolist()) == {0, 1}


def test_temperature_zero_is_greedy():
    tokens, _ = sample(50, temperature=0.0)
    assert set(tokens.tolist()) == {0}


def test_min_p_keeps_tokens_by_their_share_of_the_likeliest():
    """Shares are e⁰, e⁻¹, e⁻¹·⁵, e⁻², e⁻³; the third is 0.22."""
    tokens, sampler = sample(500, min_p=0.2)
    assert set(tokens.tolist()) == {0, 1, 4}
    torch.testing.assert_close(sampler.logprobs[0], LOGITS.log_softmax(dim=0)[tokens])


def test_the_repetition_penalty_counts_what_a_row_holds_and_not_its_padding():
    """Divided by 8, logit 2 falls below 1; times 8, logit -1 falls to -8."""
    sampling = Sampling(temperature=0.0, repetition_penalty=8.0)
    sampler = SeededSampler([0, 0, 0], sampling, [[0], [3, 3], [0, 1]])
    padded = torch.tensor([[3, 0], [3, 3], [0, 1]])
    steps = [sampler(padded, LOGITS.repeat(3, 1)).argmax(dim=1) for _ in range(3)]
    assert torch.stack(steps, dim=1).tolist() == [[1, 4, 0], [0, 1, 4], [4, 0, 0]]
    expected = LOGITS.log_softmax(dim=0)
    for step, logprobs in zip(steps, sampler.logprobs, strict=True):
        torch.testing.assert_close(logprobs, expected[step])
