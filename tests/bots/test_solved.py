"""Bots that play what a solver found."""

import collections
import random
from typing import Any

import pytest

import arena_envs
from arena_envs.bots import make_bot
from arena_envs.bots.solved import CFRBot, Tabular
from arena_envs.game import CHANCE
from arena_envs.solvers import CFRPlus, TooLarge, minimax, uniform_table


def chances(spec, game, state):
    """The probabilities with which a bot chooses each legal action."""
    bot: Any = make_bot(spec)
    return bot.action_probs(game, state)


def test_a_table_is_played_as_often_as_it_says():
    game = arena_envs.make_game("kuhn_poker")
    state = game.apply(game.apply(game.initial_state(), 0), 1)
    table = {(0, (0, 0, ())): [0.3, 0.7]}
    bot = Tabular(table)
    assert bot.action_probs(game, state) == [0.3, 0.7]
    rng = random.Random(0)
    counts = collections.Counter(bot(game, state, rng) for _ in range(10_000))
    assert counts[1] / 10_000 == pytest.approx(0.7, abs=0.015)


def test_a_table_without_a_row_is_refused():
    game = arena_envs.make_game("kuhn_poker")
    state = game.apply(game.apply(game.initial_state(), 0), 1)
    with pytest.raises(ValueError, match="want 2 probabilities for information state"):
        Tabular({})(game, state, random.Random(0))


def test_cfr_plays_the_average_policy_of_its_game():
    """One bot in two games, by turns."""
    bot: Any = make_bot("cfr:20")
    for num_players in (2, 3, 2):
        game = arena_envs.make_game("kuhn_poker", num_players=num_players)
        solver = CFRPlus(game)
        solver.run(20)
        state = game.initial_state()
        for card in range(num_players):
            state = game.apply(state, card)
        row = solver.average_policy()[0, (0, 0, ())]
        assert bot.action_probs(game, state) == row
        assert row != uniform_table(game)[0, (0, 0, ())]


def test_a_game_too_large_for_cfr_is_refused():
    game = arena_envs.make_game("goofspiel")
    with pytest.raises(ValueError, match=r"more than 999 states.*MCCFR"):
        CFRBot(max_states=999)(game, game.initial_state(), random.Random(0))


@pytest.mark.parametrize(
    ("spec", "id"),
    [
        pytest.param("minimax", "connect_four", marks=pytest.mark.slow),
        ("cfr", "goofspiel"),
    ],
)
def test_bots_give_up_sooner_than_solvers(spec, id):
    game = arena_envs.make_game(id)
    state = game.initial_state()
    while game.current_player(state) == CHANCE:
        state = game.apply(state, game.chance_outcomes(state)[0][0])
    with pytest.raises(TooLarge, match="has more than 200000 states, want at most"):
        make_bot(spec)(game, state, random.Random(0))


def test_minimax_plays_perfectly_and_to_its_depth(after):
    game, state = after("tic_tac_toe", "a1", "a2", "b1", "b2")
    for spec in ("minimax", "minimax:1"):
        action = make_bot(spec)(game, state, random.Random(0))
        assert game.action_text(state, action) == "c1"
    game, state = after("tic_tac_toe", "a3", "b2", "b3")
    action = make_bot("minimax:2")(game, state, random.Random(0))
    assert game.action_text(state, action) == "c3"
    # the threat is beyond its horizon
    assert chances("minimax:1", game, state) == [1 / 6] * 6


def constant_results(game, seat, action, num_games, play):
    """Results of a constant policy in a seat against minimax: its return in each game."""
    bots = [make_bot("minimax"), make_bot("minimax")]
    bots[seat] = make_bot(f"constant:{action}")
    return [game.returns(play(game, bots, s)[-1])[seat] for s in range(num_games)]


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize(
    ("id", "params"),
    [
        ("tic_tac_toe", {}),
        ("connect_four", {"rows": 4, "columns": 4, "x_in_row": 3}),
    ],
)
def test_no_constant_policy_holds_minimax_in_more_than_a_third_of_its_games(
    id, params, seat, play
):
    game = arena_envs.make_game(id, **params)
    for action in range(game.num_actions):
        results = constant_results(game, seat, action, 300, play)
        assert sum(result >= 0 for result in results) <= 100, action


