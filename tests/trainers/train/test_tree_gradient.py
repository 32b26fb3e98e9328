"""The gradient on turn trees, by real play of a game in which it is known."""

import functools
from dataclasses import dataclass, replace

import numpy as np
import pytest

from arena_credit import estimate
from arena_envs import GameEnv
from arena_envs.game import CHANCE, TERMINAL, BaseGame
from arena_trainers.train import turn_batch, turn_records
from arena_wrappers import Branching, PromptWrapper, RandomPolicy, play

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
TREES = 300
PRIZE = 4.5  # with chance 1/5, so .9 on average; the safe way pays 1
SLOPE = 0.25 * (0.9 - 1)  # of what one choice is paid, in the log-odds of risk at 1/2
WANTED = ("state_key", "action", "parent", "branch")
ESTIMATORS = {
    "at_grpo": {"discount": 1.0, "scale": "none"},
    "agentprm": {"pool": ("group", "seat")},
}


@dataclass(frozen=True)
class Dare(BaseGame):
    """Seat 0 says a word that does not matter, then plays safe or dares; then comes luck.

    Luck is a chance node, or the other seat, which plays at random.
    """

    words: int = 1
    luck: str = "seat"
    num_players = 2
    num_actions = 50
    kind = "mixed"
    information = "perfect"
    min_return = 0.0
    max_return = PRIZE
    max_turns = 3

    def initial_state(self):
        return ()

    def current_player(self, state):
        return (0, 0, CHANCE if self.luck == "chance" else 1, TERMINAL)[len(state)]

    def legal_actions(self, state):
        if len(state) == 3 or self.current_player(state) == CHANCE:
            return ()
        return range((self.words, 2, 5)[len(state)])

    def chance_outcomes(self, state):
        if self.current_player(state) != CHANCE:
            return ()
        return [(outcome, 0.2) for outcome in range(5)]

    def apply(self, state, action):
        return (*state, action)

    def returns(self, state):
        if len(state) < 3:
            return (0.0, 0.0)
        word, dares, luck = state
        return ((PRIZE * (luck == word % 5) if dares else 1.0), 0.0)

    def rules(self, seat):
        return "Say a word, then 0 for safety or 1 for risk."

    def observe(self, state, seat):
        return str(state)

    def information_state(self, state, seat):
        return state

    def features(self, state, seat):
        return np.zeros(1, np.float32)

    def action_text(self, state, action):
        return str(action)


class Recorded(RandomPolicy):
    """Plays at random, and tells tokens, as the records of a learner need them."""

    def act(self, requests):
        return [
            replace(reply, prompt_ids=[1], token_ids=[2], logprobs=[-1.0])
            for reply in super().act(requests)
        ]


@dataclass
class Trees:
    """Many trees of one game: the records of seat 0's turns, and the turn batch of them."""

    follow: str
    words: int
    luck: str

    def __post_init__(self):
        game = Dare(self.words, self.luck)
        env = PromptWrapper(GameEnv(game), "bare")
        branching = Branching(8, seats=[0], follow=self.follow)
        episodes = play(env.clone, Recorded(), range(TREES), branch=branching)
        seats = [("self", "random")] * len(episodes)
        played = [0] * len(episodes), seats, [game], WANTED
        self.records = turn_records(episodes, *played, branching=branching)
        self.batch = turn_batch([self.records], {}, ["dare"], WANTED)

    def error(self, name, turns):
        """How far the gradient of the second choice is from the truth: standard errors.

        In a pool of n turns, with their own mean, it is n - 1 times that of one choice.
        """
        advantage = estimate(name, turns, **ESTIMATORS[name]).advantage
        second = (turns.turn == 1) & turns.unselected
        tree = turns.group[second]
        dares = np.array([record.action == 1 for record in self.records])[second]
        gradient = np.bincount(tree, np.where(dares, 0.5, -0.5) * advantage[second])
        pools = np.unique(np.stack([tree, turns.state_key[second]], axis=1), axis=0)
        repeated = np.bincount(tree) - np.bincount(pools[:, 0])
        error = gradient - repeated * SLOPE
        return error.mean() / (error.std() / len(error) ** 0.5)


PLAYED = {
    "many states": ("best", 40, "seat"),
    "one state": ("best", 1, "seat"),
    "chance": ("best", 40, "chance"),
    "random": ("random", 40, "seat"),
    "random, one state": ("random", 1, "chance"),
}
SLOW = pytest.mark.slow
PARAMS = [
    pytest.param(name, marks=() if name == "many states" else SLOW) for name in PLAYED
]


@functools.cache
def trees(name):
    return Trees(*PLAYED[name])


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("played", PARAMS)
def test_the_gradient_on_trees_is_the_true_one_but_for_shrinking(played, name):
    """With chance, the word whose luck comes is said by who dares best: its candidates need
    new luck."""
    found = trees(played)
    assert abs(found.error(name, found.batch)) < 4
    assert found.batch.unselected.all() == ("random" in played)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_turns_of_candidates_after_the_branch_would_turn_it_around(name):
    """Those of the best one teach to dare; those of the others, without it, not to."""
    found = trees("many states")
    everything = np.ones(len(found.records), bool)
    assert found.error(name, replace(found.batch, unselected=everything)) > 6
    found = trees("one state")
    followed = (found.batch.parent >= 0) & np.isin(
        found.batch.episode, found.batch.parent
    )
    others = replace(found.batch, unselected=found.batch.unselected | ~followed)
    assert found.error(name, others) < -5


@pytest.mark.parametrize("discount", [0.5, 1.0])
def test_what_is_not_fair_still_pays_for_the_turns_before(discount):
    """Returns-to-go of the branch turns as if all turns were unselected."""
    found = trees("many states").batch
    first = found.turn == 0
    options = {"discount": discount, "scale": "none"}
    got = estimate("at_grpo", found, **options).advantage
    plain = estimate("at_grpo", replace(found, unselected=None), **options).advantage
    np.testing.assert_allclose(got[first], plain[first], atol=1e-12)
    assert got[first].any()
    assert not got[~found.unselected].any()
