"""The strings of bots, and what all bots have in common."""

import pickle
import random

import pytest

import arena_envs
import arena_envs.bots
from arena_envs.bots import BOTS, make_bot

PLAYERS = [  # every bot, in games that it can play
    ("random", "kuhn_poker"),
    ("random", "mini_hanabi"),
    ("first", "liars_dice"),
    ("constant:0", "kuhn_poker"),
    ("constant:3", "mini_hanabi"),
    ("constant:accept", "bargaining"),
    ("mcts:20", "tic_tac_toe"),
    ("mcts:5", "nim"),
    ("ismcts:20", "kuhn_poker"),
    ("ismcts:5", "leduc_poker"),
    ("ismcts:5", "mini_hanabi"),
    ("ismcts:5", "goofspiel"),
    ("ismcts:5", "tic_tac_toe"),
    ("minimax", "tic_tac_toe"),
    ("minimax:2", "nim"),
    ("cfr:3", "kuhn_poker"),
    ("cfr:3", "matching_pennies"),
    ("core_cfr:3", "bargaining"),
    ("win_or_block", "tic_tac_toe"),
    ("othello_greedy", "othello"),
    ("hanabi_convention", "mini_hanabi"),
    ("dealer:honest", "deal_or_no_deal"),
    ("dealer:greedy", "deal_or_no_deal"),
    ("dealer:silent", "deal_or_no_deal"),
    ("promiser:honest", "social_dilemma"),
    ("promiser:greedy", "social_dilemma"),
    ("promiser:silent", "social_dilemma"),
    ("maze_walker:honest", "collaborative_maze"),
    ("maze_walker:silent", "collaborative_maze"),
    ("maze_walker:greedy", "collaborative_maze"),
    ("always_cooperate", "iterated_prisoners_dilemma"),
    ("always_defect", "iterated_prisoners_dilemma"),
    ("tit_for_tat", "iterated_prisoners_dilemma"),
    ("generous_tit_for_tat:0.5", "iterated_stag_hunt"),
    ("grim_trigger", "iterated_prisoners_dilemma"),
    ("win_stay_lose_shift", "iterated_prisoners_dilemma"),
    ("information_gain", "wordle"),
    ("question_tree", "twenty_questions"),
    ("sokoban_search", "sokoban"),
    ("bidder:greedy", "auction"),
    ("bidder:honest", "auction"),
    ("bidder:silent", "auction"),
    ("negotiator:honest", "negotiation"),
    ("negotiator:greedy", "negotiation"),
    ("negotiator:silent", "negotiation"),
    ("persuader:honest", "persuasion"),
    ("persuader:greedy", "persuasion"),
    ("persuader:silent", "persuasion"),
    ("persuader:optimal", "persuasion"),
    ("referrer:honest", "referential"),
    ("referrer:greedy", "referential"),
    ("referrer:silent", "referential"),
    ("referrer:optimal", "referential"),
    ("spy:honest", "codenames"),
    ("spy:greedy", "codenames"),
    ("spy:silent", "codenames"),
    ("spy:optimal", "codenames"),
    ("taboo:honest", "taboo"),
    ("taboo:greedy", "taboo"),
    ("taboo:silent", "taboo"),
    ("taboo:optimal", "taboo"),
    ("information_gain", "wordle"),
    ("question_tree", "twenty_questions"),
    ("sokoban_search", "sokoban"),
    ("werewolf_player:greedy", "werewolf"),
    ("werewolf_player:honest", "werewolf"),
    ("werewolf_player:silent", "werewolf"),
    ("say_selector:honest", "say_select"),
    ("say_selector:greedy", "say_select"),
    ("say_selector:silent", "say_select"),
    ("say_selector:optimal", "say_select"),
    ("secret_holder:honest", "secret_keeper"),
    ("secret_holder:greedy", "secret_keeper"),
    ("secret_holder:silent", "secret_keeper"),
]

SMALL = {"core_cfr:3": {"num_rounds": 1}}  # parameters of the game


def test_every_bot_is_tried():
    assert {spec.partition(":")[0] for spec, _ in PLAYERS} == set(BOTS)


@pytest.mark.parametrize(("spec", "id"), PLAYERS)
def test_a_bot_plays_by_the_rules_and_by_its_generator_alone(spec, id, play):
    """The same seed gives the same game, whoever played before, pickled or not."""
    game = arena_envs.make_game(id, **SMALL.get(spec, {}))
    bot = make_bot(spec)
    global_state = random.getstate()
    first = play(game, [bot] * game.num_players, seed=1)
    play(game, [bot] * game.num_players, seed=2)
    again = pickle.loads(pickle.dumps(bot))
    assert again == bot == make_bot(spec)
    assert play(game, [again] * game.num_players, seed=1) == first
    assert play(game, [bot] * game.num_players, seed=1) == first
    assert random.getstate() == global_state