def test_200_games_of_minimax_against_itself_are_not_one_game(play):
    game, bot = arena_envs.make_game("tic_tac_toe"), make_bot("minimax")
    games = {tuple(play(game, [bot, bot], seed)) for seed in range(200)}
    assert len(games) > 100


def best_by_brute_force(game, state):
    seat = game.current_player(state)
    values = [
        minimax(game, game.apply(state, action)).returns[seat]
        for action in game.legal_actions(state)
    ]
    return {
        action
        for action, value in zip(game.legal_actions(state), values, strict=True)
        if value == max(values)
    }


@pytest.mark.parametrize("id", ["tic_tac_toe", "nim"])
def test_minimax_plays_only_best_actions_as_often_as_it_says(id, play):
    game = arena_envs.make_game(id)
    bot: Any = make_bot("minimax")
    for state in play(game, [make_bot("random")] * 2, 0)[-6:-1]:
        best = best_by_brute_force(game, state)
        often = dict(
            zip(game.legal_actions(state), bot.action_probs(game, state), strict=True)
        )
        assert {action for action in often if often[action]} <= best
        played = collections.Counter(
            bot(game, state, random.Random(s)) for s in range(400)
        )
        for action, chance in often.items():
            assert played[action] / 400 == pytest.approx(chance, abs=0.1)


def test_of_equal_actions_minimax_prefers_what_two_random_replies_would_lose(toys):
    """Each is worth 0; random replies lose 1/2 after the first, 1/4 after the second."""
    leaves = {value: (value, -value) for value in (0.0, 1.0)}

    def reply(key, *values):
        return toys.Choice(1, key, tuple(leaves[value] for value in values))

    root = toys.Choice(
        0, "root", (reply("a", 0.0, 1.0), reply("b", 0.0, 0.0, 0.0, 1.0), leaves[0.0])
    )
    game = toys.TreeGame(root, information="perfect")
    assert chances("minimax", game, root) == [0.8, 0.2, 0.0]
    assert chances("minimax:9", game, root) == [1 / 3] * 3


def test_minimax_takes_other_seats_to_draw_among_equals_as_it_does(toys):
    """Seat 1 is indifferent: half of the time seat 0 gets nothing, and 1 is better."""
    trap = toys.Choice(1, "trap", ((1.8, 0.0), (0.0, 0.0)))
    root = toys.Choice(0, "root", (trap, (1.0, 0.0)))
    game = toys.TreeGame(
        root, information="perfect", zero_sum=False, min_return=0.0, max_return=2.0
    )
    assert minimax(game).returns == (1.8, 0.0)  # which takes the first
    assert chances("minimax", game, root) == [0.0, 1.0]


class TestTheCoreOfALanguageGame:
    GAME: Any = arena_envs.make_game("bargaining", num_rounds=1, num_offers=5)

    def state_after(self, *texts: str) -> Any:
        state = self.GAME.apply(self.GAME.apply(self.GAME.initial_state(), 0.9), 0.9)
        for text in texts:
            state = self.GAME.apply(state, self.GAME.parse(state, text))
        return state

    def test_what_others_say_is_taken_for_the_nearest_of_the_core(self):
        state = self.state_after("Half is more than fair!\noffer 49.9")
        near = self.state_after("offer 50")
        assert self.GAME.core_state(state) == near
        assert chances("core_cfr:20", self.GAME, state) == pytest.approx(
            chances("cfr:20", self.GAME, near)
        )
        assert make_bot("core_cfr:20")(self.GAME, state, random.Random(0)).message == ""
        with pytest.raises(ValueError, match="want 2 probabilities for information"):
            make_bot("cfr:20")(self.GAME, state, random.Random(0))

    def test_the_ultimatum_is_solved(self):
        """The first player keeps almost all, and the second takes what it can get."""
        accepted, _ = chances("core_cfr", self.GAME, self.state_after("offer 24"))
        assert accepted > 0.99
        assert sum(chances("core_cfr", self.GAME, self.state_after())[:2]) > 0.99

    def test_a_game_without_such_states_is_refused(self):
        game = arena_envs.make_game("kuhn_poker")
        state = game.apply(game.apply(game.initial_state(), 0), 1)
        with pytest.raises(
            ValueError, match="want a language game with a method core_s"
        ):
            make_bot("core_cfr")(game, state, random.Random(0))
