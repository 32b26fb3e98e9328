"""Bots of single kinds of games."""

import random
import statistics

import pytest

import arena_envs
from arena_envs.bots import make_bot
from arena_envs.games.hanabi import Hanabi
from arena_envs.solvers import best_response, expected_returns, information_states

HISTORIES = [  # own and the other's choices so far; what each bot does then, 1 to defect
    ((), {"tit_for_tat": 0, "grim_trigger": 0, "win_stay_lose_shift": 0}),
    (((0, 0),), {"tit_for_tat": 0, "grim_trigger": 0, "win_stay_lose_shift": 0}),
    (((0, 1),), {"tit_for_tat": 1, "grim_trigger": 1, "win_stay_lose_shift": 1}),
    (((1, 0),), {"tit_for_tat": 0, "grim_trigger": 0, "win_stay_lose_shift": 1}),
    (((1, 1),), {"tit_for_tat": 1, "grim_trigger": 1, "win_stay_lose_shift": 0}),
    (
        ((0, 1), (1, 0)),
        {"tit_for_tat": 0, "grim_trigger": 1, "win_stay_lose_shift": 1},
    ),
]


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize(("history", "wants"), HISTORIES)
def test_strategies_answer_what_was_done(history, wants, seat):
    game = arena_envs.make_game("iterated_prisoners_dilemma")
    state = game.initial_state()
    for own, other in history:
        for choice in (own, other) if seat == 0 else (other, own):
            state = game.apply(state, choice)
    if seat == 1:
        state = game.apply(state, 1)  # of this round, which nobody may see
    rng = random.Random(0)
    for spec, want in {**wants, "always_cooperate": 0, "always_defect": 1}.items():
        assert make_bot(spec)(game, state, rng) == want
    generous = make_bot("generous_tit_for_tat:0.25")
    share = statistics.mean(generous(game, state, rng) for _ in range(4000))
    assert share == pytest.approx(0.75 * wants["tit_for_tat"], abs=0.03)


def test_tit_for_tat_among_three_does_the_worst_that_others_did():
    payoffs = [[[[0, 0, 0]] * 2] * 2] * 2
    game = arena_envs.make_game("iterated_matrix_game", payoffs=payoffs)
    for choices, want in (((1, 0, 0), 0), ((0, 0, 1), 1), ((0, 1, 0), 1)):
        state = game.initial_state()
        for choice in choices:
            state = game.apply(state, choice)
        assert make_bot("tit_for_tat")(game, state, random.Random(0)) == want


def test_the_best_reply_to_tit_for_tat_defects_at_the_end():
    """Of four rounds three are cooperation: 5 + 5 + 5 + 10."""
    game = arena_envs.make_game("iterated_prisoners_dilemma", num_rounds=4)
    bot, table = make_bot("tit_for_tat"), {}
    for key, state in information_states(game).items():
        choice = bot(game, state, random.Random(0))
        table[key] = [float(action == choice) for action in game.legal_actions(state)]
    assert expected_returns(game, table) == (20, 20)
    assert (
        best_response(game, table, 0).value == best_response(game, table, 1).value == 25
    )


def test_tit_for_tat_never_wins_a_match(play):
    game = arena_envs.make_game("iterated_prisoners_dilemma")
    for seed in range(20):
        end = play(game, [make_bot("tit_for_tat"), make_bot("random")], seed)[-1]
        own, other = game.returns(end)
        assert 0 <= other - own <= 10


def test_the_best_at_hand_is_won_or_blocked(after):
    bot = make_bot("win_or_block")
    for texts, want in (
        (("a1", "a2", "b1", "b2"), "c1"),
        (("a1", "b2", "b1"), "c1"),
        (("a1", "b2", "c3", "b1"), "b3"),
    ):
        game, state = after("tic_tac_toe", *texts)
        found = {bot(game, state, random.Random(seed)) for seed in range(5)}
        assert {game.action_text(state, action) for action in found} == {want}
    game, state = after("tic_tac_toe", "a1", "b1", "b2", "c1", "a2", "a3")
    wins = {bot(game, state, random.Random(seed)) for seed in range(30)}
    assert {game.action_text(state, action) for action in wins} == {"c2", "c3"}
    game = arena_envs.make_game("tic_tac_toe")
    first = {bot(game, game.initial_state(), random.Random(s)) for s in range(100)}
    assert first == set(range(9))