def test_the_page_lists_every_bot():
    rows = arena_envs.bots.__doc__.split("\n| `")[1:]
    listed = [row.split("`")[0].split(":")[0] for row in rows]
    assert listed == list(BOTS)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mtcs:10", "no bot 'mtcs'; did you mean 'mcts'"),
        ("zzz", "no bot 'zzz'; known are always_cooperate, "),
        ("mcts:many", "want an integer after 'mcts:', got 'mcts:many'"),
        ("mcts:", "want an integer after 'mcts:', got 'mcts:'"),
        ("constant", "want a bot as constant:ACTION, got 'constant'$"),
        ("MCTS:1", "no bot 'MCTS'; did you mean 'mcts'"),
        ("constant:", "want an action after 'constant:', got 'constant:'"),
        ("generous_tit_for_tat:x", "want a number after 'generous_tit_for_tat:'"),
        ("generous_tit_for_tat:2", "want generosity from 0 to 1, got 2.0"),
        ("first:1", "bot 'first' takes no argument, got 'first:1'"),
        ("mcts:0", "want num_simulations of 1 or more, got 0"),
        ("ismcts:-1", "want num_simulations of 1 or more, got -1"),
        ("minimax:0", "want depth of 1 or more, got 0"),
        ("cfr:0", "want num_iterations of 1 or more, got 0"),
        ("constant:-1", "want an action of 0 or more, got -1"),
    ],
)
def test_other_strings_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        make_bot(spec)


REFUSED = [
    ("mcts", "kuhn_poker", "for MCTS, got KuhnPoker.*; use the bot"),
    ("mcts", "goofspiel", "for MCTS, got Goofspiel.*; use the bot"),
    ("minimax", "kuhn_poker", "want a game of perfect information"),
    ("win_or_block", "kuhn_poker", "want a game of perfect information"),
    ("hanabi_convention", "kuhn_poker", "want Hanabi, got KuhnPoker"),
    ("dealer:honest", "bargaining", "want DealOrNoDeal, got Bargaining"),
    ("promiser:honest", "donor_game", "want SocialDilemma, got DonorGame"),
    ("tit_for_tat", "social_dilemma", "want a repeated matrix game, got SocialDilemma"),
    ("maze_walker:honest", "nim", "want CollaborativeMaze, got Nim"),
    ("othello_greedy", "tic_tac_toe", "want Othello, got TicTacToe"),
    ("tit_for_tat", "kuhn_poker", "want a repeated matrix game, got KuhnPoker"),
    ("tit_for_tat", "public_goods", "want a repeated matrix game, got PublicGoods"),
    ("bidder:honest", "bargaining", "want Auction, got Bargaining"),
    ("negotiator:honest", "bargaining", "want Negotiation, got Bargaining"),
    ("persuader:honest", "bargaining", "want Persuasion, got Bargaining"),
    ("referrer:honest", "bargaining", "want Referential, got Bargaining"),
    ("spy:honest", "bargaining", "want Codenames, got Bargaining"),
    ("taboo:honest", "bargaining", "want Taboo, got Bargaining"),
    ("werewolf_player:honest", "bargaining", "want Werewolf, got Bargaining"),
    ("say_selector:honest", "bargaining", "want SaySelect, got Bargaining"),
    ("secret_holder:honest", "nim", "want SecretKeeper, got Nim"),
    ("always_cooperate", "donor_game", "want a repeated matrix game, got DonorGame"),
    ("information_gain", "blackjack", "want a game of finding out a secret"),
    ("sokoban_search", "frozen_lake", "want Sokoban, got FrozenLake"),
    ("question_tree", "blackjack", "want a game of finding out a secret"),
    ("constant:2", "kuhn_poker", "has actions 0 to 1, got 2"),
]


@pytest.mark.parametrize(("spec", "id", "message"), REFUSED)
def test_a_game_that_a_bot_cannot_play_is_refused(spec, id, message, play):
    game = arena_envs.make_game(id)
    with pytest.raises(ValueError, match=message):
        play(game, [make_bot(spec)] * game.num_players, seed=0)


def test_a_constant_action_that_is_not_legal_gives_way_to_the_first(after):
    game, state = after("tic_tac_toe", "a1")
    assert make_bot("constant:4")(game, state, random.Random(0)) == 4
    assert make_bot("constant:0")(game, state, random.Random(0)) == 1
