"""Matchmakers by hand, their options, and the kit that finds broken ones."""

import re

import numpy as np
import pytest

from arena_envs import make_game
from arena_trainers.matchmaking import (
    BaseMatchmaker,
    EpisodeReturns,
    History,
    Start,
    against,
    make_matchmaker,
    matchmakers,
)
from arena_trainers.matchmaking.prioritised import Prioritised
from arena_trainers.matchmaking.psro import PSRO, projected_replicator_dynamics
from arena_trainers.matchmaking.testing import BrokenPromise, check_matchmaker

GAME = "kuhn_poker-v0"
SPECS = [  # besides each with its defaults
    {"past_selves": {"every": 7, "max_kept": 3}},
    {"past_selves": {"every": 5, "window": 2}},
    {"prioritised": {"every": 7}},
    {"psro": {"every": 15, "num_matches": 2}},
    {"psro": {"every": 20, "num_matches": 2, "meta": "replicator"}},
]


@pytest.mark.parametrize("spec", [*matchmakers.built_in, *SPECS], ids=str)
def test_built_in_matchmakers_keep_their_promises(spec):
    check_matchmaker(lambda: make_matchmaker(spec))


class Chosen(BaseMatchmaker):
    """Assigns what a function of step and number of calls says."""

    max_live = 1

    def __init__(self, seats, snapshots=lambda step: (), state=lambda self: {}):
        self.seats, self.wanted, self.state, self.calls = seats, snapshots, state, 0

    def snapshots(self, step):
        return self.wanted(step)

    def assign(self, starts, step, rng):
        self.calls += 1
        return [self.seats(self, step) for _ in starts]

    def state_dict(self):
        return self.state(self)