@pytest.mark.slow
def test_othello_is_played_for_corners_and_discs(play):
    """By hand: the first four moves turn one disc each; and it beats random play."""
    game, bot = arena_envs.make_game("othello"), make_bot("othello_greedy")
    start = game.initial_state()
    found = {bot(game, start, random.Random(seed)) for seed in range(50)}
    assert found == set(game.legal_actions(start))
    num_corners = 0
    for seed in range(5):
        for state in play(game, [bot, make_bot("random")], seed)[:-1]:
            if state.player == 0:
                action = bot(game, state, random.Random(0))
                corners = {0, 7, 56, 63} & set(game.legal_actions(state))
                num_corners += bool(corners)
                assert action in (corners or game.legal_actions(state))
                gains = {
                    a: game.apply(state, a).black.bit_count()
                    for a in corners or game.legal_actions(state)
                }
                assert gains[action] == max(gains.values())
    assert num_corners > 5
    bots = [bot, make_bot("random")]
    scores = [game.returns(play(game, bots, seed)[-1])[0] for seed in range(60)]
    assert statistics.mean(scores) > 0.3


GAMES = [
    (arena_envs.make_game("mini_hanabi"), 100, 2.6),
    (Hanabi(), 20, 16.5),
    (Hanabi(num_players=5), 20, 14.5),
    (Hanabi(num_players=3, num_colors=2, max_information_tokens=0), 20, 0.0),
]


@pytest.mark.parametrize(("game", "num_games", "score"), GAMES, ids=repr)
def test_the_convention_scores_and_loses_no_life(game, num_games, score, play):
    bot, scores = make_bot("hanabi_convention"), []
    for seed in range(num_games):
        end = play(game, [bot] * game.num_players, seed)[-1]
        scores.append(game.returns(end)[0])
        if game.max_information_tokens:
            assert end.life_tokens == game.max_life_tokens
    assert statistics.mean(scores) >= score


@pytest.mark.parametrize("game", [GAMES[0][0], Hanabi(num_players=3)], ids=repr)
def test_the_convention_does_not_look_at_its_own_cards(game, play):
    bot, rng = make_bot("hanabi_convention"), random.Random(0)
    players = [make_bot("random")] * game.num_players
    num_hidden = 0
    for seed in range(10):
        for state in play(game, players, seed)[:-1]:
            if state.player >= 0:
                other = game.resample(state, state.player, rng)
                num_hidden += other != state
                actions = [bot(game, s, random.Random(seed)) for s in (state, other)]
                assert actions[0] == actions[1]
    assert num_hidden > 20


def test_the_convention_makes_playable_cards_known_first():
    """player_1 holds two cards of rank 1 and one of rank 2: "rank 1" says play both."""
    game = arena_envs.make_game("mini_hanabi")
    state = game.initial_state()
    for card in (
        0,
        1,
        2,
        0,
        2,
        1,
    ):  # own three, then the other's: red 1, yellow 1, red 2
        state = game.apply(state, card)
    bot = make_bot("hanabi_convention")
    hint = bot(game, state, random.Random(0))
    assert game.action_text(state, hint) == "reveal rank 1 to player_1"
    state = game.apply(state, hint)
    played = bot(game, state, random.Random(0))
    assert game.action_text(state, played).startswith("play")


def test_the_convention_draws_among_hints_that_say_as_much():
    """player_1 holds three cards of both colors and ranks 1: each hint touches some."""
    game = arena_envs.make_game("mini_hanabi")
    state = game.initial_state()
    for card in (0, 1, 3, 0, 2, 2):  # player_1: red 1, yellow 1, yellow 1
        state = game.apply(state, card)
    bot = make_bot("hanabi_convention")
    hints = {bot(game, state, random.Random(seed)) for seed in range(40)}
    state = game.apply(state, min(hints))
    played = {bot(game, state, random.Random(seed)) for seed in range(40)}
    assert len(hints) == 1  # "rank 1" touches all and says most
    assert {game.action_text(state, action)[:4] for action in played} == {"play"}
    assert len(played) == 3


class TestConstantTexts:
    GAME = arena_envs.make_game("bargaining", num_rounds=1, discounts=((1.0,), (1.0,)))

    def said(self, spec: str, *texts: str) -> str:
        state = self.GAME.apply(self.GAME.apply(self.GAME.initial_state(), 1.0), 1.0)
        for text in texts:
            state = self.GAME.apply(state, self.GAME.parse(state, text))
        action = make_bot(spec)(self.GAME, state, random.Random(0))
        return self.GAME.action_text(state, action)

    def test_a_text_is_said_wherever_the_game_reads_it(self) -> None:
        assert self.said("constant:Half? offer 50.5") == "Half?\noffer 50.50"
        assert self.said("constant:Half? offer 50.5", "offer 1") == "accept"
        assert self.said("constant:reject", "offer 1") == "reject"

    def test_a_text_that_the_game_never_reads_is_refused(self) -> None:
        with pytest.raises(ValueError, match="reads in some turn, got 'rejekt'"):
            self.said("constant:rejekt", "offer 1")
