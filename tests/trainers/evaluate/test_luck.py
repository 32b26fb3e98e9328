"""Corrections of luck are unbiased with any values, and save games with good ones."""

from zlib import crc32

import numpy as np
import pytest

from arena_envs import make_game
from arena_envs.game import CHANCE, TERMINAL, possible_outcomes
from arena_eval.imaginary import (
    alike_histories,
    sampled_histories,
    unseen_corrections,
)
from arena_eval.luck import (
    LUCK_KINDS,
    MIN_FITTED,
    SampledAlternatives,
    adjusted_returns,
    corrections_of,
    draws_of,
    fitted_coefficients,
)

GAMES = [
    ("kuhn_poker", {}),
    ("goofspiel", {"num_cards": 3}),
    ("liars_dice", {"num_sides": 2}),
    ("tiny_hanabi", {}),
    ("kuhn_poker", {"num_players": 3}),
    pytest.param("leduc_poker", {}, marks=pytest.mark.slow),
]


def number_of(*things) -> int:
    return crc32(repr(things).encode())


def behavior(game, player, state, invalid=0.0):
    """Probabilities that differ by information set and action, from 1/7 to 7 of each other."""
    key = game.information_state(state, player)
    weights = [1 + number_of(key, action) % 7 for action in game.legal_actions(state)]
    return [weight / sum(weights) for weight in weights], invalid


def histories(game, invalid=0.0):
    """All histories with their probabilities and returns; None forfeits."""

    def walk(state, steps, probability):
        player = game.current_player(state)
        if player == TERMINAL:
            yield steps, probability, game.returns(state)
            return
        if player == CHANCE:
            outcomes = possible_outcomes(game, state)
        else:
            shares, mass = behavior(game, player, state, invalid)
            outcomes = [
                (action, share * (1 - mass))
                for action, share in zip(game.legal_actions(state), shares, strict=True)
            ]
            if mass:
                forfeit = [*steps, (state, None)], probability * mass
                yield *forfeit, game.forfeit(state, player)
        for action, share in outcomes:
            after = game.apply(state, action)
            yield from walk(after, [*steps, (state, action)], probability * share)

    yield from walk(game.initial_state(), [], 1.0)


def wrong_values(states):
    return np.array([(number_of(state) % 2001 - 1000) / 100 for state in states])


def bias(game, values_of_history, kinds=LUCK_KINDS, invalid=0.0):
    """E[sum of corrections], exactly."""
    total = 0.0
    for steps, probability, returns in histories(game, invalid):

        def behavior_of(player, state):
            kind = "policy" if player == 0 else "opponents"
            return behavior(game, player, state, invalid) if kind in kinds else None

        draws = [draws_of(game, steps, 0, behavior_of)]
        total += probability * corrections_of(draws, values_of_history(returns)).sum()
    return total


@pytest.mark.parametrize(("name", "params"), GAMES)
def test_wrong_values_leave_the_mean_unbiased(name, params):
    game = make_game(name, **params)
    assert abs(bias(game, lambda returns: wrong_values)) < 1e-12


@pytest.mark.parametrize("kinds", [["chance"], ["chance", "opponents"]])
def test_a_policy_with_unknown_probabilities_leaves_the_mean_unbiased(kinds):
    assert abs(bias(make_game("kuhn_poker"), lambda _: wrong_values, kinds)) < 1e-12


def test_invalid_replies_leave_the_mean_unbiased():
    game = make_game("kuhn_poker")
    assert abs(bias(game, lambda _: wrong_values, invalid=0.2)) < 1e-12


def test_values_that_know_the_return_of_their_own_episode_are_found_to_be_biased():
    """The trap that the tests above must see: values fitted on the episode itself."""

    def own(returns):
        return lambda states: returns[0] * (1 + wrong_values(states))

    assert abs(bias(make_game("kuhn_poker"), own)) > 0.01


def unseen_rows(game, invalid=0.0):
    """Probability, return and corrections of each history, averaged over those alike."""

    def behavior_of(player, state):
        return None if player == 0 else behavior(game, player, state, invalid)

    for steps, probability, returns in histories(game, invalid):
        alike = alike_histories(game, steps, 0, behavior_of)
        draws = [draws_of(game, each.steps, 0, behavior_of) for each in alike]
        sums = corrections_of(draws, wrong_values)
        row = unseen_corrections(alike, sums, returns[0])
        yield probability, returns[0], row, frozenset(map(repr, alike))


@pytest.mark.parametrize(("name", "params"), [g for g in GAMES if len(g) == 2][:4])
@pytest.mark.parametrize("invalid", [0.0, 0.2])
def test_imaginary_observations_leave_each_kind_unbiased(name, params, invalid):
    game = make_game(name, **params)
    if game.num_players > 2 or (invalid and game.kind == "cooperative"):
        pytest.skip("forfeits and three seats have no such histories")
    rows = list(unseen_rows(game, invalid))
    assert sum(p for p, *_ in rows) == pytest.approx(1)
    for mean in sum(p * row for p, _, row, _ in rows):
        assert abs(mean) < 1e-12