calls = iter(range(1000))
SELVES = ("self", "self")
BROKEN = {
    "seats": lambda: Chosen(lambda m, step: ("self",)),
    "a learner": lambda: Chosen(lambda m, step: ("self@0", "self@0"), lambda s: (0,)),
    "known policies": lambda: Chosen(lambda m, step: ("self", "random")),
    "snapshots": lambda: Chosen(
        lambda m, step: SELVES, lambda s: (0,) if s in (0, 9) else ()
    ),
    "same for all processes": lambda: Chosen(
        lambda m, step: ("self", "self@0")[:: 1 - 2 * (next(calls) // 7 % 2)],
        lambda s: (0,),
    ),
    "state": lambda: Chosen(
        lambda m, step: ("self", "self@0")[:: 1 - 2 * (m.calls // 40 % 2)],
        lambda s: (0,),
    ),
}


@pytest.mark.parametrize("promise", BROKEN)
def test_the_kit_names_the_promise_that_is_broken(promise):
    with pytest.raises(BrokenPromise, match=f"promise '{promise}'"):
        check_matchmaker(BROKEN[promise])


def test_a_state_that_json_cannot_hold_is_found():
    with pytest.raises(BrokenPromise, match=r"promise 'state': JSON cannot hold"):
        check_matchmaker(lambda: Chosen(lambda m, step: SELVES, state=lambda m: {1j}))


def test_snapshots_thin_out_evenly_over_the_whole_run():
    history, kept = History(every=3, max_kept=5), set()
    for step in range(500):
        found = history.steps(step)
        assert set(found) <= kept | {step}
        assert len(found) <= 5
        assert len(set(np.diff(found))) <= 1
        kept = set(found)
    assert found == [0, 192, 384]


def test_one_batch_needs_few_snapshots_and_plays_all_in_the_long_run():
    history, seen = History(every=1, max_live=3), []
    starts = [Start(GAME, 2, seed) for seed in range(40)]
    for number in range(60):
        rng = np.random.default_rng(number)
        seats = history.assign(starts, 9, rng, lambda game, steps: None)
        opponents = {who for pair in seats for who in pair} - {"self"}
        assert len(opponents) <= 3
        assert {pair.index("self") for pair in seats} == {0, 1}
        seen += [who for pair in seats for who in pair if who != "self"]
    counts = np.unique(seen, return_counts=True)[1]
    assert len(counts) == 10
    assert counts.min() > 0.4 * counts.max()


def test_the_opponent_that_wins_comes_more_often():
    """Three wins of three against step 0, three losses against step 10: with half a win in
    one episode before, rates of 3.5/4 and 0.5/4, so weights of 1 and 49."""
    matchmaker = Prioritised(every=10)
    won = EpisodeReturns(GAME, ("self", "self@0"), (1.0, -1.0))
    lost = EpisodeReturns(GAME, ("self@10", "self"), (1.0, -1.0))
    matchmaker.update([won] * 3 + [lost] * 3, 10)
    assert matchmaker.win_rate(GAME, 0) == 3.5 / 4
    np.testing.assert_allclose(matchmaker.weights(GAME, [0, 10]), [1 / 50, 49 / 50])
    matchmaker.update([won._replace(returns=(0.0, 0.0))], 11)  # a draw; others decay
    assert matchmaker.win_rate(GAME, 0) == (3 * 0.95 + 0.5 + 0.5) / (3 * 0.95 + 2)


def test_a_learner_that_always_wins_meets_all_at_the_largest_power():
    matchmaker = Prioritised(every=10, power=100)
    won = [
        EpisodeReturns(GAME, ("self", f"self@{step}"), (1.0, -1.0)) for step in (0, 10)
    ]
    for _ in range(15):
        matchmaker.update(won * 128, 10)
    assert matchmaker.weights(GAME, [0, 10]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("meta", ["nash", "replicator"])
def test_psro_meets_snapshots_that_beat_each_other_in_a_circle_equally_often(meta):
    matchmaker = PSRO(every=1, meta=meta)
    matchmaker.prepare({GAME: make_game("kuhn_poker")})
    pairs = [match.seats for match in matchmaker.matches(2)]
    assert len(pairs) == 6
    beats = {(0, 1), (1, 2), (2, 0)}
    results = []
    for one, other in pairs:
        sign = 1.0 if (int(one[-1]), int(other[-1])) in beats else -1.0
        results += [EpisodeReturns(GAME, (one, other), (sign, -sign))] * 16
    matchmaker.update(results, 2)
    assert matchmaker.matches(2) == []
    expected = [[0, 1, -1], [-1, 0, 1], [1, -1, 0]]
    assert matchmaker.payoffs(GAME, [0, 1, 2]).tolist() == expected
    found = matchmaker.weights(GAME, [0, 1, 2])
    np.testing.assert_allclose(found, [1 / 3] * 3, atol=1e-6)


def test_replicator_dynamics_find_the_mixed_equilibrium():
    """Rock-paper-scissors in which rock beats scissors twice: 1/4, 1/2, 1/4 by
    `solve_matrix`'s example, and no strategy below its floor."""
    payoffs = np.array([[0.0, -1, 2], [1, 0, -1], [-2, 1, 0]])
    found = projected_replicator_dynamics(payoffs, num_steps=8000)
    np.testing.assert_allclose(found, [0.25, 0.5, 0.25], atol=0.02)
    dominated = projected_replicator_dynamics(np.array([[0.0, 1], [-1, 0]]), floor=0.2)
    np.testing.assert_allclose(dominated, [0.9, 0.1], atol=0.01)


@pytest.mark.slow
def test_replicator_dynamics_lose_little_in_random_games():
    """The best response gains at most 3 % of the largest payoff; an equilibrium loses none."""
    rng, losses = np.random.default_rng(0), []
    for _ in range(60):
        half = rng.standard_normal([rng.integers(2, 17)] * 2)
        payoffs = half - half.T
        found = projected_replicator_dynamics(payoffs)
        losses.append((payoffs @ found).max() / np.abs(payoffs).max())
    assert max(losses) < 0.03


def test_a_mixture_draws_by_weight_and_asks_its_parts():
    weights = {"self": 1, "past_selves": 2, "random": 1, "mcts:10": 0}
    matchmaker = make_matchmaker({"mixture": {"weights": weights}})
    assert matchmaker.policies == ("random", "mcts:10")
    starts = [Start(GAME, 2, seed) for seed in range(4000)]
    seats = matchmaker.assign(starts, 0, np.random.default_rng(0))
    kinds = ["".join({*pair} - {"self"}) for pair in seats]
    share = {kind: kinds.count(kind) / 4000 for kind in ("", "self@0", "random")}
    assert share == pytest.approx({"": 0.25, "self@0": 0.5, "random": 0.25}, abs=0.03)


def test_all_seats_but_one_play_as_the_opponent():
    seats = against("random", Start("x", 4, 0), np.random.default_rng(1))
    assert sorted(seats) == ["random", "random", "random", "self"]


BAD = {
    "no matchmaker 'past_selfs'; did you mean 'past_selves'": "past_selfs",
    "'past_selves' has no option 'evry'; did you mean 'every'": {
        "past_selves": {"evry": 3}
    },
    "want every as an integer of at least 1, got 0": {"psro": {"every": 0}},
    "no matchmaker 'every'; known are": {"every": {}},
    "want one name with its options": {"every": 3},
    "'mixture' names itself": {"mixture": {"weights": {"mixture": 1}}},
    "one of them above 0, got {'self': 0}": {"mixture": {"weights": {"self": 0}}},
    "opponents of at least 0, one of them above 0, got {'self': -1": {
        "mixture": {"weights": {"self": -1}}
    },
    "got options of 'psro'": {"mixture": {"options": {"psro": {}}}},
    "names 'self@7' among its policies": {"mixture": {"weights": {"self@7": 1}}},
    "want meta among nash, replicator, got 'uniform'": {"psro": {"meta": "uniform"}},
}


@pytest.mark.parametrize("message", BAD)
def test_wrong_options_are_refused(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_matchmaker(BAD[message])


def test_games_that_do_not_fit_are_refused():
    hanabi = {"mini_hanabi-v0": make_game("mini_hanabi")}
    with pytest.raises(ValueError, match="which is cooperative"):
        make_matchmaker("prioritised").prepare(hanabi)
    with pytest.raises(ValueError, match="zero-sum games of two seats"):
        make_matchmaker("psro").prepare(hanabi)


def test_a_plug_in_is_found_by_its_entry_point(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from arena_trainers.matchmaking import BaseMatchmaker\n"
        "class Solo(BaseMatchmaker):\n"
        "    policies = ['solo']\n"
        "    def assign(self, starts, step, rng):\n"
        "        return [('self',) * start.num_seats for start in starts]\n"
    )
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    points = "[arena.matchmakers]\nsolo = mine:Solo\ngone = nowhere:Gone\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    assert "solo" in matchmakers.names()
    with pytest.raises(ValueError, match="'solo' names itself among its policies"):
        make_matchmaker("solo")
    with pytest.raises(ImportError, match="'gone' of plug-in 'mine' cannot be loaded"):
        make_matchmaker("gone")
