"""Sampling: the right distribution, and draws that belong to the request alone."""

import numpy as np
import pytest
import torch

from arena_trainers.lm.backends import Sampling
from arena_trainers.lm.backends.random_numbers import seeds_of, uniform
from arena_trainers.lm.backends.sampling import SeededSampler, draw_tokens

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


def test_numbers_have_the_moments_of_the_uniform_distribution():
    """Mean 1/2 and variance 1/12, within 4 standard errors of 200,000 numbers."""
    seeds = seeds_of(range(1000))
    numbers = np.concatenate([uniform(seeds, step) for step in range(200)])
    assert float(numbers.min()) >= 0
    assert float(numbers.max()) < 1
    assert float(numbers.mean()) == pytest.approx(1 / 2, abs=0.0026)
    assert float(numbers.var()) == pytest.approx(1 / 12, abs=0.0007)


def test_numbers_of_neighbouring_seeds_and_steps_are_uncorrelated():
    seeds = seeds_of(range(300))
    numbers = np.stack([uniform(seeds, step) for step in range(300)], axis=1)
    for a, b in ((numbers[1:], numbers[:-1]), (numbers[:, 1:], numbers[:, :-1])):
        correlation = np.corrcoef(a.ravel(), b.ravel())[0, 1]
        assert abs(float(correlation)) < 0.015  # 4.5 standard errors of 90,000 pairs


def test_a_row_does_not_depend_on_the_rows_beside_it():
    alone, among = (uniform(seeds_of(seeds), step=2) for seeds in ([7], [1, 7, 9]))
    assert alone[0] == among[1]
    weights = torch.rand(64, 3000, generator=torch.Generator().manual_seed(0))
    numbers = torch.from_numpy(uniform(seeds_of(range(64)), step=0))[:, None]
    apart = [draw_tokens(weights[i : i + 1], numbers[i : i + 1]) for i in range(64)]
    assert torch.equal(torch.cat(apart), draw_tokens(weights, numbers))


@pytest.mark.parametrize(
    "options", [{}, {"top_k": 2}, {"temperature": 0.0}, {"repetition_penalty": 2.0}]
)
def test_replies_that_share_a_distribution_draw_as_from_copies_of_it(options):
    logits = torch.randn(3, 300, generator=torch.Generator().manual_seed(0))
    source, rows = np.array([2, 0, 0, 2, 1]), np.array([0, 1, 3, 4, 5])
    sampling = Sampling(with_entropy=True, **options)
    shared, apart = (SeededSampler(range(6), sampling, [[7]] * 6) for _ in range(2))
    tokens = shared.draw(logits, source, rows)
    assert torch.equal(tokens, apart.draw(logits[source], np.arange(5), rows))
    for name in ("logprobs", "entropies"):
        assert torch.equal(getattr(shared, name)[0], getattr(apart, name)[0])


def test_replies_to_one_prompt_have_the_bits_of_copies_on_several_threads():
    num_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        logits = 3 * torch.randn(1, 40_000, generator=torch.Generator().manual_seed(0))
        shared, apart = (
            SeededSampler(range(2), Sampling(with_entropy=True)) for _ in range(2)
        )
        rows, source = np.arange(2), np.zeros(2, np.int64)
        tokens = shared.draw(logits, source, rows)
        assert torch.equal(tokens, apart.draw(logits[source], rows, rows))
        assert torch.equal(shared.logprobs[0], apart.logprobs[0])
        assert torch.equal(shared.entropies[0], apart.entropies[0])
    finally:
        torch.set_num_threads(num_threads)


@pytest.mark.parametrize("size", [1, 5, 256, 257, 3000])
def test_a_number_chooses_the_token_in_whose_share_it_falls(size):
    """As by exact sums of integers, wherever it falls, also next to the edges."""
    weights = np.random.default_rng(size).integers(0, 4, size)
    weights[-1] += size == 1
    total = int(weights.sum())
    numbers = (np.arange(4 * total) + 0.5) / (4 * total)
    expected = np.searchsorted(weights.cumsum() / total, numbers, side="right")
    rows = torch.from_numpy(weights).float().expand(len(numbers), -1)
    found = draw_tokens(rows, torch.from_numpy(numbers)[:, None])
    assert found[:, 0].tolist() == expected.tolist()


@pytest.mark.parametrize("number", [0.0, 1e-300, 0.5, 1 - 2**-53, 1.0])
def test_a_token_of_weight_0_is_never_drawn(number):
    """Neither at the edges of the range nor where tiny weights are lost in the sum."""
    weights = torch.zeros(4, 700)
    weights[0, 3] = 1.0
    weights[1, 699] = 1e-30
    weights[2, [0, 698]] = torch.tensor([1.0, 1e-38])
    weights[3, 100:600] = 1 / 3
    found = draw_tokens(weights, torch.full((4, 1), number, dtype=torch.float64))
    assert (weights.gather(1, found) > 0).all()


def test_a_likely_token_among_many_unlikely_ones_has_its_share():
    """One token of 1/2 beside 49,151 alike ones: 4 standard errors of 4,000 draws."""
    weights = torch.full((1, 49152), 1.0)
    weights[0, 20_000] = 49151.0
    numbers = torch.from_numpy(uniform(seeds_of(range(4000)), step=0))[:, None]
    found = torch.cat([draw_tokens(weights, n) for n in numbers.split(1)])
    assert int((found == 20_000).sum()) == pytest.approx(2000, abs=127)
    assert float(found.double().mean()) == pytest.approx(22288, abs=660)


def test_logprobs_are_those_of_what_is_drawn():
    tokens, sampler = sample(50, top_k=2)
    assert set(tokens.tolist()) <= {0, 1}
    expected = LOGITS[:2].log_softmax(dim=0)[tokens]
    torch.testing.assert_close(sampler.logprobs[0], expected)


def test_entropies_are_those_of_what_is_drawn_and_kept_on_request():
    """So that log π + H, the surprise, has mean 0."""
    seeds = list(range(5))
    sampler = SeededSampler(
        seeds, Sampling(temperature=0.5, top_k=2, with_entropy=True)
    )
    sampler(None, LOGITS.repeat(len(seeds), 1))
    p = (LOGITS[:2] / 0.5).softmax(dim=0)
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
    kept = torch.where(LOGITS[0] - 1.6 < LOGITS, LOGITS, -torch.inf)
    torch.testing.assert_close(sampler.logprobs[0], kept.log_softmax(dim=0)[tokens])


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