def test_histories_that_a_seat_cannot_tell_apart_have_one_estimate():
    """The estimates of Kuhn poker differ by its own card and turns alone."""
    estimates = {}
    for _, result, row, alike in unseen_rows(make_game("kuhn_poker")):
        estimates.setdefault(alike, set()).add(round(result - row.sum(), 9))
    assert all(len(values) == 1 for values in estimates.values())
    assert len(estimates) < 30


def test_an_unknown_opponent_has_no_histories_alike():
    game = make_game("kuhn_poker")
    steps = next(iter(histories(game)))[0]
    assert alike_histories(game, steps, 0, lambda *_: None) == []
    assert sampled_histories(game, steps, 0, lambda *_: None, Scripted([])) == []


class Branch(Exception):
    """A draw that the script does not decide."""


class Scripted:
    """A generator whose draws are a script's, with the probability of all of them."""

    def __init__(self, script):
        self.script, self.probability = iter(script), 1.0

    def choices(self, outcomes, weights):
        if (index := next(self.script, None)) is None:
            raise Branch(len(outcomes))
        self.probability *= weights[index] / sum(weights)
        return [outcomes[index]]


def mean_over_draws(function):
    """E[function(rng)], exactly."""
    scripts: list[tuple[int, ...]] = [()]
    total, mass = 0.0, 0.0
    while scripts:
        script = scripts.pop()
        rng = Scripted(script)
        try:
            value = function(rng)
        except Branch as branch:
            scripts += [(*script, index) for index in range(branch.args[0])]
            continue
        total, mass = total + rng.probability * value, mass + rng.probability
    assert mass == pytest.approx(1)
    return total


def sampled_row(game, steps, returns, behavior_of, rng, weight_of):
    alike = sampled_histories(game, steps, 0, behavior_of, rng, num=1)
    alike = [each._replace(weight=weight_of(each)) for each in alike]
    draws = [draws_of(game, each.steps, 0, behavior_of) for each in alike]
    return unseen_corrections(alike, corrections_of(draws, wrong_values), returns[0])


def sampled_bias(name, params, invalid, weight_of=lambda history: history.weight):
    """E[corrections] by kind, over all histories and all draws of each."""
    game = make_game(name, **params)

    def behavior_of(player, state):
        return None if player == 0 else behavior(game, player, state, invalid)

    return sum(
        probability
        * mean_over_draws(
            lambda rng, steps=steps, returns=returns: sampled_row(
                game, steps, returns, behavior_of, rng, weight_of
            )
        )
        for steps, probability, returns in histories(game, invalid)
    )


@pytest.mark.parametrize(
    ("name", "params", "invalid"),
    [
        ("kuhn_poker", {}, 0.2),
        pytest.param("goofspiel", {"num_cards": 3}, 0.0, marks=pytest.mark.slow),
    ],
)
def test_sampled_imaginary_observations_leave_each_kind_unbiased(name, params, invalid):
    assert np.abs(sampled_bias(name, params, invalid)).max() < 1e-12


def test_draws_without_the_opponents_probabilities_are_found_to_be_biased():
    """The trap that the test above must see."""
    assert np.abs(sampled_bias("kuhn_poker", {}, 0.0, lambda _: 1.0)).max() > 0.01


def test_sampled_alternatives_of_deals_leave_the_mean_unbiased():
    game, total = make_game("kuhn_poker"), 0.0
    for steps, probability, _ in histories(game):

        def corrections(rng, steps=steps):
            alternatives = SampledAlternatives(rng, 2)
            draws = draws_of(game, steps, 0, lambda *_: None, alternatives)
            return corrections_of([draws], wrong_values).sum()

        total += probability * mean_over_draws(corrections)
    assert abs(total) < 1e-12


def sample_of(num: int):
    rng = np.random.default_rng(3)
    corrections = rng.normal(size=(num, 3))
    returns = corrections @ [0.8, 0.3, 1.5] + rng.normal(size=num)
    return returns, corrections


@pytest.mark.parametrize("num", [MIN_FITTED - 1, MIN_FITTED, 200])
def test_no_coefficient_depends_on_its_own_episode(num):
    """Coefficients that are fitted on the own fold change by more than the return."""
    returns, corrections = sample_of(num)
    before = adjusted_returns(returns, corrections)
    for index in (0, 7, num - 1):
        changed = returns.copy()
        changed[index] += 100
        after = adjusted_returns(changed, corrections)
        assert after[index] - before[index] == pytest.approx(100, abs=1e-9)


def test_coefficients_stay_within_0_and_1():
    """The kinds that are drawn have 0.8, 0.3 and 1.5, the last of which is cut."""
    coefficients = fitted_coefficients(*sample_of(5000))
    assert coefficients == pytest.approx([0.8, 0.3, 1.0], abs=0.05)
    returns, corrections = sample_of(200)
    assert fitted_coefficients(-returns, corrections).max() == 0
    assert fitted_coefficients(returns, 0 * corrections).max() == 0
